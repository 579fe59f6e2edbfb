"""The pilot: attempts until a stated check holds, within hard budgets; tools that are derived on the way wait for a
person.

    intent ─▶ plan ─▶ run ─▶ check: holds? ─▶ done
                ▲              │ no: what lacks
                └── Toolsmith: a tool that mends it: a composition of tools, or code that a model wrote
                      └─▶ tested and measured (code: in a sandbox alone) ─▶ candidate ─▶ the next attempt uses it

    check      a condition over the result: metrics, SQL, or a model's judgement
    toolsmith  what is derived, and its tests
    pilot      the attempts, their ledger, and going on after a kill
"""
