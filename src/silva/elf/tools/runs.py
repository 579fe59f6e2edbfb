"""What runs came to: figures, two runs side by side, a page, masks, judges' agreement, pairs of steps."""

from __future__ import annotations

import asyncio
from hashlib import sha256
from typing import Annotated

import msgspec
from msgspec import Meta

from silva.curate.mask.agreement import agreement
from silva.curate.mask.config import JudgeConfig, MaskConfig
from silva.curate.mask.masking import mask
from silva.curate.mask.rules import NAMES
from silva.curate.pairs import candidate_pairs, pairs_of_run
from silva.curate.pairs import step_pairs as pairs_of
from silva.elf.artefact import Figures, File, Pairs, Table
from silva.elf.tool import Cost, Permission, tool
from silva.elf.tools.asking import must_have_run, reading
from silva.elf.tools.writing import Name
from silva.elf.work import Work
from silva.errors import UsageError
from silva.lake import default_location
from silva.report import Interval, compare, summarise, write_report
from silva.report.wording import bounds, percent
from silva.tree import Json

Run = Annotated[str, Meta(min_length=1, description="the run's name")]


@tool(
    Permission.READ,
    asks=(
        "summarise run",
        "figures of run",
        "result run",
        "how did run",
        "report run",
        "success rate run",
        "sum up",
        "summarise",
        "summary",
        "how well",
        "report figure",
        "performance",
        "report",
        "howdid",
    ),
)
def summarise_run(run: Run, work: Work) -> Figures:
    """The figures of a run: success and score with intervals, failures, turns, tokens, cost, by environment."""
    with reading(work) as lake:
        must_have_run(lake, run)
        done = summarise(lake.trajectories(run_id=run))
    figures: Json = {
        "run": run,
        "attempts": done.attempts,
        "tasks": done.tasks,
        "success": _share(done.success),
        "score": _share(done.score),
        "safety": _share(done.safety),
        "failed": done.failed,
        "turns, mean": done.turns.mean,
        "tokens": done.spent.prompt_tokens + done.spent.completion_tokens,
        "usd": done.spent.usd,
        "by environment": [
            {"env": e.env, "attempts": e.attempts, "success": _share(e.success), "score": _share(e.score)}
            for e in done.envs
        ],
        "failures": [
            {"boundary": str(f.boundary), "code": f.code, "count": f.count, "example": f.example} for f in done.failures
        ],
    }
    return Figures(figures=figures)


@tool(
    Permission.READ,
    asks=("compare run", "compare", "side by side", "better than", "difference run", "versus", "against"),
)
def compare_runs(
    run: Run, against: Annotated[str, Meta(min_length=1, description="the run it is compared with")], work: Work
) -> Figures:
    """Two runs side by side, paired by task, with intervals."""
    with reading(work) as lake:
        for each in (run, against):
            must_have_run(lake, each)
        done = compare(lake.trajectories(run_id=against), lake.trajectories(run_id=run), against, run)
    rows = [
        {"env": d.env or "all", "tasks": d.tasks, against: d.left, run: d.right, "difference": _share(d.success)}
        | {"better": d.better, "worse": d.worse}
        for d in (done.overall, *done.envs)
    ]
    return Figures(figures={"run": run, "against": against, "tasks of both": done.overall.tasks, "differences": rows})


@tool(
    Permission.READ,
    asks=("html report", "report page", "html page", "web page", "report html", "html"),
    cost=Cost(seconds=3.0),
)
def write_page(run: Run, work: Work, against: str = "", name: Name = "") -> File:
    """The HTML report of a run, one file that opens offline."""
    path = work.file(name or f"{run}.html")
    done = write_report(work.lake or default_location(), run, path, against=against or None)
    digest = sha256(path.read_bytes()).hexdigest()
    return File(path=str(path), format="html", count=done.attempts, sha256=digest)


@tool(
    Permission.READ,
    Permission.WRITE,
    asks=("mask turn", "mask bad", "not worth learning", "mask mistake", "mask", "judge turn"),
    cost=Cost(seconds=5.0),
)
def mask_turns(
    run: Run, work: Work, rules: Annotated[tuple[str, ...], Meta(description=f"some of {', '.join(NAMES)}")] = NAMES
) -> Figures:
    """Let symbolic rules say which turns of a run carry no loss, and keep what they say in the lake."""
    config = MaskConfig(lake=work.lake or default_location(), run=(run,), rules=rules)
    return _masked(asyncio.run(mask(config)))


@tool(
    Permission.READ,
    Permission.WRITE,
    Permission.MODEL,
    asks=("model judge mask", "judge mask model", "mask judge", "mask by model", "mask with model"),
    cost=Cost(seconds=30.0, tokens=20_000),
)
def mask_turns_by_model(run: Run, work: Work) -> Figures:
    """Let rules and a model say which turns of a run carry no loss."""
    model = work.needs_model("mask-turns-by-model")
    call = work.meter.announce(20_000) if work.meter is not None else 0
    config = MaskConfig(lake=work.lake or default_location(), run=(run,), judge=JudgeConfig(model=model))
    done = asyncio.run(mask(config))
    if work.meter is not None:
        work.meter.tell(call, 20_000)  # its questions are not counted one by one: what was announced stands
    return _masked(done)


@tool(Permission.READ, asks=("agree judge", "agreement", "judge agree", "rule agree", "kappa"))
def judges_agreement(run: Run, work: Work) -> Table:
    """How far rules, judges and people agree on the turns of a run."""
    with reading(work) as lake:
        must_have_run(lake, run)
        return Table(rows=tuple(each.model_dump() for each in agreement(lake, [run])))


@tool(
    Permission.READ,
    asks=("preference pair", "step pair", "pair step", "dpo pair", "pair", "sibling pair", "chosen rejected"),
    cost=Cost(seconds=3.0),
)
def make_pairs(
    run: Run, work: Work, margin: Annotated[float, Meta(ge=0, description="how far apart scores lie at least")] = 0.0
) -> Pairs:
    """Pairs of actions behind one turn, of which one led to the better score or was judged better among candidates: the
    best against the worst."""
    with reading(work) as lake:
        must_have_run(lake, run)
        judged = pairs_of_run(lake, run, lambda tree, attempts: candidate_pairs(tree, attempts, margin=margin)).pairs
        attempts = [each for each in lake.trajectories(run_id=run) if not each.superseded and each.leaf_id]
        trees = sorted({each.tree_id for each in attempts})
        found = [
            pair
            for tree in trees
            for pair in pairs_of(
                lake.tree(tree),
                [each for each in attempts if each.tree_id == tree],
                lambda each: each.outcome.score,
                "score",
                margin,
            )
        ]
    if not found and not judged:
        raise UsageError(
            f"run {run}: no two attempts part behind a turn with different scores, and no candidates were judged; grow "
            "it with branches or candidates"
        )
    return Pairs(pairs=(*found, *judged))


def _share(interval: Interval | None) -> str:
    return f"{percent(interval.value if interval else None)} {bounds(interval)}".strip()


def _masked(done: object) -> Figures:
    figures: Json = msgspec.to_builtins(done.model_dump())  # pyright: ignore[reportAttributeAccessIssue]
    by = figures.pop("by")
    failures = tuple(figures.pop("failures"))
    return Figures(figures={**figures, "by": [{"who": k, "masked": v} for k, v in by.items()]}, notes=failures[:5])
