"""A person's words on their way to a running agent (APOLLO, section 3.3).

    person ─▶ Word ─▶ Mailbox (a file: durable, many writers) ─▶ engine, between two turns ─▶ node, supervision

Nobody has to watch every step: words wait until the turn under way has ended, and the agent never waits for words
unless it was told to.
"""

from silva.guide.mailbox import Mailbox
from silva.guide.word import Word

__all__ = ["Mailbox", "Word"]
