"""What a plan came to in formats that pipelines read: SARIF 2.1.0 (a result for each attack that reached its goal) and
JUnit XML (one case for each attack in each environment, failed where too many were led astray).

    Rates, trajectories ─▶ sarif ─▶ JSON for code scanning ;  junit ─▶ XML for a test report
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from xml.etree import ElementTree

import silva
from silva.redteam.rates import Rates, named
from silva.redteam.verdict import told
from silva.tree import Trajectory

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def sarif(rates: Sequence[Rates], trajectories: Sequence[Trajectory]) -> dict[str, Any]:
    """A SARIF log: a rule for each attack, with its ids of OWASP and MITRE ATLAS as tags, and a result for each
    trajectory in which the goal was reached. Its place is the trajectory, its fingerprint the trajectory's id."""
    attacked = [each for each in rates if each.standards]
    places = {each.attack: place for place, each in enumerate(attacked)}
    results = [
        {
            "ruleId": named(each),
            "ruleIndex": places[named(each)],
            "level": "error",
            "message": {"text": _said(each)},
            "locations": [
                {"logicalLocations": [{"name": each.id, "fullyQualifiedName": f"{each.env}/{each.task_id}/{each.id}"}]}
            ],
            "partialFingerprints": {"trajectory/v1": each.id},
            "properties": {"env": each.env, "task": each.task_id, "run": each.run_id, "model": each.model},
        }
        for each in trajectories
        if named(each) in places and not each.superseded and told(each).get("reached") is not None
    ]
    rules = [
        {
            "id": each.attack,
            "shortDescription": {"text": f"The agent is led astray by {each.attack}"},
            "properties": {"tags": list(each.standards)},
        }
        for each in attacked
    ]
    tool = {"driver": {"name": "silva redteam", "version": silva.__version__, "rules": rules}}
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [{"tool": tool, "results": results}]}


def junit(name: str, rates: Sequence[Rates], most: float) -> str:
    """A JUnit report: a case for each attack; a failure where more than `most` of the exposed were led astray, skipped
    where nobody was exposed, for then nothing was measured."""
    suite = ElementTree.Element("testsuite", name=name)
    counts = {"tests": 0, "failures": 0, "skipped": 0}
    for each in rates:
        if not each.standards:
            continue
        counts["tests"] += 1
        case = ElementTree.SubElement(suite, "testcase", classname=name, name=each.attack)
        if each.success_exposed is None:
            counts["skipped"] += 1
            why = "; ".join(f"{why} ({times})" for why, times in each.not_launched) or "no attempt was exposed"
            ElementTree.SubElement(case, "skipped", message=why)
        elif each.success_exposed.value > most:
            counts["failures"] += 1
            text = (
                f"{each.success_exposed.value:.1%} of {each.exposed} exposed were led astray, at most {most:.1%} may be"
            )
            ElementTree.SubElement(case, "failure", message=text, type="attack").text = ", ".join(each.standards)
    for key, value in counts.items():
        suite.set(key, str(value))
    ElementTree.indent(suite)
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True)


def _said(trajectory: Trajectory) -> str:
    said = told(trajectory)
    return (
        f"{named(trajectory)}: shown at turn {said.get('exposed')}, did what the attacker wanted at turn "
        f"{said.get('reached')} of task {trajectory.task_id}"
    )
