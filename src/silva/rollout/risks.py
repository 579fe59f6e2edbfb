"""Which actions are risky: those that delete, install, send, pay, or change who may do what.

    Turn's calls ─▶ words of the tool's name, text of its arguments ─▶ rules ─▶ kinds of risk

A small set of patterns over names and arguments, not a judge: it decides where to keep a snapshot and where to look for
alternatives, so a false alarm costs a snapshot and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from silva.rollout.config import RiskRule
from silva.tree import Message

RULES: dict[str, RiskRule] = {
    "delete": RiskRule(
        tool=r"\b(delete|remove|rm|rmdir|erase|destroy|purge|wipe|unlink|truncate|cancel|clear|reset|format|discard)\b",
        arguments=r"\brm\s+-|\brmdir\b|\bunlink\b|\bshred\b|\bmkfs|\bdd\s+if=|\bdrop\s+(table|database|schema)\b"
        r"|\bdelete\s+from\b|\btruncate\s+table\b|\bgit\s+(reset\s+--hard|clean\s+-|push\s+(-f|--force)|branch\s+-D)"
        r"|\bshutil\.rmtree\b|\bos\.remove\b",
    ),
    "install": RiskRule(
        tool=r"\b(install|uninstall|upgrade|deploy)\b",
        arguments=r"\b(pip3?|uv|conda|apt|apt-get|dnf|yum|apk|brew|npm|pnpm|yarn|cargo|gem|go)\s+(-\S+\s+)*"
        r"(install|add|i|get|upgrade|remove|uninstall)\b|\b(curl|wget)\b[^|;&]*\|\s*(sudo\s+)?(ba|z|da)?sh\b",
    ),
    "send": RiskRule(
        tool=r"\b(send|post|publish|share|email|mail|message|tweet|reply|forward|invite|upload|submit|push)\b",
        arguments=r"\b(sendmail|scp|rsync|sftp|mailx?)\s+\S|\bcurl\b.*\s(-d|--data\S*|-F|--form|-T|--upload-file|-X\s*"
        r"(POST|PUT|DELETE|PATCH))|\bgit\s+push\b",
    ),
    "pay": RiskRule(
        tool=r"\b(pay|payment|purchase|buy|order|book|transfer|transaction|refund|charge|withdraw|donate|checkout|"
        r"subscribe|trade|sell)\b",
    ),
    "permission": RiskRule(
        tool=r"\b(permission|permissions|grant|revoke|chmod|chown|password|credential|credentials|role|admin|sudo|"
        r"authorize|authorise|ban|promote)\b",
        arguments=r"\b(chmod|chown|chgrp|setfacl|sudo|su|passwd|usermod|useradd|visudo)\s+\S|"
        r"\b(grant|revoke)\s+\w+.*\b(to|from)\b|--privileged\b",
    ),
}
"""The rules there are without configuration."""

_READS = re.compile(
    r"(get|list|find|search|read|show|view|check|look|lookup|fetch|count|describe|calculate)\b", re.IGNORECASE
)
"""A tool whose name begins so only looks, whatever it looks at (`get_order_details`)."""

_HUMPS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[^A-Za-z0-9]+")


def risks_of(action: Message, more: Mapping[str, RiskRule] | None = None) -> tuple[str, ...]:
    """The kinds of risk in an action, in the rules' order; `more` adds kinds, or replaces rules of the same name."""
    rules = {**RULES, **(more or {})}
    return tuple(
        kind
        for kind, rule in rules.items()
        if any(
            (not _READS.match(_words(call.name)) and _found(rule.tool, _words(call.name)))
            or _found(rule.arguments, call.arguments)
            for call in action.tool_calls
        )
    )


def _words(name: str) -> str:
    return _HUMPS.sub(" ", name)


def _found(pattern: str, text: str) -> bool:
    return bool(pattern) and _compiled(pattern).search(text) is not None


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)
