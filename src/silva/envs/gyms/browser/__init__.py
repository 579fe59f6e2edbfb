"""The browser gym: an agent that reads pages as numbered elements and acts on them, in a real Chromium.

    environment   reset, step, evaluate of any browser task           actions    the tools, carried out on a page
    chromium      the one browser of this process, a context each     reading    a page as text and numbered elements
    enclosure     the namespaces Chromium runs in, and the sockets    doors      the program that opens those sockets
                  it is reached by
    website       requests answered by Python, served by a proxy      script     an expert's moves, one a turn
    miniwob       MiniWoB++ tasks, from its package's own pages       miniwob_forms, miniwob_pages, miniwob_puzzles
                                                                      their experts
    shop, mail    sites of our own, with their state                  sites      the tasks over them
    errand        something to get done there, made from a seed       shop_errands, mail_errands   with experts, checks

    agent's call ─▶ actions ─▶ Playwright ─▶ Chromium, in namespaces without a network
                                                │ its only way out: a proxy on the loopback of those namespaces,
                                                ▼ whose listening socket was handed to this process
                                             website ─▶ a file of MiniWoB++, or a site's Python
    page as it then is ─▶ reading ─▶ tool result

Every context has its own proxy, so `http://shop.test/` is another shop for every instance, and a name that no site
answers to leads nowhere. Nothing is left of an episode: a context is closed with its cookies, and sites are made anew.
"""
