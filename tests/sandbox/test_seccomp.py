"""The filter, interpreted here as the kernel would: every named call is refused, everything else let through."""

from __future__ import annotations

import errno
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from silva.errors import MissingError
from silva.sandbox import seccomp

ALLOW, KILL = 0x7FFF0000, 0x80000000
ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}


def answer(program: bytes, number: int, architecture: int, arguments: tuple[int, ...] = (0,) * 6) -> int:
    """What the filter says to one call: an interpreter of the few instructions it uses."""
    data = struct.pack("=IIQ6Q", number, architecture, 0, *arguments)
    instructions = list(struct.iter_unpack("=HBBI", program))
    place = register = 0
    while True:
        code, yes, no, value = instructions[place]
        place += 1
        if code == 0x20:
            (register,) = struct.unpack_from("=I", data, value)
        elif code == 0x06:
            return value
        else:
            holds = {0x15: register == value, 0x35: register >= value, 0x45: bool(register & value)}[code]
            place += yes if holds else no


def refused(with_error: int) -> int:
    return 0x00050000 | with_error


@pytest.mark.parametrize("machine", ARCHITECTURES)
def test_every_named_call_is_refused(machine: str) -> None:
    program, column = seccomp.filter_program(machine), list(ARCHITECTURES).index(machine)
    for name, numbers in seccomp._REFUSED.items():
        if numbers[column] >= 0:
            assert answer(program, numbers[column], ARCHITECTURES[machine]) == refused(errno.EPERM), name
    assert len(program) // 8 < 4096


@given(number=st.integers(0, 0x3FFFFFFF), arguments=st.tuples(*[st.integers(0, 2**64 - 1)] * 6))
def test_what_is_not_named_is_let_through(number: int, arguments: tuple[int, ...]) -> None:
    named = {numbers[0] for numbers in seccomp._REFUSED.values()} | {56, 435, 41, 16}
    if number not in named:
        assert answer(seccomp.filter_program("x86_64"), number, ARCHITECTURES["x86_64"], arguments) == ALLOW


@given(flags=st.integers(0, 2**32 - 1))
def test_threads_and_forks_pass_and_namespaces_do_not(flags: int) -> None:
    said = answer(seccomp.filter_program("x86_64"), 56, ARCHITECTURES["x86_64"], (flags, 0, 0, 0, 0, 0))
    assert said == (refused(errno.EPERM) if flags & 0x7E020000 else ALLOW)


@given(family=st.integers(0, 60))
def test_only_plain_families_of_sockets(family: int) -> None:
    said = answer(seccomp.filter_program("x86_64"), 41, ARCHITECTURES["x86_64"], (family, 1, 0, 0, 0, 0))
    assert said == (ALLOW if family in (1, 2, 10, 16) else refused(errno.EAFNOSUPPORT))


def test_other_tables_kill_and_terminals_cannot_be_typed_into() -> None:
    program = seccomp.filter_program("x86_64")
    assert answer(program, 39, 0x40000003) == KILL
    assert answer(program, 0x40000000 + 39, ARCHITECTURES["x86_64"]) == KILL
    assert answer(program, 435, ARCHITECTURES["x86_64"]) == refused(errno.ENOSYS)
    # The kernel looks at the low half alone; so must the filter.
    for request, said in ((0x5412, refused(errno.EPERM)), (0x1_0000_5412, refused(errno.EPERM)), (0x5413, ALLOW)):
        assert answer(program, 16, ARCHITECTURES["x86_64"], (0, request, 0, 0, 0, 0)) == said


def test_an_unknown_processor_says_so() -> None:
    with pytest.raises(MissingError, match="no seccomp filter is known for riscv64"):
        seccomp.filter_program("riscv64")
