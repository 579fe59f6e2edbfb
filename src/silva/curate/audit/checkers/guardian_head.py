"""Prompt injection by another's head: SecureVector Guardian, a linear model on words and letters (Apache-2.0)."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING, Any

from silva.curate.audit.checker import Family, RowChecker, checker
from silva.curate.audit.finding import Finding

if TYPE_CHECKING:
    from silva.curate.rows import Row

_PACKAGE = "securevector-guardian-model==1.4.0"
_KINDS = ("prompt_injection", "data_exfiltration", "model_attack")
_LONGEST = 20_000


@cache
def _guardian() -> Any:
    weights = importlib.import_module("svguardian").resolve_runtime(download=False)
    return importlib.import_module("svguardian.model.pure_infer").PureGuardian.load(weights)


@checker
class GuardianHead(RowChecker):
    """Asks the package svguardian, pure Python with weights of its own, what attack a text is."""

    name = "guardian_head"
    risk = "prompt_injection"
    family = Family.HEADS
    summary = "SecureVector Guardian's head: injection, exfiltration, attacks on the model"
    version = "1.4.0"
    roles = frozenset({"user", "tool"})
    needs = (_PACKAGE,)

    def missing(self) -> str:
        """See `Checker`."""
        there = importlib.util.find_spec("svguardian") is not None
        return "" if there else f"its package is not installed: pip install {_PACKAGE}"

    def check(self, row: Row) -> Iterable[Finding]:
        """See `RowChecker`."""
        for node, part, text in self.texts(row):
            score, kind = _asked(text[:_LONGEST])
            if score > 0:
                yield self.finding(row, node, part, score=round(score, 4), evidence=f"{kind}: {text[:100]}")


def _asked(text: str) -> tuple[float, str]:
    """How sure it is that the text is an attack by words that give orders, and which."""
    said: Any = importlib.import_module("svguardian.window").predict_windowed(_guardian(), text)
    kind = next((str(name) for name, _ in said["top3"] if name != "benign"), "")
    return (float(said["malicious_score"]) if kind in _KINDS else 0.0), kind
