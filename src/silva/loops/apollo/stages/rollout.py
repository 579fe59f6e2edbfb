"""Stage `rollout`: the head plays some of `train`, and people speak to it."""

from __future__ import annotations

from silva.guide.mailroom import Mailroom
from silva.lake import Lake
from silva.loops.apollo.apollo import ApolloLoop
from silva.loops.apollo.speaking import ScriptedMailroom
from silva.loops.flywheel.plan import Stage
from silva.loops.flywheel.stages.play import drawn, play, tasks_named, told
from silva.loops.flywheel.weights import playing
from silva.rollout.guided_nodes import not_taken
from silva.train.data.dataset import read_dataset
from silva.tree import Json


def run(loop: ApolloLoop, stage: Stage) -> Json:
    """Play; what people said is in the lake, and counted here.

    Raises:
        UsageError: no task is left, or the environment or model is not known.
        MissingError, UnreachableError, StoreError: as `run_rollout`.
    """
    config = loop.config
    settings = config.rounds[stage.round - 1]
    head = loop.head(stage)
    entries = read_dataset(loop.part_file("train")).entries
    ids = drawn([entry.task_id for entry in entries], settings.tasks, stage.seed)
    name = loop.run_name(stage)
    rooms: list[Mailroom] = []

    def room(resume: bool) -> Mailroom:
        if config.person is not None:
            rooms.append(ScriptedMailroom.scripted(config.person, loop.lake, name, resume=resume))
        else:
            rooms.append(Mailroom.of(loop.lake, name, resume=resume))
        return rooms[-1]

    more = {
        "model": playing(loop, head),
        "group": settings.group,
        "seed": stage.seed,
        "sampling": {"temperature": settings.temperature, "logprobs": True},
    }
    result = play(loop, name, tasks_named(loop, ids), more, room if config.guidance else None)
    for each in rooms:
        each.mailbox.close()
    with Lake.open(loop.lake, mode="read") as lake:
        words = {one.attributes.get("word") for one in lake.supervisions(run_id=name) if one.source == "person"}
        walks = [lake.walk(each) for each in lake.trajectories(run_id=name) if each.leaf_id is not None]
    return {
        "run": name,
        "version": head,
        "guidance": config.guidance,
        "words": len(words - {None}),
        "refused": sum(len(not_taken(walk)) for walk in walks),
        **told(result),
    }
