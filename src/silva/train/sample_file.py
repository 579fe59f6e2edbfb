"""A file of samples: what `silva train samples` writes and a trainer reads, one sample after another.

    magic | length, crc32, sample.to_bytes() | length, crc32, … | an empty frame: the end

The frames are those of the lake's journal. The file takes its name only once it is whole and on disk.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from silva.lake.frames import HEADER, LARGEST, frame
from silva.train.sample import Sample, SampleError
from silva.train.whole_file import Whole

MAGIC = b"SILVAS1\n"


def write_samples(path: Path, samples: Iterable[Sample], *, force: bool = False) -> int:
    """Write the samples to a file; return how many.

    Raises:
        UsageError: the file is there already and `force` is not said, or it cannot be written; no part of it is left.
    """
    count = 0
    with Whole(path, force) as file:
        file.write(MAGIC)
        for sample in samples:
            file.write(frame(sample.to_bytes()))
            count += 1
        file.write(frame(b""))
    return count


def read_samples(path: Path) -> Iterator[Sample]:
    """The samples of a file, one at a time.

    Raises:
        SampleError: no such file, not one of samples, cut short, or damaged; the message says which sample.
    """
    try:
        with path.open("rb") as file:
            if file.read(len(MAGIC)) != MAGIC:
                raise SampleError(f"{path.name}: not a file of samples; make one with `silva train samples`")
            number = 0
            while True:
                head = file.read(HEADER.size)
                length, checksum = HEADER.unpack(head) if len(head) == HEADER.size else (LARGEST + 1, 0)
                payload = file.read(length) if length <= LARGEST else b""
                if length > LARGEST or len(payload) != length or zlib.crc32(payload) != checksum:
                    raise SampleError(f"{path.name}: sample {number} is cut short or damaged; write the file again")
                if not payload:
                    return
                yield Sample.from_bytes(payload)
                number += 1
    except OSError as error:
        raise SampleError(f"{path.name}: cannot be read ({error.strerror})") from error
