"""The web console: what is in a lake, and what is being grown, seen and steered from a browser.

    lake's journal ─▶ Follower ─▶ Watch (a thread) ─┬▶ Forest: runs and attempts, one light row each ─┐
                                                    └▶ Trees: the few trees that somebody looks at ────┤
                                                                                                       ▼
    browser ◀── differences (server-sent events) ◀── Streams ◀───────────────────────────────── what changed
    browser ──▶ questions (JSON) ─▶ App ─▶ users (token, role) ─▶ Reading: the lake, opened to read
    browser ──▶ orders (JSON) ────▶ App ─▶ users ─▶ Trail ─▶ Orders: silva.guide, labels, data sets

The engine that grows a run is another process and never waits for this one: it writes its journal, we read it. A new
turn costs the reading of its bytes and a line on the wire; a trajectory is sent once. The browser has only code of
ours, loaded from this server under a policy that lets nothing else run (docs/decisions/012-console.md).

    watch, forest, attempt, trees                  what there is, kept up to date
    stream                                         what a browser is told as it happens
    view, outline, work, comparing                 a tree as pages show it
    reading, overview, training                    questions to the lake
    orders, users, trail                           what people may do, and who did
    app, routes, serve                             the server
"""
