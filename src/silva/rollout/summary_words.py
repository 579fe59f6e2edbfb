"""What an agent is asked when its conversation has grown too long, and how it is shown what it answered."""

from __future__ import annotations

ASKED = """\
The conversation above is about to be replaced by a summary that you write now. You will go on with the task from the \
summary alone, so whatever you leave out is gone.

Write, under these headings, short and exact:

Task: what is asked, with every constraint, format and limit that was given.
People: what people who watch this run said to you, in their own words, and whether you have done it.
Known: what you found out about the environment and the problem that still matters, with names and numbers.
Results: what has been achieved so far, intermediate results and scores, each with where it came from.
State: the files, places, processes or objects as they are now, and what you changed; exact names and paths.
Mistakes: what failed, with the error and its cause where it is known, and what must not be tried again.
Next: what you were about to do.

Leave out what no longer matters. Do not call a tool and do not go on with the task: answer with the summary only."""
"""The request for a summary."""

SHOWN = "[Summary of turns {first} to {last}, which you wrote when the conversation had grown too long]"
BEHIND = "[What came back after turn {last}]"
