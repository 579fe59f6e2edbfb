"""Groups for the buffer's tests."""

from __future__ import annotations

from silva.train.buffer import Group, Header


def group(name: str, *versions: int, size: int = 2, payload: bytes = b"x") -> Group:
    samples = tuple(payload + name.encode() + bytes([index]) for index in range(size))
    return Group(id=name, task_id="t/1", versions=versions or (0,), rewards=(1.0,) * size, samples=samples)


def header(name: str, *versions: int) -> Header:
    return group(name, *versions).header()
