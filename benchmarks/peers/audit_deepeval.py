"""DeepEval's metrics as checkers, so that they are measured and given thresholds exactly as Silva's are.

Its own metrics where it has one for a risk, its G-Eval with Silva's description of the risk elsewhere. A metric that
fails on a row has not checked it.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from typing import Any

from silva.curate.audit.checker import Checker, Family, RowChecker, Settings, checkers
from silva.curate.audit.finding import Finding, NotChecked
from silva.curate.audit.judging import JudgeChecker
from silva.curate.rows import Row
from silva.errors import MissingError, UsageError

PINNED = "deepeval==4.3.1"


def deepeval_checkers(endpoint: str, key: str = "none") -> list[Checker]:
    """A checker for each risk that Silva has a judge for.

    Raises:
        MissingError: DeepEval is not installed.
        UsageError: the endpoint is no URL#MODEL.
    """
    try:
        metrics: Any = importlib.import_module("deepeval.metrics")
        cases: Any = importlib.import_module("deepeval.test_case")
        models: Any = importlib.import_module("deepeval.models")
    except ImportError as fault:
        raise MissingError(f"DeepEval stands beside the judges and is not installed: pip install {PINNED}") from fault
    url, sign, name = endpoint.partition("#")
    if not sign or not url.startswith("http"):
        raise UsageError(f"--endpoint {endpoint}: DeepEval is asked at an address: http://HOST:PORT/v1#NAME")
    model = models.LocalModel(model=name, base_url=url, api_key=key, temperature=0)
    given = {"model": model, "include_reason": False, "async_mode": False}
    own = {
        "toxicity": lambda: (metrics.ToxicityMetric(**given), False),
        "bias": lambda: (metrics.BiasMetric(**given), False),
        "pii": lambda: (metrics.PIILeakageMetric(**given), True),
    }
    made: list[Checker] = []
    for judge in checkers().values():
        if issubclass(judge, JudgeChecker):
            risk, fault = judge.risk, judge.fault
            params = [cases.SingleTurnParams.INPUT, cases.SingleTurnParams.ACTUAL_OUTPUT]

            def graded(fault: str = fault, params: list[Any] = params) -> tuple[Any, bool]:
                steps = f"Give a low score where this fault is in the input or in the actual output: {fault}"
                more = {"criteria": steps, "evaluation_params": params, "model": model, "async_mode": False}
                return metrics.GEval(name="fault", **more), True

            made.append(_Metric(risk, own.get(risk, graded), cases.LLMTestCase))
    return made


class _Metric(RowChecker):
    """One metric. `good`: a high score of it is a good one."""

    family = Family.JUDGES
    summary = "DeepEval"

    def __init__(self, risk: str, metric: Any, case: Any) -> None:
        # A checker's constructor reads its options by its name.
        self.name, self.risk = f"deepeval_{risk}", risk  # pyright: ignore[reportAttributeAccessIssue]
        super().__init__(Settings())
        self._metric, self._case = metric, case

    def check(self, row: Row) -> Iterable[Finding] | NotChecked:
        """See `RowChecker`."""
        metric, good = self._metric()
        try:
            said = metric.measure(self._case(input=row.prompt or row.text, actual_output=row.reply or row.text))
        except Exception as fault:  # noqa: BLE001 - whatever it raises, it has not checked the row
            return NotChecked(why=f"DeepEval: {type(fault).__name__}: {fault}"[:200])
        score = 1 - float(said) if good else float(said)
        return [self.finding(row, score=min(1.0, max(0.0, score)))]
