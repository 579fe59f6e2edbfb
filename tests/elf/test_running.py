"""Jobs in real processes: done once, killed, resumed, bounded, and refused."""

from __future__ import annotations

import csv
import json
import signal
import subprocess
import time
from pathlib import Path

import pytest
from homes import SILVA, environment, silva
from openlineage_events import full, loaded

from silva.elf.lineage import Lineage
from silva.elf.plan import Plan
from silva.errors import StoreError

PLAN = {
    "format": 1,
    "intent": "wait",
    "steps": [
        {"id": "rows", "tool": "read-rows", "settings": {"source": "alpaca.jsonl"}},
        {"id": "unique", "tool": "deduplicate", "inputs": {"rows": ["rows"]}},
        {"id": "wait", "tool": "linger", "inputs": {"rows": ["unique"]}, "settings": {"seconds": 60}},
        {"id": "file", "tool": "write-rows", "inputs": {"rows": ["wait"]}},
    ],
}


def plan_file(folder: Path, *steps: dict[str, object]) -> str:
    plan = {**PLAN, "steps": list(steps)} if steps else PLAN
    (folder / "plan.json").write_text(json.dumps(plan))
    return "plan.json"


def events(folder: Path) -> list[dict[str, str]]:
    found = list((folder / "elf" / "jobs").glob("job_*/ledger.jsonl"))
    text = found[0].read_text() if found else ""
    return [json.loads(line) for line in text.splitlines()]


def test_an_intent_runs_to_a_report_and_its_bytes_are_as_asked(folder: Path) -> None:
    told = json.loads(silva(folder, "elf", "run", "deduplicate alpaca.jsonl and save it as csv", "--json"))
    (file,) = told["results"].values()
    assert file["kind"] == "file" and file["count"] == 5
    written = folder / "elf" / "jobs" / told["job"] / "files" / "rows.csv"
    assert len(list(csv.reader(written.open()))) == 6
    report = Path(told["report"]).read_text()
    assert "15 of 20 rows were duplicates" in report and "deduplicate" in report
    assert "<script" not in Path(told["page"]).read_text()
    lineage = [
        json.loads(line) for line in (Path(told["report"]).parent / "openlineage.jsonl").read_text().splitlines()
    ]
    assert lineage[0]["eventType"] == "START" and lineage[-1]["eventType"] == "COMPLETE"
    assert len(lineage) == 8 and [loaded(each) for each in lineage] == [full(each) for each in lineage]
    assert any(out["outputFacets"]["outputStatistics"]["rowCount"] == 5 for each in lineage for out in each["outputs"])


def test_the_client_of_openlineage_reads_what_a_failed_job_says(tmp_path: Path) -> None:
    said = Lineage(tmp_path, "broken")
    said.job("FAIL", Plan(intent="deduplicate it", steps=()), "step unique: out of memory")
    event = json.loads((tmp_path / "openlineage.jsonl").read_text())
    assert loaded(event)["run"]["facets"]["errorMessage"]["message"] == "step unique: out of memory"
    with pytest.raises(TypeError):  # what the client does not know is not passed over
        loaded({**event, "job": {**event["job"], "nick": "x"}})


def test_a_disk_without_room_for_events_is_told_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "openlineage.jsonl").symlink_to("/dev/full")
    with pytest.raises(StoreError, match=r"openlineage\.jsonl: the disk is full"):
        Lineage(tmp_path, "job_1").job("START", Plan(intent="", steps=()))


def test_a_killed_job_goes_on_where_it_was_and_leaves_no_process(strange: Path) -> None:
    plan_file(strange)
    process = subprocess.Popen(
        [*SILVA, "elf", "run", "--plan", "plan.json"], cwd=strange, env=environment(strange), stdout=subprocess.DEVNULL
    )
    end = time.monotonic() + 240
    while not any(each.get("step") == "wait" for each in events(strange)) and time.monotonic() < end:
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    began = [each["step"] for each in events(strange) if each["event"] == "began"]
    assert began == ["rows", "unique", "wait"]
    job = next((strange / "elf" / "jobs").iterdir())
    waiting = (job / "plan.json").read_text()
    (job / "plan.json").write_text(waiting.replace("60", "0"))  # so that the test ends
    silva(strange, "elf", "run", "--resume", job.name)
    again = [each["step"] for each in events(strange) if each["event"] == "began"]
    assert again == ["rows", "unique", "wait", "wait", "file"]
    assert (job / "files" / "rows.jsonl").read_text().count("\n") == 5
    assert not [each for each in Path("/proc").iterdir() if each.name.isdigit() and _is_worker(each, strange)]


def _is_worker(process: Path, folder: Path) -> bool:
    try:
        words = (process / "cmdline").read_bytes()
        return b"silva.elf.running.worker" in words and (process / "cwd").readlink() == folder
    except OSError:
        return False


@pytest.mark.parametrize(
    ("tool", "settings", "options", "said"),
    [
        pytest.param(
            "linger", {"seconds": 60}, ("--seconds", "8"), "the budget of time is spent", marks=pytest.mark.slow
        ),
        pytest.param("devour", {}, ("--memory", "700M"), "of memory where 700 are granted", marks=pytest.mark.slow),
        ("fib", {}, (), "gave table where its card says rows"),
        pytest.param(
            "phone", {}, (), "opened a connection, and its card has no permission net", marks=pytest.mark.slow
        ),
        ("snoop", {"path": "secret.jsonl"}, (), "to read it, and its card has no permission read"),
    ],
)
def test_a_tool_that_does_other_than_its_card_ends_in_one_line(
    strange: Path, tool: str, settings: dict[str, object], options: tuple[str, ...], said: str
) -> None:
    (strange / "secret.jsonl").write_text('{"text": "not yours"}\n')
    plan_file(
        strange,
        {"id": "rows", "tool": "read-rows", "settings": {"source": "alpaca.jsonl"}},
        {"id": "bad", "tool": tool, "inputs": {"rows": ["rows"]}, "settings": settings},
    )
    code = {"linger": 6, "devour": 6}.get(tool, 2)
    told = silva(strange, "elf", "run", "--plan", "plan.json", *options, code=code)
    assert said in told and "Traceback" not in told
    assert [each["step"] for each in events(strange) if each["event"] == "ended"] == ["rows"]
