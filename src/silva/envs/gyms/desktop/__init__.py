"""The desktop gym: an agent that uses a real Linux desktop, in a sandbox, by OSWorld's actions.

    environment   Desktop, the Environment: a turn's actions, a look      actions   what they are; OSWorld's words
    world         World: one task's desktop, its sites; kept and begun    task      DesktopTask, Evidence
    display       Display: X server and applications in one sandbox       tasks/    the twelve
    applications  how each is started and set up                          packages  what Debian must have brought
    seeing        the accessibility tree as a table; Sight                moves     an expert's moves
    showing       what goes back to the agent                             documents what was saved, read apart
    view, rfb     looking on from a browser                               inside/   the programs in the sandbox

    agent's action ─▶ checked ─▶ driver, in the sandbox ─▶ X ─▶ applications ─▶ files, sites
                                     │ one socket on the sandbox's loopback           │ read when judged, never believed
    picture, tree, what was opened ◀─┘                                                ▼ score, safety

There is no network inside. Where a task needs pages, a proxy on the sandbox's loopback answers for its sites (those of
the browser gym), from this process.
"""
