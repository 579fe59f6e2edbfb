"""Registers `browser-miniwob` and `browser-sites`."""

from silva.envs.protocol import EnvironmentEntry

# Without dependencies: miniwob's pages are wanted, not its Selenium environment.
_NO_DEPS = ("playwright==1.65.2", "greenlet==3.5.6", "miniwob==1.1.0")

ENTRIES = [
    EnvironmentEntry(
        name="browser-miniwob",
        target="silva.envs.gyms.browser.miniwob:MiniWob",
        summary="MiniWoB++ pages in a real Chromium: buttons, forms, tabs, tables, mail, small puzzles",
        no_deps=_NO_DEPS,
        licence="MIT",
        source="https://github.com/Farama-Foundation/miniwob-plusplus",
        splits=("test", "train"),
        sample=41,
    ),
    EnvironmentEntry(
        name="browser-sites",
        target="silva.envs.gyms.browser.sites:Sites",
        summary="errands in a shop and a mailbox of our own in a real Chromium: orders, refunds, mail, a phishing page",
        no_deps=_NO_DEPS,
        licence="Apache-2.0",
        source="Silva",
        splits=("test", "train"),
        sample=30,
    ),
]
