"""Stage `rollout`: the head plays some of `train`, and people speak to it."""

from __future__ import annotations

from silva.guide.mailroom import Mailroom
from silva.lake import Lake
from silva.loops.apollo.config import ApolloConfig
from silva.loops.apollo.speaking import ScriptedMailroom
from silva.loops.kernel.loop import Loop
from silva.loops.kernel.stage import Stage
from silva.loops.line.stages import rollout
from silva.loops.line.weights import renderer
from silva.rollout.guided_nodes import not_taken
from silva.tree import Json


def run(loop: Loop[ApolloConfig], stage: Stage) -> Json:
    """Play; what people said is in the lake, and counted here.

    Raises:
        UsageError: no task is left, or the environment or model is not known.
        MissingError, UnreachableError, StoreError: as `run_rollout`.
    """
    config = loop.config
    name = loop.run_name(stage)
    rooms: list[Mailroom] = []

    def room(resume: bool) -> Mailroom:
        if config.person is not None:
            rooms.append(ScriptedMailroom.scripted(config.person, loop.lake, name, resume=resume))
        else:
            rooms.append(Mailroom.of(loop.lake, name, resume=resume))
        return rooms[-1]

    waits = config.approval.model_dump(mode="json")
    waits["renderer"] = waits["renderer"] or (renderer(loop) if config.takeovers else "")
    guided = config.guidance
    played = rollout.run(loop, stage, room if guided else None, {"guidance": waits} if guided else {})
    for each in rooms:
        each.mailbox.close()
    with Lake.open(loop.lake, mode="read") as lake:
        words = {one.attributes.get("word") for one in lake.supervisions(run_id=name) if one.source == "person"}
        walks = list(lake.walks(lake.trajectories(run_id=name)))
    return {
        "guidance": config.guidance,
        "words": len(words - {None}),
        "refused": sum(len(not_taken(walk)) for walk in walks),
        **played,
    }
