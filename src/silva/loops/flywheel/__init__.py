"""The flywheel: run, select, train, prove, promote, and round again.

    base ─▶ survey (the expert plays every task) ─▶ split (by task; leak check) ─▶ measure (the base on `dev`)
    round:  rollout ─▶ select ─▶ train ─▶ register ─▶ measure (the candidate on `dev`) ─▶ judge ─┬▶ promoted: head
              ▲                                                                                   └▶ rejected: none
              └─────────────────────────────── the head plays the next round ◀────────────────────────────┘
    prove (base and head on `test`, which no decision saw; a head that is worse is rolled back) ─▶ report

Nouns: a *stage* is one step with a name, whose inputs are named by a digest and whose outputs are JSON; the *plan* is
all of them, from the configuration alone; the *ledger* (`ledger.jsonl`, appended and fsynced) says which have begun and
ended; the *loop* is a folder with its configuration, ledger, lake, sets and weights; a *verdict* compares two versions
task by task.

Each stage runs in a process of its own (`worker`): torch's memory goes with it, threads of one do not trouble the next,
and `kill -9` anywhere is just a stage that has not ended. A worker ends itself when its parent dies, and holds a lock
meanwhile, so a loop that is begun again never meets its own past. A stage that is run again goes on: rollouts by their
run's name, training from its checkpoint, versions by their key. Everything random is drawn from the loop's seed and the
stage's name.

What a policy drew is trained on with log-probabilities computed anew by the trainer (`select.logprobs: recomputed`):
how requests met in a batch of the server changes the last bits of its numbers, and must not change the weights.
"""
