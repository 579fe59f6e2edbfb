"""Roles: the judgements a loop needs from somebody, each behind a small protocol with more than one implementation.

    explorer ─▶ walks ─▶ abstracter ─▶ goals ─┐
                               writer ─▶ goals ┴▶ validation by execution ─▶ tasks with where they come from

A role is asked for by name (`make("explorer", "policy", {…})`). `embedded` implementations need no model but the policy
itself, `endpoint` ones ask any model that `silva.models` reaches; packages bring their own by entry points. Whoever
acted stands on every record (`silva.rollout.acted`). See docs/guides/exploring.md.
"""

from silva.loops.roles.asking import Answer, Asker, Asks, RoleError
from silva.loops.roles.registry import Implementation, known, make

__all__ = ["Answer", "Asker", "Asks", "Implementation", "RoleError", "known", "make"]
