"""The terminal gym: a sandbox with files, shells on terminals, and a task that a test decides.

    Harbor folder ─▶ HarborTask ─▶ Recipe (its Dockerfile) ─▶ sandbox ─▶ tool calls ─▶ answers
                                                                  │ snapshot / restore
        evaluate: a copy of the sandbox at this moment ─▶ tests/ put in ─▶ test.sh ─▶ reward ◀─┘

One noun a file:

    environment   Terminal, the Environment: a turn's tool calls, one after another    tools      what they are called
    harbor        HarborTask: a task folder read and written                           dockerfile Recipe: what it builds
    world         World: one task's sandbox, made, kept, gone back to                  places     paths there and here
    shells        Shell: commands on a terminal that run on between turns              verdict    the tests, in a copy
    editor        files viewed, written, edited, searched                              shell_line what a line would run
    documents     PDF, DOCX, PPTX, images, read in a sandbox of their own (reader)     risks      rules over actions
    expert        the turns that solve a task                                          backend    one for each process
    tasks/        ten tasks

What a shell printed while nobody looked is there when the agent asks: programs run on between turns.
"""
