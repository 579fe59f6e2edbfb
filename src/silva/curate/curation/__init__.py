"""Curations: Python source that turns a raw corpus into what is trained on and remembered, kept in the lake.

    rows of a lake or of files ─▶ corpus (walks as JSON) ─▶ sandbox: curate(raw), twice ─▶ the same? ─▶ checked
      ─▶ sft (walks, turns, loss) · rl (tasks) · memory (texts) ─▶ profile ─▶ a version in the lake: source, parent,
      verdict

source      a curation: its text, digest, difference from another        corpus      what it is given
operators   what it may call: general operations on walks, no Silva      driver      what runs inside the sandbox
running     the run: no network, limits, twice                           curated     what it gave, checked
profile     scale, turns, lengths, redundancy; the cost J counts         versions    what the lake keeps of it
memory      a memory as a bank of skills

A curation never sees a task that is held out, and names what it keeps by ids of the corpus: it cannot write a token
that a policy is said to have sampled.
"""
