"""The registry of policy versions in a lake: what there is, what is promoted, how it came to that.

    folder ─▶ checked against the base ─▶ blobs (durable) ─▶ event in the line's ledger ─▶ it is a version
    promote · rollback · reject ─▶ event                     materialise ─▶ a local folder, verified by digest

A line of policies is a ledger of the lake (`silva.lake.ledger`): one small file an event, made only where there is
none. Records of the journal would need the lake's writer lock, which a rollout or a gateway holds for hours; a ledger
is written beside them, by as many processes as like, in a folder and in an object store alike. Weights are the lake's
blobs, named by their content, and durable before the event that names them: a process killed at any moment leaves the
event or nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from difflib import get_close_matches
from pathlib import Path

import msgspec

import silva
from silva.errors import StoreError, UsageError
from silva.lake import Ledger, blobs, default_location
from silva.lake.layout import is_lake, make_lake
from silva.lake.ledger import ledgers
from silva.lake.place import Place, place
from silva.train.registry.event import Event
from silva.train.registry.line import Line
from silva.train.registry.version import Base, Data, PolicyVersion, StoredFile, check_line, line_and_number
from silva.tree import Json, Lineage

ROOT = "policies"
MOST_TRIES = 1000
"""How often a writer decides anew because another was faster."""
_event = msgspec.json.Decoder(Event)


class Registry:
    """The policy versions of one lake. Open one with `Registry.open`; nothing need be closed."""

    def __init__(self, where: Place) -> None:
        self._place = where
        self._ledgers: dict[str, Ledger] = {}

    @classmethod
    def open(
        cls, location: str | Path | None = None, *, make: bool = False, storage_options: dict[str, str] | None = None
    ) -> Registry:
        """Open the registry of a lake.

        Args:
            location: folder or `s3://bucket/prefix`; the default lake when None.
            make: make the lake where there is none.
            storage_options: keys and endpoint of the object store, as `Lake.open` takes them.

        Raises:
            StoreError: it is no lake, or cannot be read.
        """
        where = place(location if location is not None else default_location(), storage_options)
        if not is_lake(where, make=make):
            make_lake(where)
        return cls(where)

    @property
    def location(self) -> str:
        """The lake's name, as it was given."""
        return self._place.where

    # Reading

    def lines(self) -> list[Line]:
        """All lines, by name."""
        return [self.line(name.removeprefix(f"{ROOT}/")) for name in ledgers(self._place, ROOT)]

    def line(self, name: str) -> Line:
        """The line of that name as it stands; one that has not begun is empty.

        Raises:
            StoreError: its ledger is damaged.
            UsageError: the name is none of a line.
        """
        check_line(name)
        ledger = self._ledgers.setdefault(name, Ledger(self._place, f"{ROOT}/{name}"))
        return Line(name, (self._decoded(name, entry.number, bytes(entry.data)) for entry in ledger.entries()))

    def find(self, name: str) -> tuple[Line, PolicyVersion]:
        """The version of that name with its line: `LINE-NUMBER`, or `LINE` for its head.

        Raises:
            UsageError: there is none; the message says which there are.
        """
        parts = line_and_number(name)
        names = [each.removeprefix(f"{ROOT}/") for each in ledgers(self._place, ROOT)]
        wanted = name if parts is None else parts[0]
        if wanted in names:
            line = self.line(wanted)
            return line, line.find(name)
        close = get_close_matches(wanted, names, 1)
        there = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(names[:10]) or 'none'}"
        raise UsageError(f"lake {self.location}: has no policy line {wanted[:100]!r}; {there} (silva policy list)")

    # Writing

    def begin(
        self, line: str, base: Path, *, name: str = "", keep: bool = False, note: str = "", by: str = ""
    ) -> PolicyVersion:
        """Begin a line: its number 0 is the base itself, promoted. Begun before on the same base, it is as it was.

        Args:
            line: its name.
            base: the Hugging Face folder with the base's weights.
            name: what the base is called; its folder's name when left out.
            keep: keep the base's files in the lake (from-scratch policies); else they are looked for when needed.
            note: why.
            by: who does it.

        Raises:
            UsageError: no such folder, or the line began on another base.
            StoreError: it could not be written.
        """
        from silva.train.registry.weights import WeightsFolder

        check_line(line)
        folder = WeightsFolder(base)
        if folder.kind == "adapter":
            raise UsageError(f"{base.name} is an adapter: a line begins with whole weights")
        digest = folder.digest()
        label = name or base.resolve().name

        def decide(state: Line) -> Event | None:
            if state.begun:
                if state.base.digest != digest:
                    raise UsageError(f"line {line} grows from {state.base.label}, not from {label}@{digest}")
                return None
            tensors = self._put(msgspec.json.encode(folder.shapes(), order="sorted"))
            made = PolicyVersion(
                line=line,
                number=0,
                kind="base",
                base=Base(name=label, digest=digest, tensors=tensors),
                files=self._keep({file.name: file.read_bytes for file in folder.files}) if keep else (),
                lineage=_lineage(()),
                note=note,
                by=by,
                at=time.time(),
            )
            return Event(what="begun", number=0, at=made.at, by=by, note=note, record=made)

        return self._append(line, decide).versions[0]

    def register(
        self,
        line: str,
        folder: Path,
        *,
        parent: str = "",
        data: Data | None = None,
        config: str = "",
        metrics: Json | None = None,
        note: str = "",
        by: str = "",
        key: str = "",
    ) -> PolicyVersion:
        """Keep weights as the next version of a line, a candidate; return once it is durable.

        Args:
            line: a line that has begun.
            folder: a PEFT folder (LoRA), or a Hugging Face folder of whole weights with the base's shapes.
            parent: the version it was trained from; the head when left out.
            data: what it was trained on.
            config: digest of the configuration that trained it.
            metrics: what was measured of it, as JSON.
            note: what is to be said of it.
            by: who registers it.
            key: the caller's own name for it. A key given again returns the version it named, so that a trainer that
                was killed may register again what it registered before.

        Raises:
            UsageError: no such line, no such parent, weights for another base or with values that are no finite
                numbers, or the key named other weights.
            StoreError: it could not be written.
        """
        from silva.train.registry.checked import checked_files

        started = self.line(line)
        if not started.begun:
            raise UsageError(f"lake {self.location}: has no policy line {line!r}: begin it with its base")
        kind, contents = checked_files(folder, started.base, self.shapes(started.base))
        files = self._keep(contents)

        def decide(state: Line) -> Event | None:
            before = state.keyed(key)
            if before is not None:
                if before.files != files:
                    raise UsageError(
                        f"line {line}: the key {key!r} named other weights ({before.name}): choose a new one"
                    )
                return None
            source = state.find(parent) if parent else state.versions[state.head]
            made = PolicyVersion(
                line=line,
                number=len(state.versions),
                kind=kind,
                base=state.base,
                files=files,
                parent=source.name,
                data=data or Data(),
                lineage=_lineage((source.name,), config),
                metrics=metrics or {},
                note=note,
                by=by,
                at=time.time(),
                key=key,
            )
            return Event(what="registered", number=made.number, at=made.at, by=by, note=note, record=made)

        state = self._append(line, decide)
        return state.keyed(key) or state.versions[state.events[-1].number]

    def promote(self, version: str, *, by: str = "", note: str = "", over: str = "") -> Line:
        """Make a version the head of its line; one that is the head already stays it.

        Args:
            version: its name.
            by: who promotes it.
            note: why.
            over: the head it was found better than: refused where another is the head by now.

        Raises:
            UsageError: no such version, it was rejected, or the head is another than `over`.
        """
        line, found = self.find(version)

        def decide(state: Line) -> Event | None:
            if state.is_head(found):
                return None
            head = state.versions[state.head]
            if over and state.find(over).number != head.number:
                raise UsageError(
                    f"{found.name} was compared to {over}, but the head is {head.name} by now: compare anew"
                )
            return Event(what="promoted", number=found.number, at=time.time(), by=by, note=note, before=head.number)

        return self._append(line.name, decide)

    def rollback(self, line: str, *, to: str = "", by: str = "", note: str = "") -> Line:
        """Take the head of a line back to its parent, or to the version named.

        Args:
            line: the line, or the version that is expected to be its head.
            to: the version to go back to; the head's parent when left out.
            by: who does it.
            note: why.

        Raises:
            UsageError: no such line, the head is another, or nothing to go back to.
        """
        state, expected = self.find(line)

        def decide(state: Line) -> Event | None:
            if not state.is_head(expected):
                raise UsageError(
                    f"the head of line {state.name} is {state.versions[state.head].name}, not {expected.name}"
                )
            target = state.rollback_target(state.find(to) if to else None)
            return Event(
                what="rolled back", number=target.number, at=time.time(), by=by, note=note, before=expected.number
            )

        return self._append(state.name, decide)

    def reject(self, version: str, *, by: str = "", note: str = "") -> Line:
        """Say that a version is not to be served; one rejected before stays so.

        Raises:
            UsageError: no such version, or it is the head.
        """
        line, found = self.find(version)

        def decide(state: Line) -> Event | None:
            if state.status(found) == "rejected":
                return None
            return Event(what="rejected", number=found.number, at=time.time(), by=by, note=note)

        return self._append(line.name, decide)

    def note_published(self, version: str, route: str, *, by: str = "", note: str = "") -> Line:
        """Note that a gateway serves a version as the model `route`.

        Raises:
            UsageError: no such version, or it was rejected.
        """
        line, found = self.find(version)
        event = Event(what="published", number=found.number, at=time.time(), by=by, note=note, route=route)
        return self._append(line.name, lambda _: event)

    # Weights

    def shapes(self, base: Base) -> dict[str, tuple[int, ...]]:
        """Names and shapes of a base's tensors."""
        return msgspec.json.decode(blobs.get(self._place, base.tensors), type=dict[str, tuple[int, ...]])

    def contents(self, file: StoredFile) -> bytes:
        """The bytes of a version's file, verified.

        Raises:
            StoreError: they are gone or damaged.
        """
        return blobs.get(self._place, file.blob)

    def _put(self, data: bytes) -> str:
        return blobs.put(self._place, data)

    def _keep(self, contents: dict[str, Callable[[], bytes]]) -> tuple[StoredFile, ...]:
        # One file at a time is in memory.
        kept: list[StoredFile] = []
        for name in sorted(contents):
            data = contents[name]()
            kept.append(StoredFile(name=name, blob=self._put(data), size=len(data)))
        return tuple(kept)

    def _append(self, name: str, decide: Callable[[Line], Event | None]) -> Line:
        """Decide on the line as it stands until the decision is written before anybody else's."""
        for _ in range(MOST_TRIES):
            state = self.line(name)
            event = decide(state)
            if event is None:
                return state
            state.check(event)
            named = () if event.record is None else _blobs(event.record)
            if self._ledgers[name].append(len(state.events) + 1, msgspec.json.encode(event), named):
                state.apply(event)
                return state
        raise StoreError(f"lake {self.location}: others write policy line {name} without pause; try again later")

    def _decoded(self, line: str, number: int, data: bytes) -> Event:
        try:
            return _event.decode(data)
        except msgspec.DecodeError as error:
            raise StoreError(
                f"lake {self.location}: event {number} of policy line {line} cannot be read ({error}); upgrade silva,"
                " or restore it from a copy"
            ) from error


def _blobs(version: PolicyVersion) -> tuple[str, ...]:
    return tuple(dict.fromkeys((version.base.tensors, *(file.blob for file in version.files))))


def _lineage(parents: tuple[str, ...], config: str = "") -> Lineage:
    return Lineage(code=f"silva {silva.__version__}", config=config, parents=parents)
