"""Roles: the judgements a loop needs from somebody, each behind a small protocol with more than one implementation.

    explorer ─▶ walks ─▶ abstracter ─▶ goals ─┐
                               writer ─▶ goals ┴▶ validation by execution ─▶ tasks with where they come from

A role is asked for by name (`make("explorer", "policy", {…})`). `embedded` implementations need no model but the policy
itself, `endpoint` ones ask any model that `silva.models` reaches; packages bring their own by entry points. Whoever
acted stands on every record (`silva.rollout.acted`). See docs/guides/exploring.md.
"""

from silva.loops.roles.abstracter import Abstracter
from silva.loops.roles.admission import AdmissionConfig, Admitted, admit
from silva.loops.roles.asking import Answer, Asker, Asks, RoleError
from silva.loops.roles.born import Born, born, born_of
from silva.loops.roles.candidate import Candidate, Source
from silva.loops.roles.explorer import Context, Explorer
from silva.loops.roles.exploring import ExploreConfig, Explored, Walk, explore
from silva.loops.roles.held import Held
from silva.loops.roles.registry import Implementation, known, make
from silva.loops.roles.validation import ValidationConfig, Validator
from silva.loops.roles.writer import Writer

__all__ = [
    "Abstracter",
    "AdmissionConfig",
    "Admitted",
    "Answer",
    "Asker",
    "Asks",
    "Born",
    "Candidate",
    "Context",
    "ExploreConfig",
    "Explored",
    "Explorer",
    "Held",
    "Implementation",
    "RoleError",
    "Source",
    "ValidationConfig",
    "Validator",
    "Walk",
    "Writer",
    "admit",
    "born",
    "born_of",
    "explore",
    "known",
    "make",
]
