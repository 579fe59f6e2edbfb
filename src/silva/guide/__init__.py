"""A person's words on their way to a running agent (APOLLO, section 3.3).

    person ─▶ post ─▶ Word ─▶ Mailbox (a file: durable, many writers) ─▶ engine, between two turns ─▶ node, supervision
    engine ─▶ Event ─▶ Events (a file) ─▶ who waits for approval, what was heard ─▶ console, terminal, web hook

Nobody has to watch every step: words wait until the turn under way has ended, and the agent never waits for words
unless it was told to.
"""

from silva.guide.event import Event, Events, Waiting
from silva.guide.mailbox import Mailbox
from silva.guide.post import events, post, waiting, words
from silva.guide.word import Word

__all__ = ["Event", "Events", "Mailbox", "Waiting", "Word", "events", "post", "waiting", "words"]
