"""Running a checked plan, so that it may be killed at any moment and nothing is done or paid for twice.

Job (a folder: plan, ledger, files) ─▶ Runner ─▶ step by step ─▶ Child: a process for the tools ─▶ Store, by content
                                         └─ watches time and memory of the child; ends it where they are spent

store    artefacts by the digest of their content; which pure step gave which
ledger   a line for each thing that happened, durable before the job goes on
job      the folder: what is to be done, under which bounds, and what is done
clock    seconds that a job has taken, over all the processes that ran it
child, worker, guard   the process that runs tools, its side of the talk, and what it may open
runner   all of it together
"""
