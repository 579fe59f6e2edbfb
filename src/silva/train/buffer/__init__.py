"""The buffer: between those who grow groups and the one who trains on them. It knows groups, versions and a bound.

    rollout side                        Job (one per training run)                              trainer
    start(ids) ─▶ Controller.start      permits left? else wait, then 429                       │
      … grow …                                                                                  │
    put(group) ─▶ file, fsync ─▶ Controller.enter ─▶ journal ─▶ Receipt                         │
                                          │ ready            ◀── take(after, count) ────────────┤
                                          │ too stale: withheld, kept, listed                    │
                                          ▼                                                     ▼
                                   Delivered, numbered 1, 2, 3 … ─▶ journal ─▶ Delivery ─▶ one step of training
                                                                    commit(cursor, version) ◀───┘
    controller.py  the rules, pure: what may start, what is next, what is withheld; its docstring is its specification
    events.py      what the journal keeps; replaying them gives the controller back, exactly
    job.py         one job: controller, journal, files; waiting; a full disk
    jobs.py        the folder of all jobs, and their tokens
    group.py       the nouns that cross the wire
    buffer.py      the protocol `Buffer`: what a job is to its two sides, near or far
    app.py, serve.py, client.py, blocking.py   the same over HTTP, and without asyncio

The samples of a group are opaque bytes here (`Sample.to_bytes`). Every call may be sent twice: groups are known by id,
takes by cursor, commits by cursor and version. So a client that lost an answer asks again, and a trainer, rollout
worker or buffer that was killed goes on where it was.
"""

from __future__ import annotations

from silva.train.buffer.blocking import BlockingBuffer
from silva.train.buffer.buffer import Buffer
from silva.train.buffer.client import BufferClient, open_job
from silva.train.buffer.config import BufferConfig, JobConfig
from silva.train.buffer.group import Admission, Delivery, Group, Header, Receipt, Status, Withheld
from silva.train.buffer.job import Job
from silva.train.buffer.jobs import Jobs
from silva.train.buffer.refused import Refused

__all__ = [
    "Admission",
    "BlockingBuffer",
    "Buffer",
    "BufferClient",
    "BufferConfig",
    "Delivery",
    "Group",
    "Header",
    "Job",
    "JobConfig",
    "Jobs",
    "Receipt",
    "Refused",
    "Status",
    "Withheld",
    "open_job",
]
