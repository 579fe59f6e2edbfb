"""Data sets: which trajectories are trained on, and which are kept for judging. Small files that name, not copy.

    runs of a lake ─▶ entries (trajectory, task, first question)
                        └─▶ split by task ─┬▶ train.jsonl ─▶ mix, upsample ─▶ load_samples
                                           ├▶ dev.jsonl
                                           └▶ test.jsonl        leaks between them: none, or named

A `DataSet` is a file of JSON lines: a header, then an `Entry` a trajectory with how often it counts (`copies`) and how
much (`weight`). Trajectories and their tokens stay in the lake. A task belongs to one part by its own name alone, so a
task that is added later moves none. What is never to be trained on is kept apart by task, never by turn; two tasks that
ask the same are one question, and the leak check says so.
"""
