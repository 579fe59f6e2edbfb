"""Online training: generation and training side by side, coupled by the buffer's bound and by nothing else.

    Order ─▶ Generation ─ start(id) ─▶ Buffer (silva.train.buffer)
               │  permit                  ▲            │ take
               ▼                          │ put        ▼
             Growth: slots, rollout ─▶ harvest    BufferSource ─▶ Trainer ─▶ Engine
               ▲  engine, lake          samples,       │
               │                        scores         │ after each step: weights ─▶ Publisher ─▶ commit(cursor, step)
               └───────────── the model, at its newest version ◀───────────────────────┘

    config.py       what an online run is asked to do
    order.py        which task group number n is of, and its places
    growth.py       grows one group with the rollout engine, in one lake, under one run
    harvest.py      trajectories of a group ─▶ scored samples ─▶ a group for the buffer, or why there is none
    generation.py   keeps as many groups in growth as the buffer permits
    source.py       the buffer as the trainer's source; hands over each new version before it takes again
    publisher.py    the protocol `Publisher`, and the names versions have on nodes
    own_server.py   a model server of the run's own: adapters, loaded beside the old one, then switched
    vllm_server.py  vLLM in its place, on a GPU; vllm_child.py keeps it
    whole_server.py the same for whole weights: the next server is started, then the old one drains and stops
    gateway.py      a gateway that is there already, through the registry (silva.train.registry.publish)
    training.py     the training side: Silva's own, or TRL's (silva.train.online.trl_async)
    timeline.py     who worked and who waited, in spans of a monotonic clock; idle shares, step windows
    drawing.py      that as a page
    run.py          one run; launch.py opens what it needs, from a configuration

`mode: sync` is a bound of 0: groups are grown, then trained, in turns. `mode: async` is a bound of `staleness`: the
next steps' groups grow while this one's are trained. Nothing else differs.

What is known after a kill: the lake knows every turn, the buffer every group and the trainer's cursor, the last
checkpoint the weights and its cursor. A resumed run serves the checkpoint's weights, commits its cursor again (or
rewinds to it), and grows on: trajectories that were cut off go on from their last turn, groups that are in the buffer
are not grown again, groups that are whole in the lake are only scored again. Group n is of the same task, at the same
seeds, whenever it is grown.
"""
