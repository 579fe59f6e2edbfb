"""A sample: what a trainer needs of one stretch of context, in arrays of one length. Nothing in it was re-tokenised.

    position   0 … n-1
    ids        what the model saw, and what it drew
    drawn      which of them the policy drew
    mask       which of them carry loss: drawn by the policy, and kept by supervision
    logprobs   of the drawn ones under the policy that drew them, NaN where it is not known, else 0
    advantages what an algorithm wrote there, 0 until then
    weights    how much each position counts, 1 until a reader says otherwise

    Sample ─ to_bytes ─▶ size | header (msgpack) | ids, logprobs, advantages, weights, flags ─ from_bytes ─▶ Sample

The bytes are what a buffer keeps and a file holds: little-endian, four bytes an entry, one for the two flags.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from silva.errors import UsageError

Ids = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float32]
Flags = npt.NDArray[np.bool_]

ENCODING = 1
"""Version of the encoded form."""


class SampleError(UsageError):
    """A sample that cannot be trained on as it is; the message names it, and says what to do."""


class Image(msgspec.Struct, frozen=True, kw_only=True):
    """An image the context shows, by reference: the blob's hash in the lake and the position of its placeholder."""

    hash: str
    position: int


class Action(msgspec.Struct, frozen=True, kw_only=True):
    """What the policy drew in one turn: `ids[start:stop]`, the node it stands on, the policy version that drew it."""

    node_id: str
    start: int
    stop: int
    version: str = ""


class _Header(msgspec.Struct, kw_only=True, omit_defaults=True):
    encoding: int
    length: int
    actions: tuple[Action, ...] = ()
    images: tuple[Image, ...] = ()
    run_id: str = ""
    task_id: str = ""
    trajectory_id: str = ""
    env: str = ""
    index: int = 0
    segment: int = 0
    reward: float = float("nan")
    versions: tuple[str, ...] = ()
    attributes: dict[str, Any] = msgspec.field(default_factory=dict[str, Any])


_ARRAYS = ("ids", "mask", "drawn", "logprobs", "advantages", "weights")
_NUMBERS = (("ids", "<i4"), ("logprobs", "<f4"), ("advantages", "<f4"), ("weights", "<f4"))
_TOLD = ("actions", "images", "run_id", "task_id", "trajectory_id", "env", "index", "segment", "reward", "versions")
_PER_ID = 4 * len(_NUMBERS) + 1
_PREFIX = struct.Struct("<I")


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Sample:
    """One training sample. Arrays have shape (n,); `drawn` says which ids the policy sampled, whether they carry loss
    or not, and `actions` which of them belong to one turn, in order. `versions` are the policy versions that drew them,
    in order of appearance. `trajectory_id`, `index` and `task_id` say where it comes from, `segment` which stretch of
    the trajectory (0 unless a summary or a template cut it). `reward` is the trajectory's, NaN where it has none.

    Two samples are equal when all they hold is, NaN included.

    Raises:
        ValueError: arrays of different lengths.
    """

    ids: Ids
    mask: Flags
    drawn: Flags
    logprobs: Floats
    advantages: Floats
    weights: Floats
    actions: tuple[Action, ...] = ()
    images: tuple[Image, ...] = ()
    run_id: str = ""
    task_id: str = ""
    trajectory_id: str = ""
    env: str = ""
    index: int = 0
    segment: int = 0
    reward: float = float("nan")
    versions: tuple[str, ...] = ()
    attributes: dict[str, Any] = field(default_factory=dict[str, Any])

    def __post_init__(self) -> None:
        n = len(self.ids)
        for name in _ARRAYS[1:]:
            if len(getattr(self, name)) != n:
                raise ValueError(f"sample: {name} has {len(getattr(self, name))} entries for {n} ids")

    def __len__(self) -> int:
        return len(self.ids)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sample) and self.to_bytes() == other.to_bytes()

    __hash__ = None  # pyright: ignore[reportAssignmentType]

    @property
    def name(self) -> str:
        """What a message calls it: its trajectory, place in the group and segment."""
        place = f"{self.task_id or 'no task'}, try {self.index}" + (f", segment {self.segment}" if self.segment else "")
        return f"sample of trajectory {self.trajectory_id[:12] or 'unknown'} ({place})"

    @property
    def has_logprobs(self) -> bool:
        """Whether every drawn id has its log-probability."""
        return not bool(np.isnan(self.logprobs[self.drawn]).any())

    def spans(self) -> list[tuple[int, int]]:
        """Where each action begins and ends; runs of drawn ids where `actions` does not say."""
        if self.actions:
            return [(action.start, action.stop) for action in self.actions]
        edges = np.flatnonzero(np.diff(np.concatenate(([False], self.drawn, [False])).astype(np.int8)))
        return [(int(start), int(stop)) for start, stop in zip(edges[::2], edges[1::2], strict=True)]

    def to_bytes(self) -> bytes:
        """The sample as bytes.

        Raises:
            SampleError: `attributes` hold what msgpack cannot.
        """
        told = {name: getattr(self, name) for name in _TOLD}
        try:
            header = _encode(_Header(encoding=ENCODING, length=len(self), attributes=self.attributes, **told))
        except (TypeError, ValueError, OverflowError) as error:
            raise SampleError(f"{self.name}: cannot be encoded ({error}); keep its attributes plain JSON") from error
        flags = self.mask.astype(np.uint8) | (self.drawn.astype(np.uint8) << 1)
        numbers = [np.ascontiguousarray(getattr(self, name), dtype=kind).tobytes() for name, kind in _NUMBERS]
        return b"".join((_PREFIX.pack(len(header)), header, *numbers, flags.tobytes()))

    @classmethod
    def from_bytes(cls, data: bytes | memoryview) -> Sample:
        """The sample that `to_bytes` made these bytes of. Its arrays are its own.

        Raises:
            SampleError: cut short, not a sample, or of a newer encoding.
        """
        view = memoryview(data)
        if len(view) < _PREFIX.size:
            raise SampleError(f"sample: {len(view)} bytes are none; the file or message was cut short")
        (size,) = _PREFIX.unpack_from(view)
        try:
            header = _decode(view[_PREFIX.size : _PREFIX.size + size])
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise SampleError(f"sample: not one, or damaged ({error}); write it again from the lake") from error
        if header.encoding != ENCODING:
            raise SampleError(f"sample: of encoding {header.encoding}, this Silva reads {ENCODING}; update Silva")
        place, n = _PREFIX.size + size, header.length
        if n < 0 or len(view) != place + n * _PER_ID:
            raise SampleError(f"sample: {len(view)} bytes where {place + n * _PER_ID} are said; it was cut short")
        arrays: dict[str, Any] = {}
        for name, kind in _NUMBERS:
            arrays[name] = np.frombuffer(view, kind, n, place).astype(kind[1:])
            place += 4 * n
        flags = np.frombuffer(view, np.uint8, n, place)
        told = {name: getattr(header, name) for name in _TOLD}
        return cls(
            **arrays,
            mask=(flags & 1).astype(bool),
            drawn=(flags & 2).astype(bool),
            **told,
            attributes=header.attributes,
        )


_encode = msgspec.msgpack.Encoder(order="deterministic").encode
_decode = msgspec.msgpack.Decoder(_Header).decode
