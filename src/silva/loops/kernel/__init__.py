"""What every loop is. The kernel knows no policy, no environment and no kind of loop by more than its name.

    config ─▶ kind ─▶ plan ─▶ first stage that is not over ─▶ worker ─▶ outputs ─▶ ledger ─▶ the next ─▶ … ─▶ report

Nouns: a *stage* is one step with a name, whose inputs are named by a digest and whose outputs are JSON; the *plan* is
all of them, from the configuration alone; the *ledger* (`ledger.jsonl`, appended and fsynced) says which have begun and
ended; *pieces* are what a stage makes one by one, each kept under what it was made of, so that none is made twice by a
stage that is begun again; *progress* is how many of them there are so far. A *loop* is a folder with its configuration,
ledger and results; its *kind* is a record that names how it is configured, planned, run and told.

Each stage runs in a process of its own (`worker`): torch's memory goes with it, threads of one do not trouble the next,
and `kill -9` anywhere is just a stage that has not ended. A worker ends itself when its parent dies, and holds a lock
meanwhile, so a loop that is begun again never meets its own past. Everything random is drawn from the loop's seed and
the stage's name.
"""
