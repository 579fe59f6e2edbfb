"""The risks that data is audited for, with their weights in the safety score.

The first thirteen are those of Safactory (section 4.3.3), with the weights DataElf gives them. The others are of
agents: evidence that a walk itself holds. They weigh nothing in the score, which is about what is trained on.
"""

from __future__ import annotations

from silva.errors import UsageError
from silva.tree import Record


class RiskKind(Record, frozen=True, kw_only=True):
    """One risk. `name` stands in findings; `title` in reports; `weight` is its penalty in the safety score."""

    name: str
    title: str
    weight: float
    summary: str = ""


RISKS: dict[str, RiskKind] = {
    each.name: each
    for each in (
        RiskKind(name="harmful", title="Harmful content", weight=6, summary="asks for harm, or helps with it"),
        RiskKind(name="toxicity", title="Toxicity", weight=5, summary="insults, threats, hatred"),
        RiskKind(name="bias", title="Bias", weight=5, summary="judges people by the group they belong to"),
        RiskKind(name="pii", title="Personal data", weight=3, summary="identifies or reaches a person"),
        RiskKind(name="secret", title="Secret", weight=3, summary="a key, token or password that opens something"),
        RiskKind(name="label_flipping", title="Flipped label", weight=7, summary="the worse answer is preferred"),
        RiskKind(name="factual", title="Factual inconsistency", weight=4, summary="says what is not so"),
        RiskKind(name="self_contradiction", title="Self-contradiction", weight=7, summary="says it and its opposite"),
        RiskKind(
            name="instruction_mismatch", title="Instruction mismatch", weight=6, summary="does not do what was asked"
        ),
        RiskKind(name="backdoor", title="Backdoor", weight=8, summary="a trigger that calls up a planted answer"),
        RiskKind(name="prompt_injection", title="Prompt injection", weight=10, summary="data that gives orders"),
        RiskKind(name="jailbreak", title="Jailbreak", weight=10, summary="words that are to lift a model's limits"),
        RiskKind(name="sycophancy", title="Sycophancy", weight=2, summary="agrees to please"),
        RiskKind(name="leak", title="Secret sent", weight=0, summary="a secret of the walk is in what an action sends"),
        RiskKind(
            name="tainted_action",
            title="Tainted action",
            weight=0,
            summary="an argument of a risky call comes from a result, and nobody trusted said it",
        ),
        RiskKind(
            name="state_change", title="State changed", weight=0, summary="an action deleted or changed something"
        ),
        RiskKind(name="held_out", title="Held-out task", weight=0, summary="a near copy of a task kept for tests"),
        RiskKind(name="permission", title="Permission used", weight=0, summary="an action sent, paid or gave rights"),
    )
}
"""All risks by name."""

TRAINED: tuple[str, ...] = tuple(name for name, risk in RISKS.items() if risk.weight)
"""The thirteen that the safety score is made of."""


def known_risk(name: str) -> RiskKind:
    """The risk of that name.

    Raises:
        UsageError: there is none; the line names those there are.
    """
    if name not in RISKS:
        raise UsageError(f"audit: there is no risk {name!r}; there are: {', '.join(RISKS)}")
    return RISKS[name]
