"""Which of the tools that were asked for are meant, by what is said of them together.

Each rule is one line about words that have two meanings: "the failures of babyai" is a question, "the failed runs of
babyai" a filter; "samples" are rows unless somebody trains on them; a file has no trajectories to count.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from silva.elf.intent.asked import Asked
from silva.elf.intent.frame import Frame
from silva.elf.intent.words import Concept

_OF_A_LAKE = frozenset(
    ("list-trajectories", "measure-trajectories", "summarise-run", "failure-causes", "list-runs", "lake-stats")
)
"""Tools that answer from the lake; of a file the same question is one about rows."""
_BY_THE_WAY = frozenset(("read-rows", "choose-trajectories", "take-rows", "filter-rows", "read-set"))
"""Tools that other tools bring in, and whose words say little."""

Rule = Callable[[list[str], Frame, str, frozenset[str]], None]


def meant(asked: Sequence[Asked], frame: Frame, said: Sequence[Concept]) -> list[str]:
    """The tools that are meant, in the order of the words."""
    if frame.sql:
        return ["query-sql"]
    strong = [each for each in asked if each.weight >= 1]
    kept = [each for each in asked if each.weight >= 1 or not strong or each.tool in ("write-rows", "search-text")]
    tools = list(dict.fromkeys(each.tool for each in kept))
    text, spoken = frame.said.lower(), frozenset(each.name for each in said)
    for rule in (
        _of_a_file,
        _listing,
        _two_sources,
        _samples,
        _formats,
        _cleaning,
        _searching,
        _measuring,
        _choosing,
        _judging,
    ):
        rule(tools, frame, text, spoken)
    if any(each not in _BY_THE_WAY | {"write-rows"} for each in tools):
        tools = [each for each in tools if each not in _BY_THE_WAY or (each == "take-rows" and frame.drawn)]
    return list(dict.fromkeys(tools))


def _drop(tools: list[str], *names: str) -> None:
    tools[:] = [each for each in tools if each not in names]


def _swap(tools: list[str], old: str, new: str) -> None:
    tools[:] = [new if each == old else each for each in tools]


def _of_a_file(tools: list[str], frame: Frame, text: str, spoken: frozenset[str]) -> None:
    if frame.files and not frame.runs and not frame.envs:
        for each in _OF_A_LAKE & set(tools):
            wants = frame.output or frame.form or frame.rows or frame.count or len(tools) > 1
            _drop(tools, each) if wants else _swap(tools, each, "describe-rows")
    if frame.files and not tools and not (frame.output or frame.form or frame.rows or frame.count or frame.best):
        tools.append("describe-rows")


def _listing(tools: list[str], frame: Frame, text: str, spoken: frozenset[str]) -> None:
    if "list-runs" in tools and (frame.where or frame.envs or frame.runs):
        _swap(tools, "list-runs", "list-trajectories")
    if "list-trajectories" in tools and (frame.output or frame.form or "write-rows" in tools):
        _drop(tools, "list-trajectories")
    if (
        "summarise-run" in tools
        and len(set(tools) - {"write-rows", "summarise-run"}) > 0
        and not re.search(r"summar|figures", text)
    ):
        _drop(tools, "summarise-run")


def _two_sources(tools: list[str], frame: Frame, text: str, spoken: frozenset[str]) -> None:
    if "compare-runs" in tools and len(frame.runs) < 2 and len(frame.files) >= 2:
        _swap(tools, "compare-runs", "overlap")
    if {"check-leaks", "overlap"} <= set(tools):
        _drop(tools, "check-leaks" if "overlap" in text or "contamin" in text else "overlap")
    if "overlap" in tools and len(frame.files) + len(frame.runs) < 2:
        _drop(tools, "overlap")
    if "check-leaks" in tools and len(frame.files) < 2 and "leak" not in text:
        _drop(tools, "check-leaks")


def _samples(tools: list[str], frame: Frame, text: str, spoken: frozenset[str]) -> None:
    trains = re.search(
        r"training (?:samples?|data|files?|rows?)|samples? (?:for|file)|(?:sft|grpo|dpo) (?:samples?|data|rows?)", text
    )
    if frame.sample_form and "write-samples" not in tools:
        tools.append("write-samples")
    elif "write-samples" in tools and not (frame.sample_form or trains):
        _swap(tools, "write-samples", "write-rows")
    if "write-samples" in tools:
        _drop(tools, "write-rows", "export-trajectories", "take-rows", "make-pairs")


def _formats(tools: list[str], frame: Frame, text: str, spoken: frozenset[str]) -> None:
    if frame.tree_form and not {"export-trajectories", "import-trajectories"} & set(tools):
        _drop(tools, "write-rows")
        tools.append("export-trajectories")
    if "export-trajectories" in tools and not frame.tree_form:
        _swap(tools, "export-trajectories", "write-rows")
    if "export-trajectories" in tools:
        _drop(tools, "write-rows", "list-trajectories")
    if "import-trajectories" in tools and (frame.output or not frame.files):
        _swap(tools, "import-trajectories", "write-rows")
    if "import-trajectories" in tools:
        _drop(tools, "write-rows", "lake-stats")


def _cleaning(tools: list[str], frame: Frame, text: str, spoken: frozenset[str]) -> None:
    if "audit-rows" in tools and "clean-rows" not in tools and spoken & {"remove", "redact", "clean"}:
        taken = {"deduplicate", "redact-secrets"} & set(tools)
        of_it = re.search(
            r"\b(?:remove|drop|delete|redact|exclude|throw out|discard|kick out|leave out|filter out|get rid of)\w*\s+"
            r"(?:\w+ )?(?:them|it|those|these|what|whatever|anything|everything|all|flagged|risky|bad|hits|findings)\b",
            text,
        )
        if of_it or not taken:
            tools.insert(tools.index("audit-rows") + 1, "clean-rows")
    if "clean-rows" in tools and "redact-secrets" in tools and "secret" not in spoken:
        _drop(tools, "redact-secrets")
    if (
        "redact-secrets" in tools
        and "clean-rows" not in tools
        and "secret" in spoken
        and set(frame.risks) <= {"secret"}
        and not re.search(r"\baudit|\bscan|\bcheck", text)
    ):
        _drop(tools, "audit-rows")
    if "mask-turns" in tools and {"redact-secrets", "clean-rows"} & set(tools):
        _drop(tools, "mask-turns")


def _searching(tools: list[str], frame: Frame, text: str, spoken: frozenset[str]) -> None:
    if "search-text" not in tools:
        return
    others = set(tools) - {"search-text", "write-rows"} - _BY_THE_WAY
    spoken_of = re.search(r"\b(mention|grep|turns?|messages?|says?|said)\b", text) or frame.quoted
    if others and not (spoken_of and others <= {"audit-rows", "list-trajectories"}):
        _drop(tools, "search-text")
    elif others:
        _drop(tools, *others)
    elif frame.files:
        _drop(tools, "search-text")


def _measuring(tools: list[str], frame: Frame, text: str, spoken: frozenset[str]) -> None:
    if "measure-trajectories" in tools:
        if not (frame.best or frame.scorers):
            _drop(tools, "score-rows", "describe-rows", "summarise-run")
        others = (
            set(tools)
            - {"measure-trajectories", "write-rows"}
            - _BY_THE_WAY
            - {"list-trajectories", "list-environments"}
        )
        if others and others != {"failure-causes"}:
            _drop(tools, "measure-trajectories")
        elif others and re.search(r"\bhow many\b", text) and not re.search(r"why|causes?|reasons?|kinds?", text):
            _drop(tools, "failure-causes")
        elif others:
            _drop(tools, "measure-trajectories")
        else:
            _drop(tools, "list-trajectories", "list-environments")
    if "failure-causes" in tools and (frame.output or frame.form) and frame.where and "why" not in spoken:
        _drop(tools, "failure-causes")


def _choosing(tools: list[str], frame: Frame, text: str, spoken: frozenset[str]) -> None:
    if frame.drawn and not frame.scorers:
        _drop(tools, "score-rows", "select-rows")
        tools.append("take-rows")
    if "sort-rows" in tools and not frame.scorers:
        _drop(tools, "score-rows", "select-rows")
    if "sort-rows" in tools and frame.scorers:
        _drop(tools, "sort-rows")
    if frame.best and not {"select-rows", "sort-rows"} & set(tools):
        tools.append("select-rows")
    if "select-rows" in tools and not frame.count:
        verbs = re.search(r"\b(best|top|valuable|diverse|high[- ]quality|representative)\b", text)
        if not verbs and len(tools) > 1:
            _drop(tools, "select-rows")
    if frame.scorers and "score-rows" not in tools:
        at = tools.index("select-rows") if "select-rows" in tools else len(tools)
        tools.insert(at, "score-rows")
    if frame.factor and "upsample-set" not in tools and re.search(r"as (?:often|much|many|heavily)|weight", text):
        tools.append("upsample-set")


def _judging(tools: list[str], frame: Frame, text: str, spoken: frozenset[str]) -> None:
    if "mask-turns-by-model" in tools:
        by_model = re.search(r"\b(model|llm|gpt|judge model|language model)\b", text)
        _drop(tools, "mask-turns" if by_model else "mask-turns-by-model")
        if not by_model and "mask-turns" not in tools:
            tools.append("mask-turns")
    if "judges-agreement" in tools:
        _drop(tools, "mask-turns", "mask-turns-by-model")
    if "detect-attacks" in tools:
        _drop(tools, "attack-rates")
        if frame.files:
            _swap(tools, "detect-attacks", "audit-rows")
    if {"detect-attacks", "audit-rows"} <= set(tools):
        _drop(tools, "audit-rows" if re.search(r"\bdetect", text) else "detect-attacks")
