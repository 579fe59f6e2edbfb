"""Which actions are risky: those that delete, install, send, pay, or change who may do what.

    Turn's calls ─┬▶ words of the tool's name, texts of its decoded arguments ─▶ patterns ─────────────┬▶ kinds of risk
                  └▶ the command lines among them ─▶ programs (`silva.tree.actions`) ─▶ their table ───┘

A set of rules over names, texts and programs, not a judge: it decides which actions wait for a person, before which a
snapshot is kept and where to look for alternatives, so a false alarm costs a question or a snapshot. What cannot be
told (`unclear`: a computed program, a shell fed with what nobody can read) counts as risky. What a program that is only
named does by itself is not seen.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from silva.rollout.config import RiskRule
from silva.rollout.risky_programs import code_kinds, kinds_of
from silva.tree import Message
from silva.tree.actions import lines, programs, texts

RULES: dict[str, RiskRule] = {
    "delete": RiskRule(
        tool=r"\b(delete|remove|rm|rmdir|erase|destroy|purge|wipe|unlink|truncate|cancel|clear|reset|format|discard)\b",
        arguments=r"\bdrop\s+(table|database|schema|collection|index|view)\b|\bdelete\s+from\s+[\w.`\"]+\s*(;|where\b|$|[\"'])|\btruncate\s+table\b"
        r"|\bfs\.(rm|unlink|rmdir)(Sync)?\(|\bFile\.delete\(|\bdeleteMany\(",
    ),
    "install": RiskRule(tool=r"\b(install|uninstall|upgrade|deploy)\b"),
    "send": RiskRule(
        tool=r"\b(send|post|publish|share|email|mail|message|tweet|reply|forward|invite|upload|submit|push)\b",
    ),
    "pay": RiskRule(
        tool=r"\b(pay|payment|purchase|buy|order|book|transfer|transaction|refund|charge|withdraw|donate|checkout|"
        r"subscribe|trade|sell)\b",
    ),
    "permission": RiskRule(
        tool=r"\b(permission|permissions|grant|revoke|chmod|chown|password|credential|credentials|role|admin|sudo|"
        r"authorize|authorise|ban|promote)\b",
        arguments=r"\b(grant|revoke)\s+\w+.*\b(to|from)\b",
    ),
    "unclear": RiskRule(),
}
"""The patterns there are without configuration; programs have a table of their own."""

_READS = re.compile(
    r"(get|list|find|search|read|show|view|check|look|lookup|fetch|count|describe|calculate)\b", re.IGNORECASE
)
"""A tool whose name begins so only looks, whatever it looks at (`get_order_details`)."""

_HUMPS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[^A-Za-z0-9]+")


def risks_of(action: Message, more: Mapping[str, RiskRule] | None = None) -> tuple[str, ...]:
    """The kinds of risk in an action, in the rules' order; `more` adds kinds, or replaces rules of the same name (and
    what the table of programs says of that kind)."""
    if not action.tool_calls:
        return ()
    more = more or {}
    rules = {**RULES, **more}
    said = [text for text in texts(action) if text != action.text]
    ran = set[str]()
    for line in lines(action):
        ran |= code_kinds(line)
        for program in programs(line):
            ran |= kinds_of(program)
            said.append(str(program))
    names = [_words(call.name) for call in action.tool_calls]
    return tuple(
        kind
        for kind, rule in rules.items()
        if (kind in ran and kind not in more)
        or any(not _READS.match(name) and _found(rule.tool, name) for name in names)
        or any(_found(rule.arguments, text) for text in said)
    )


def _words(name: str) -> str:
    return _HUMPS.sub(" ", name)


def _found(pattern: str, text: str) -> bool:
    return bool(pattern) and _compiled(pattern).search(text) is not None


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)
