"""Rollouts and readers over a Ray cluster: `on: ray`.

    driver (queue, ledger, lake) ─── assignment: slot, turns already kept ───▶ worker (a Ray actor on a node):
         ▲                                                                      hosts, model, episodes
         └──────────── letters: records, blobs, faults (a long poll) ──────────────┘           ▲
       journal, fsync ─── acknowledgement: numbers, whether the budget is spent ───────────────┘ the agent goes on

One process writes a lake, and that stays the driver: it alone holds the writer's lock. A worker's `Path` submits its
records as it does at home; here they travel as bytes that are already encoded, and the future that the episode waits
on is done when the driver's journal has them on disk. The other way, a journal for each worker that is merged later,
would keep turns on machines that may not come back, would let siblings on two nodes write their shared prompt twice,
and would need a merge that survives kills of its own. What the one writer costs is a message each way a turn, some
milliseconds beside a model's seconds; its journal takes far more turns a second than one process can send.

What follows from it:

- Slots, seeds, ids and turns are those of a run without Ray. The driver drops nodes that the tree has already, so that
  each is written once, whoever said it first.
- A worker that dies (killed, out of memory, its node gone) or falls silent is never listened to again. Its episodes
  begin again on others with the turns that the journal has, as `--resume` would: the model is not asked again for
  those, the environment is stepped through them. Another worker is started in its place.
- An episode that has cost `1 + retries` workers ends as a failure at infrastructure, `ray.worker`.
- The driver's own end takes the workers with it, and theirs the hosts and models they started; `--resume` goes on from
  the lake, on Ray or not.

| file | what it is |
|---|---|
| cluster.py | the connection to Ray: the only place here that imports it |
| placement.py | which node each worker goes to |
| letters.py | what driver and worker say to each other |
| outbox.py | the worker's end of the journal |
| worker.py | the actor: hosts, model, episodes |
| member.py | the driver's end of one worker |
| flight.py | one episode under way, as the driver knows it |
| crew.py | all workers: who plays what, and what happens when one is lost |
| shares.py | plain tasks over the cluster, for readers |
"""

from __future__ import annotations
