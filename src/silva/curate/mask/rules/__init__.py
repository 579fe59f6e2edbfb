"""The symbolic rules, by name. Each is a small file of its own."""

from __future__ import annotations

from collections.abc import Sequence

from silva.curate.mask.kinds import Kinds
from silva.curate.mask.rule import Rule
from silva.curate.mask.rules.blind_edit import BlindEdit
from silva.curate.mask.rules.error_observation import ErrorObservation
from silva.curate.mask.rules.ignored_script import IgnoredScript
from silva.curate.mask.rules.ill_timed_end import IllTimedEnd
from silva.curate.mask.rules.malformed_action import MalformedAction
from silva.curate.mask.rules.repeated_action import RepeatedAction
from silva.errors import UsageError

NAMES = (
    "error-observation",
    "malformed-action",
    "repeated-action",
    "blind-edit",
    "ill-timed-end",
    "ignored-script",
)


def rules(names: Sequence[str] = NAMES, kinds: Kinds | None = None, errors: Sequence[str] = ()) -> list[Rule]:
    """The rules of these names.

    Args:
        names: which, see `NAMES`.
        kinds: what tools do.
        errors: regular expressions that also tell an error, for `error-observation`.

    Raises:
        UsageError: there is no rule of that name.
    """
    kinds = kinds or Kinds()
    known: list[Rule] = [
        ErrorObservation(kinds, tuple(errors)),
        MalformedAction(),
        RepeatedAction(kinds),
        BlindEdit(kinds),
        IllTimedEnd(kinds),
        IgnoredScript(kinds),
    ]
    by_name = {rule.name: rule for rule in known}
    for name in names:
        if name not in by_name:
            raise UsageError(f"no rule {name!r}: there are {', '.join(NAMES)}")
    return [by_name[name] for name in dict.fromkeys(names)]
