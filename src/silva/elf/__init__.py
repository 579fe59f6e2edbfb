"""The data engine: an intent in plain words becomes a checked plan of typed tools, is run, and ends in a report.

    intent ─▶ planner (offline, or a model at an endpoint) ─▶ Plan (JSON, a DAG of steps) ─▶ check ─▶ runner ─▶ report
                     ▲                                                      │
                 cards of the tools                         faults: it never runs; each is a line

Nouns, each a module:

- **Artefact** (`artefact`): what flows from step to step: rows, a table, a data set, findings, scores, a file …
- **Tool** (`tool`): a typed Python function. Its **Card** (types in and out, permissions, cost, determinism, version)
  and its OpenAI schema come from the function's signature. `toolbox` holds all of them, those of packages too.
- **Plan** (`plan`): JSON. A step names a tool, where its artefacts come from, and its settings; nothing in it is code.
- **Checking** (`checking`): types chain, settings fit, permissions are granted, the budget suffices, no circle.
- **Planner** (`planner`): a protocol. `intent` plans offline; `endpoint` asks a model. The same checker stands behind
  both, so a planner can be wrong but not dangerous.
- **Runner** (`running`): steps in the order of the graph, each in a child process that is stopped where it takes too
  long or too much memory; results are kept by content, so a job that was killed goes on where it was.
- **Pilot** (`pilot`): attempts until a stated check holds, within hard budgets; derives tools, which run only in
  `silva.sandbox` and wait for a person to promote them.

Nothing generated ever runs in this process: plans are data, and derived code runs in a sandbox without a network.
"""
