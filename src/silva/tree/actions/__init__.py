"""What an action says and would do, read once for everybody who matches it: what is forbidden, what waits for approval,
what a snapshot is kept before, what a rule of a gym calls a risk.

    action ─▶ texts: words and calls, their arguments decoded ─▶ patterns of people and configurations
       └──▶ command lines (`lines`) ─▶ programs: a shell's grammar, quotes and wrappers undone ─▶ rules over programs

Matched is what the environment will read, not how it was written down: JSON escapes, the shell's quotes and escapes,
absolute paths and programs that start others hide nothing. `visible` shows a person what a terminal or a browser would
not.
"""

from silva.tree.actions.said import decoded, found, lines, runs_of, texts
from silva.tree.actions.shell import Program, programs, tokens
from silva.tree.actions.visible import visible

__all__ = ["Program", "decoded", "found", "lines", "programs", "runs_of", "texts", "tokens", "visible"]
