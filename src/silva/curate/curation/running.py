"""A curation's run: in a sandbox without network, within limits, twice; what differs is refused.

    corpus ─▶ sandbox 1 ─▶ answer ─┐
    corpus ─▶ sandbox 2 ─▶ answer ─┴▶ the same bytes? ─▶ checked ─▶ Curated

The two runs are of two sandboxes and two hash seeds, so what depends on the order of a set, the clock, chance or on
what an earlier run left behind gives itself away.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Collection, Sequence
from pathlib import Path

from silva.curate.curation.corpus import Corpus
from silva.curate.curation.curated import Curated, CurationError, checked
from silva.curate.curation.source import Curation, driver, operators
from silva.sandbox import open_backend
from silva.sandbox.limits import MIB, Limits
from silva.sandbox.protocol import WORKSPACE, Backend, Spec
from silva.sandbox.result import Killed, Result
from silva.tree import Record

_SEEDS = ("1", "2")


class Bounds(Record, frozen=True, kw_only=True):
    """What a run may use: seconds, bytes of memory, bytes of its answer."""

    seconds: float = 60.0
    memory: int = 1024 * MIB
    answer: int = 64 * MIB


BOUNDS = Bounds()


async def curate(
    curations: Sequence[Curation],
    corpus: Corpus,
    *,
    held_out: Collection[str] = (),
    bounds: Bounds = BOUNDS,
    backend: str = "namespaces",
) -> list[Curated | CurationError]:
    """Run curations on a corpus, one after the other; what each gave, or why it cannot be used.

    Args:
        curations: their sources.
        corpus: what they are given.
        held_out: ids and words of tasks that nothing may be made of.
        bounds: what each of the two runs of one may use.
        backend: of the sandbox; no other is taken in its place.

    Raises:
        MissingError: the sandbox cannot be had here.
        UsageError: bounds that make no sense.
    """
    made: list[Curated | CurationError] = []
    with tempfile.TemporaryDirectory(prefix="silva-curation-") as folder:
        async with await open_backend(backend, state=Path(folder)) as opened:
            for each in curations:
                try:
                    made.append(await _curated(opened, each, corpus, held_out, bounds))
                except CurationError as error:
                    made.append(error)
    return made


async def _curated(
    backend: Backend, curation: Curation, corpus: Corpus, held_out: Collection[str], bounds: Bounds
) -> Curated:
    name = f"curation {curation.digest[:12]}"
    one, other = await asyncio.gather(*(_answer(backend, curation, corpus, bounds, seed) for seed in _SEEDS))
    if one != other:
        raise CurationError(
            f"{name}: is not deterministic: two runs on the same corpus gave different data; leave out chance, the "
            "clock and the order of sets"
        )
    return checked(one, corpus, held_out, name)


async def _answer(backend: Backend, curation: Curation, corpus: Corpus, bounds: Bounds, seed: str) -> bytes:
    limits = Limits(
        memory=bounds.memory,
        processes=16,
        cpus=1.0,
        disk=64 * MIB,
        wall=bounds.seconds,
        output=2 * bounds.answer,
        flood=2 * bounds.answer,
    ).checked()
    async with await backend.create(Spec(limits=limits)) as box:
        texts = {"curation": curation.source, "operators": operators(), "driver": driver()}
        for each, text in texts.items():
            await box.put(text.encode(), f"{WORKSPACE}/{each}.py")
        result = await box.exec(
            ["python3", "-I", "-X", "utf8", f"{WORKSPACE}/driver.py"],
            stdin=corpus.data,
            seconds=bounds.seconds,
            variables={"PYTHONHASHSEED": seed},
        )
    if not result.ok:
        raise CurationError(f"curation {curation.digest[:12]}: {_why(result, bounds)}")
    if result.truncated:
        raise CurationError(f"curation {curation.digest[:12]}: gives more than {bounds.answer // MIB} MB; keep less")
    return result.stdout


def _why(result: Result, bounds: Bounds) -> str:
    match result.killed:
        case Killed.TIME:
            return f"took more than {bounds.seconds:g} s; does it loop? else give it more (seconds)"
        case Killed.MEMORY:
            return f"used more than {bounds.memory // MIB} MB; keep less in memory, or give it more (memory)"
        case None:
            said = result.stderr.decode(errors="replace").strip().splitlines()
            return f"failed ({said[-1].strip()[:200] if said else f'exit code {result.code}'})"
        case _:
            return f"was ended ({result.killed}: {result.reason})"


def run_curation(
    curation: Curation, corpus: Corpus, *, held_out: Collection[str] = (), bounds: Bounds = BOUNDS
) -> Curated:
    """Run one curation; see `curate`.

    Raises:
        CurationError: it failed, took too long or too much, is not deterministic, or gave what cannot be used.
        MissingError, UsageError: as `curate`.
    """
    made = asyncio.run(curate([curation], corpus, held_out=held_out, bounds=bounds))[0]
    if isinstance(made, CurationError):
        raise made
    return made
