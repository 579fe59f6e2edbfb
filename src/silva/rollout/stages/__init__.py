"""One turn is a short pipeline: what happens around it, each in a file of its own with the same small protocol.

    moment            called                                      a stage may
    ────────────────  ──────────────────────────────────────────  ─────────────────────────────────────────────────
    before_turn       before the agent is asked                   add nodes (memory), hold, summarise, end
    on_action         the turn is made, not yet on the path       rewrite or refuse it, draw candidates, keep a state
    settle            the action is on the path, not yet taken    hold it, put another in its place, answer it
    on_observation    the answer has come, not yet on the path    rewrite it (attack, perturbation, filter), add to it
    after_turn        the answer is on the path, not yet sent     keep a state, look
    at_end            no turn follows; not yet judged             take in last words
    on_evaluation     the environment has judged                  check effects, add metrics
    recall            stored nodes were taken up again            come back to the state it had

    before_turn ─▶ Live.ask ─▶ on_action ─▶ path ─▶ settle ─▶ env.step ─▶ on_observation ─▶ path ─▶ after_turn

The order of the stages is in `silva.rollout.stages.order`, once, for every moment. The loop
(`silva.rollout.episode.Episode`) knows none of them by name.

**What a stage writes is on the tree with its author.** An observation that a stage rewrote stands on the walk as its
author's node, marked `rewrites`; what the environment really said stands beside it, marked `rewritten`. What a
stage adds (`Stage.add`) travels with the next turn. Candidates that were not
chosen stand beside the one that was (`live.path.beside`). A refusal is on disk together with its answer.

**What is remembered is not decided again.** A resumed episode takes its stored turns again, rewritten ones as they were
shown, and no stage is asked about them: `recall` tells each which nodes those were. One exception: an action that was
on disk and had nothing behind it is settled, as it was about to be. The environment is always compared with what it
said itself.

**Several agents.** A stage is given the `Live` of the agent that acts, with its own path, agent and tools; agents of
one episode share the environment and these stages.
"""

from silva.rollout.ending import Ended, Stopped
from silva.rollout.live import Live, Refusal
from silva.rollout.stages.stage import Stage

__all__ = ["Ended", "Live", "Refusal", "Stage", "Stopped"]
