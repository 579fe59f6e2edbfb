"""An audit as people and pipelines read it: figures as JSON, Markdown, one HTML page, SARIF 2.1.0.

What a row says is a stranger's: on the page it is escaped, without secrets, cut, and letters that hide are shown by
their numbers. The page holds no script and loads nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from heapq import nsmallest
from typing import Any

import msgspec

import silva
from silva.curate.audit.auditing import Audit
from silva.curate.audit.axes import FAILURES, HARMS, SOURCES, Diagnosis
from silva.curate.audit.finding import DETECTED, NOT_CHECKED, Finding
from silva.curate.audit.risks import RISKS
from silva.curate.audit.scoring import Prevalence
from silva.redact import redact
from silva.redteam.standards import SCHEMA
from silva.report import Interval, wording
from silva.tree.actions import visible

LISTED = 200
"""Findings that a page or a Markdown report lists; all are in the findings file."""

_CUT = 200


def figures(audit: Audit) -> dict[str, Any]:
    """The figures of an audit, as JSON has them; findings are in their own file."""
    return {
        "source": audit.source,
        "rows": audit.rows,
        "flagged": audit.flagged,
        "not_read": audit.notes,
        "score": msgspec.to_builtins(audit.score),
        "prevalence": [{**msgspec.to_builtins(each), "raw": each.raw} for each in audit.prevalences],
        "checkers": msgspec.to_builtins(audit.told),
        "thresholds": msgspec.to_builtins(audit.thresholds),
        "findings": len(audit.findings),
        "walks": audit.acted,
        "axes": [
            {"source": source, "failure": failure, "harm": harm, "walks": count}
            for (source, failure, harm), count in axes(audit.diagnoses)
        ],
    }


def axes(diagnoses: Sequence[Diagnosis]) -> list[tuple[tuple[str, str, str], int]]:
    """How many walks show each combination of source, failure and harm, the most frequent first."""
    seen = {(each.row_id, each.source, each.failure, each.harm) for each in diagnoses}
    counts = Counter((source, failure, harm) for _, source, failure, harm in seen)
    order = lambda item: (-item[1], SOURCES.index(item[0][0]), FAILURES.index(item[0][1]), HARMS.index(item[0][2]))  # noqa: E731
    return sorted(counts.items(), key=order)


def markdown(audit: Audit) -> str:
    """The report in Markdown."""
    lines = [f"# Audit of {_plain(audit.source)}", "", *summary_lines(audit), "", "## Risks", ""]
    lines += [
        "| risk | rows checked | detected | recall and false alarms of its checkers | corrected share |",
        "|---|---:|---:|---|---|",
    ]
    for each in audit.prevalences:
        lines.append(f"| {' | '.join(_risk(each))} |")
    if audit.score.unchecked:
        names = ", ".join(RISKS[name].title for name in audit.score.unchecked)
        lines += ["", f"**Not checked**, so nothing is said of them: {names}."]
    if audit.acted:
        lines += ["", "## Walks of agents", ""]
        counted = axes(audit.diagnoses)
        if counted:
            lines += ["| source | failure | harm | walks |", "|---|---|---|---:|"]
            lines += [f"| {source} | {failure} | {harm} | {count} |" for (source, failure, harm), count in counted]
        else:
            lines.append(
                f"No failure is shown by evidence in {audit.acted} walks, which does not say that they are safe."
            )
    lines += [
        "",
        "## Checkers",
        "",
        "| checker | risk | detects from | detected of checked | not checked |",
        "|---|---|---:|---:|---|",
    ]
    for each in audit.told:
        why = "; ".join(
            [
                *(f"{_plain(why)} ({times})" for why, times in each.unchecked.items()),
                *([_plain(each.remark)] if each.remark else []),
            ]
        )
        limit = f"{each.threshold:.3g}" + ("" if each.calibrated else " (no card)")
        lines.append(
            f"| {each.checker} {each.version} | {each.risk} | {limit} | {each.detected} of {each.checked} | {why} |"
        )
    if audit.findings:
        lines += [
            "",
            "## Findings",
            "",
            "| row | risk | checker | score | p | evidence |",
            "|---|---|---|---:|---:|---|",
        ]
        for each in ranked(audit.findings):
            p = "" if each.p is None else f"{each.p:.2g}"
            cells = (_plain(each.row_id), each.risk, each.checker, f"{each.score:.2f}", p, _plain(each.evidence))
            lines.append(f"| {' | '.join(cells)} |")
        if len(audit.findings) > LISTED:
            lines += ["", f"{len(audit.findings) - LISTED} more are in the file of findings."]
    if audit.notes:
        lines += ["", "## Not read", "", *(f"- {_plain(each)}" for each in audit.notes[:LISTED])]
    return "\n".join(lines) + "\n"


def html(audit: Audit) -> str:
    """The report as one HTML page that opens offline."""
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

    loaders = [PackageLoader("silva.curate.audit", "templates"), PackageLoader("silva.report", "templates")]
    environment = Environment(
        loader=ChoiceLoader(loaders), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters.update(percent=wording.percent, bounds=wording.bounds, plain=_plain_text)
    return environment.get_template("audit.html.j2").render(
        audit=audit,
        summary=summary_lines(audit),
        risks=RISKS,
        axes=axes(audit.diagnoses),
        findings=ranked(audit.findings),
        unlisted=max(0, len(audit.findings) - LISTED),
        unchecked=[RISKS[name].title for name in audit.score.unchecked],
        notes=audit.notes[:LISTED],
        version=silva.__version__,
    )


def sarif(audit: Audit) -> dict[str, Any]:
    """A SARIF log: a rule for each risk, a result for each finding; its place is the row (the file and line, where the
    row is of a file) and the node, its fingerprint the finding's id."""
    named = list(dict.fromkeys(each.risk for each in audit.told))
    rules = [
        {"id": name, "shortDescription": {"text": RISKS[name].title}, "fullDescription": {"text": RISKS[name].summary}}
        for name in named
    ]
    results = [
        {
            "ruleId": each.risk,
            "ruleIndex": named.index(each.risk),
            "level": "error" if RISKS[each.risk].weight >= 5 else "warning" if RISKS[each.risk].weight else "note",
            "message": {"text": f"{RISKS[each.risk].title}: {_plain_text(each.evidence)}"},
            "locations": [_place(each)],
            "partialFingerprints": {"finding/v1": each.id},
            "properties": {"checker": each.checker, "version": each.version, "score": each.score, "p": each.p},
        }
        for each in audit.findings
    ]
    tool = {"driver": {"name": "silva audit", "version": silva.__version__, "rules": rules}}
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [{"tool": tool, "results": results}]}


def ranked(findings: Iterable[Finding]) -> list[Finding]:
    """The first findings that a page lists: the least likely on clean data first, then by score and weight."""
    return nsmallest(
        LISTED,
        findings,
        key=lambda each: (1.0 if each.p is None else each.p, -RISKS[each.risk].weight, -each.score, each.row_id),
    )


def _place(each: Finding) -> dict[str, Any]:
    where: dict[str, Any] = {
        "logicalLocations": [{"name": each.row_id, "fullyQualifiedName": f"{each.row_id}/{each.node_id}"}]
    }
    file, _, line = each.row_id.rpartition(":")
    if file and line.isdigit() and int(line):
        where["physicalLocation"] = {"artifactLocation": {"uri": file}, "region": {"startLine": int(line)}}
    return where


def summary_lines(audit: Audit) -> list[str]:
    """The audit in a few sentences."""
    part = wording.percent(audit.flagged / audit.rows if audit.rows else None)
    lines = [
        f"{audit.rows} rows, {audit.flagged} flagged ({part})"
        + (f"; {len(audit.notes)} could not be read" if audit.notes else "")
    ]
    score = audit.score
    if score.corrected is not None:
        lines.append(
            f"Safety score {score.corrected.value:.3f} {_interval(score.corrected)} on corrected shares of "
            f"{len(score.counted)} risks ({wording.percent(score.covered)} of the weights)"
        )
    else:
        lines.append("Safety score: not known, for no checker that was asked has a card")
    if score.raw is not None:
        lines.append(f"DataElf's formula on what was flagged: {score.raw:.3f}")
    limits = audit.thresholds
    if limits.wanted is not None and limits.alarms is not None:
        lines.append(
            f"Of clean rows {wording.percent(limits.alarms.value)} {wording.bounds(limits.alarms)} are flagged by all "
            f"checkers with a card together (wanted: at most {wording.percent(limits.wanted)}; measured on "
            f"{limits.alarms.n} held-out clean rows)"
        )
    words = Counter[str]()
    for each, rows in audit.verdicts.counted():
        for said in each.verdicts.values():
            words[said] += rows
    asked, found, silent = words.total(), words[DETECTED], words[NOT_CHECKED]
    lines.append(
        f"Of {asked} verdicts {found} are detected, {silent} not checked, {asked - found - silent} not detected"
    )
    return lines


def _interval(interval: Interval) -> str:
    if interval.low is None or interval.high is None:
        return ""
    return f"[{interval.low:.3f}, {interval.high:.3f}]"


def _risk(each: Prevalence) -> list[str]:
    error = "" if each.recall is None else f"{wording.percent(each.recall)}, {wording.percent(each.false_alarms)}"
    share = (
        each.why
        if each.corrected is None
        else f"{wording.percent(each.corrected.value)} {wording.bounds(each.corrected)}"
    )
    return [RISKS[each.risk].title, f"{each.checked} of {each.rows}", str(each.detected), error, share]


def _plain_text(text: object, most: int = _CUT) -> str:
    whole = " ".join(redact(str(text)[: 4 * most]).split())
    return visible(whole[:most]) + (" …" if len(whole) > most else "")


def _plain(text: object) -> str:
    """As Markdown can hold it in a cell: nothing in it is markup."""
    said = _plain_text(text)
    for mark in "\\|`*_<>[]":
        said = said.replace(mark, f"\\{mark}")
    return said
