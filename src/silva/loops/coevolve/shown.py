"""What a CoEvolve loop shows of itself as far as it has come: the paper's figures and tables of its own rounds.

figure 3   success, signals, tasks and conversion by round     table 7    what growing costs
figure 4   shares of the signals                               table 8    cross table against plain GRPO
figure 5   likeness of new tasks to what is held out           table 15   SR@k and ED_rel by update
figure 7   turns of the first tasks and of new ones            and groups whose rewards differ, which GRPO learns from
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from silva.errors import UsageError
from silva.lake import Lake
from silva.loops.coevolve.config import CoEvolveConfig
from silva.loops.coevolve.cross import crossed
from silva.loops.coevolve.tasks import grown
from silva.loops.kernel.loop import Loop
from silva.loops.kernel.shown import Born as ShownBorn
from silva.loops.kernel.shown import Curve, Sheet, Shown
from silva.loops.line import shown as line
from silva.loops.roles import Born, born
from silva.rollout.acted import Acted, in_all
from silva.tree import Task

Outputs = dict[int, dict[str, Any]]


def shown(loop: Loop[CoEvolveConfig]) -> Shown:
    """What is its own, and what every line's loop shows.

    Raises:
        StoreError: the lake cannot be read.
    """
    return own(loop).beside(line.shown(loop))


def own(loop: Loop[CoEvolveConfig]) -> Shown:
    """Curves, tables and tasks.

    Raises:
        StoreError: the lake cannot be read.
    """
    mine = [number for number, each in enumerate(loop.config.rounds, 1) if each.source == "policy"]
    of = {kind: _outputs(loop, kind, mine) for kind in ("rollout", "signals", "grow", "measure")}
    growths = {number: said for number, said in of["grow"].items() if said["run"]}
    new = grown(loop) if growths else []
    played, known = of["rollout"], list(growths)
    mixed = {"share": _of(played, lambda said: _part(said["mixed"], said["played"]))}
    tasks = {"known": _of(played, lambda said: said["known"])}
    tasks["synthesised, of those played"] = _of(played, lambda said: said["synthesised"])
    redundancy = {"SR@5": _of(growths, lambda said: said["diversity"].get("sr"))}
    distance = {"ED": _of(growths, lambda said: said["diversity"].get("ed"))}
    curves = [
        _success(loop, mine, of["measure"]),
        _curve("Groups whose rewards differ", mine, mixed),
        _curve("Signals", mine, _kinds(of["signals"], lambda said: said["signals"])),
        _curve("Tasks", mine, tasks),
        _curve("Accepted, of the candidates of each signal", known, _kinds(growths, _conversion)),
        _curve("SR@5 of new tasks", known, redundancy),
        _curve("Relative energy distance of new tasks to held-out ones", known, distance),
        _likeness(new),
        _turns(loop, new),
    ]
    faults: tuple[str, ...] = ()
    compared: list[Sheet] = []
    try:
        compared = crossed(loop)
    except UsageError as error:  # what is compared with may be moved or be turned on; the rest is there all the same
        faults = (str(error),)
    tables = [
        _signals(of["signals"]),
        _updates(growths),
        _refusals(loop, growths),
        _costs(loop, of["rollout"], growths),
        _roles(loop, growths),
        *compared,
    ]
    return Shown(
        curves=tuple(each for each in curves if each is not None and len(each.x)),
        tables=tuple(each for each in tables if each is not None and each.rows),
        tasks=tuple(_shown(task, how) for task, how in _all(loop, growths)),
        faults=faults,
    )


def _outputs(loop: Loop[CoEvolveConfig], kind: str, rounds: Iterable[int]) -> Outputs:
    found = {number: loop.outputs(f"round-{number}.{kind}") for number in rounds}
    return {number: said for number, said in found.items() if said is not None}


def _of(outputs: Outputs, value: Any) -> dict[int, float | None]:
    return {number: value(said) for number, said in outputs.items()}


def _kinds(outputs: Outputs, of: Any) -> dict[str, dict[int, float | None]]:
    kinds = sorted({kind for said in outputs.values() for kind in of(said)})
    return {kind or "none": {number: of(said).get(kind) for number, said in outputs.items()} for kind in kinds}


def _conversion(said: Mapping[str, Any]) -> dict[str, float | None]:
    return {kind: _part(each["accepted"], each["candidates"]) for kind, each in said["by_signal"].items()}


def _part(count: Any, of: Any) -> float | None:
    whole = len(of) if isinstance(of, Sequence) else of
    return count / whole if whole else None


def _curve(title: str, rounds: Sequence[int], series: Mapping[str, Mapping[int, float | None]]) -> Curve | None:
    known = [number for number in rounds if any(number in each for each in series.values())]
    if not known:
        return None
    return Curve(
        title=title,
        x=tuple(known),
        series={name: tuple(each.get(number) for number in known) for name, each in series.items()},
    )


def _success(loop: Loop[CoEvolveConfig], own: Sequence[int], measured: Outputs) -> Curve | None:
    first = loop.outputs("measure") if not own or own[0] == 1 else loop.outputs(f"round-{own[0] - 1}.measure")
    said = {**({own[0] - 1: first} if first is not None and own else {}), **measured}
    series = {
        "success": _of(said, lambda each: each["success"]),
        "success low": _of(said, lambda each: each["low"]),
        "success high": _of(said, lambda each: each["high"]),
    }
    return _curve("Success on dev", list(said), series)


def _likeness(new: Sequence[tuple[Task, Born]]) -> Curve | None:
    found = [how.similarity for _, how in new if how.similarity is not None]
    if not found:
        return None
    counts = Counter(min(19, max(0, int(each * 20))) for each in found)
    places = range(min(counts), max(counts) + 1)
    return Curve(
        title="Likeness of new tasks to the nearest held-out one (cosine)",
        x=tuple(f"{place / 20:.2f}" for place in places),
        series={"tasks": tuple(float(counts[place]) for place in places)},
    )


def _turns(loop: Loop[CoEvolveConfig], new: Sequence[tuple[Task, Born]]) -> Curve | None:
    survey = loop.outputs("survey")
    if survey is None:
        return None
    with Lake.open(loop.lake, mode="read") as lake:
        first = Counter(each.turns for each in lake.trajectories(run_id=str(survey["run"])) if each.outcome.success)
    made = Counter(len(how.solution) for _, how in new if how.solution)
    counts = [each for each in (first, made) if each]
    if not counts:
        return None
    places = range(min(map(min, counts)), max(map(max, counts)) + 1)

    def shares(found: Counter[int]) -> tuple[float | None, ...]:
        return tuple(_part(found[place], sum(found.values())) for place in places)

    return Curve(
        title="Turns of a solution: the environment's tasks by its expert, and new ones",
        x=tuple(places),
        series={"first": shares(first), "new": shares(made)},
    )


def _signals(signals: Outputs) -> Sheet | None:
    counts = Counter[str]()
    for said in signals.values():
        counts.update(said["signals"])
    total = sum(counts.values())
    rows = [(kind, count, _rounded(_part(count, total))) for kind, count in sorted(counts.items())]
    return Sheet(title="Signals of all rounds", columns=("signal", "found", "share"), rows=tuple(rows))


def _updates(growths: Outputs) -> Sheet | None:
    columns = (
        "round",
        "contexts",
        "turns",
        "candidates",
        "tasks",
        "waiting",
        "refused",
        "SR@5",
        "ED rel",
        "similarity",
    )
    rows = [
        (
            number,
            said["contexts"],
            said["turns"],
            said["candidates"],
            len(said["accepted"]),
            len(said["waiting"]),
            sum(said["refused"].values()),
            *(_rounded(said["diversity"].get(name)) for name in ("sr", "ed", "similarity")),
        )
        for number, said in growths.items()
    ]
    return Sheet(title="Growths, one by one", columns=columns, rows=tuple(rows))


def _refusals(loop: Loop[CoEvolveConfig], growths: Outputs) -> Sheet | None:
    kinds = sorted({kind for said in growths.values() for kind in said["by_signal"]})
    rows = [
        (kind or "none", *(sum(s["by_signal"].get(kind, {}).get(what, 0) for s in growths.values()) for what in _STEPS))
        for kind in kinds
    ]
    refused = Counter[str]()
    for said in growths.values():
        refused.update(said["refused"])
    if known := sum(said.get("known", 0) for said in growths.values()):
        rows += [("known already", "", known, "")]
    rows += [(f"refused: {reason}", "", "", count) for reason, count in refused.most_common()]
    return Sheet(title="From signals to tasks", columns=("signal", *_STEPS), rows=tuple(rows))


_STEPS = ("contexts", "candidates", "accepted")


def _costs(loop: Loop[CoEvolveConfig], rollouts: Outputs, growths: Outputs) -> Sheet | None:
    seconds = {"growing": 0.0, "all else": 0.0}
    for entry in loop.ledger.entries:
        name = entry.stage.partition(".")[2]
        if name:
            seconds["growing" if name in ("grow", "signals") else "all else"] += entry.seconds
    trained = sum(round(said["turns"] * said["episodes"]) for said in rollouts.values())
    grew = sum(said["turns"] + said["steps"] + said["attempted"] for said in growths.values())
    drawn = sum(said["drawn"] for said in rollouts.values())
    spent = sum(said["drawn"] for said in growths.values())
    rows = [
        ("turns of the environment", trained, grew, _rounded(_part(grew, trained + grew))),
        ("tokens drawn", drawn, spent, _rounded(_part(spent, drawn + spent))),
        (
            "seconds",
            round(seconds["all else"], 1),
            round(seconds["growing"], 1),
            _rounded(_part(seconds["growing"], sum(seconds.values()))),
        ),
    ]
    return Sheet(
        title="What growing costs (the paper: about 10 % of the time)",
        columns=("of the rounds", "playing and training", "growing", "share of growing"),
        rows=tuple(rows),
    )


def _roles(loop: Loop[CoEvolveConfig], growths: Outputs) -> Sheet | None:
    deeds = [msgspec.convert(each, Acted) for said in growths.values() for each in said["acted"]]
    deeds += [each for _, how in _all(loop, growths) for each in how.acted]
    rows: list[tuple[Any, ...]] = []
    for each, count in in_all(deeds):
        tokens = each.prompt_tokens + each.completion_tokens
        rows.append((each.role, each.by, each.model, count, tokens, round(each.seconds, 1), each.usd))
    return Sheet(
        title="Who acted", columns=("role", "by", "model", "times", "tokens", "seconds", "US dollars"), rows=tuple(rows)
    )


def _all(loop: Loop[CoEvolveConfig], growths: Outputs) -> list[tuple[Task, Born]]:
    if not growths:
        return []
    with Lake.open(loop.lake, mode="read") as lake:
        return [each for number, said in growths.items() for each in born(lake, str(said["run"]), number)]


def _shown(task: Task, how: Born) -> ShownBorn:
    return ShownBorn(
        id=task.id,
        words=how.goal.words,
        signal=how.source.signal,
        verdict=how.verdict if not how.reason else f"{how.verdict}: {how.reason}",
        parent=how.parent,
        more={
            "round": how.round,
            "pattern": how.goal.pattern,
            "why": how.why,
            "actions": len(how.solution),
            "similarity": _rounded(how.similarity),
            "nearest": how.nearest,
            "walk": how.source.trajectory,
            "seen in": how.source.seen,
            "explored in": how.source.explored,
        },
    )


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
