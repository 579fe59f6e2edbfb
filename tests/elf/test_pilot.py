"""Pilots in real processes: attempts until a check holds, tools derived on the way, kills, budgets, promotion."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from pathlib import Path

import pytest
from homes import SILVA, environment, silva, write_rows

from silva.elf.artefact import Findings, Rows, Table
from silva.elf.boxed import run_boxed
from silva.elf.pilot.check import Check
from silva.elf.pilot.first import first_plan
from silva.elf.pilot.pilot import mended
from silva.elf.running.job import Terms
from silva.elf.trying import rows_of
from silva.elf.work import Meter
from silva.errors import SilvaError, UsageError
from silva.sandbox.limits import MIB, Limits
from silva.sandbox.system import probe

WORDS = [{"instruction": f"Say {n}", "output": "word " * n} for n in range(40)]
CHECK = "rows >= 5 and max(words) <= 25 and min(words) >= 6"
SMALL = Limits(memory=64 * MIB, processes=16, disk=8 * MIB, wall=5.0, output=MIB, flood=MIB)

needs_sandbox = pytest.mark.skipif(bool(probe().problem), reason="needs sandboxes")


@pytest.fixture
def rows() -> Rows:
    return rows_of([{"text": f"row {n} " + "word " * n} for n in range(12)])


@pytest.mark.slow
def test_a_pilot_derives_a_tool_that_a_person_promotes_and_plans_then_use(folder: Path) -> None:
    write_rows(folder / "alpaca.jsonl", WORDS)
    done = json.loads(silva(folder, "elf", "pilot", "rows of alpaca.jsonl", "--check", CHECK, "--json"))
    assert done["converged"] and done["attempts"] == 2
    candidate = done["candidate"]
    refused = silva(folder, "elf", "promote", candidate, code=2)
    assert "a person must look at" in refused
    assert "filter-rows" in silva(folder, "elf", "promote", candidate, "--show")
    assert f"promote {candidate}" in silva(folder, "elf", "promote", done["job"], "--as", "early", "--yes", code=2)
    silva(folder, "elf", "promote", candidate, "--as", "short-rows", "--yes")
    assert candidate not in silva(folder, "elf", "jobs")
    silva(folder, "elf", "promote", done["job"], "--as", "flown", "--yes")
    assert json.loads(silva(folder, "elf", "submit", "flown", "--json"))["results"]["derived"]["count"] == 20
    assert "short-rows" in silva(folder, "elf", "tools")
    plan = {
        "steps": [
            {"id": "rows", "tool": "read-rows", "settings": {"source": "alpaca.jsonl"}},
            {"id": "short", "tool": "short-rows", "inputs": {"rows": ["rows"]}},
        ]
    }
    (folder / "plan.json").write_text(json.dumps(plan))
    told = json.loads(silva(folder, "elf", "run", "--plan", "plan.json", "--json"))
    assert told["results"]["short"]["count"] == 20
    silva(folder, "elf", "promote", told["job"], "--as", "nightly", "--yes")
    again = json.loads(silva(folder, "elf", "submit", "nightly", "--json"))
    assert again["results"]["short"]["count"] == 20 and again["job"] != told["job"]


@pytest.mark.slow
def test_a_check_that_cannot_be_asked_ends_the_pilot_and_scores_nothing(folder: Path) -> None:
    write_rows(folder / "alpaca.jsonl", WORDS)
    said = silva(folder, "elf", "pilot", "rows of alpaca.jsonl", "--check", "max(verdict) < 1", code=1)
    assert "not checked: " in said and "score 0.0" not in said
    assert "not converged: the check cannot be asked" in said and "derived" not in said


@pytest.mark.slow
def test_a_pilot_that_is_killed_makes_no_attempt_more_and_keeps_to_its_time(folder: Path) -> None:
    write_rows(folder / "alpaca.jsonl", WORDS)
    words = ["elf", "pilot", "rows of alpaca.jsonl", "--check", "rows >= 1000", "--budget-steps", "2"]
    process = subprocess.Popen([*SILVA, *words], cwd=folder, env=environment(folder), stdout=subprocess.DEVNULL)
    end = time.monotonic() + 60
    while not list(folder.glob("elf/pilots/*/ledger.jsonl")) and time.monotonic() < end:
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    (name,) = [each.name for each in (folder / "elf" / "pilots").iterdir()]
    told = json.loads(silva(folder, "elf", "pilot", "--resume", name, "--json", code=1))
    assert not told["converged"] and told["attempts"] == 2 and "2 of 2 attempts" in told["why"]
    ledger = (folder / "elf" / "pilots" / name / "ledger.jsonl").read_text().splitlines()
    attempts = [json.loads(line)["step"] for line in ledger if '"attempt"' in line]
    assert attempts == ["1", "2"]
    assert json.loads(silva(folder, "elf", "pilot", "--resume", name, "--json", code=1))["attempts"] == 2


@needs_sandbox
@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("def run(rows):\n    return {'a': 1}", "says it gives rows, a list of their ids, and gave an object"),
        ("def run(rows):\n    return ['made-up']", "the id 'made-up' was not given to it"),
        ("def run(rows):\n    while True: pass", "was ended in its sandbox"),
        ("def run(rows):\n    x = 'a' * (1 << 30)\n    return [x[:1]]", "sandbox"),
        ("import socket\ndef run(rows):\n    socket.create_connection(('1.1.1.1', 80), 2)", "broke in its sandbox"),
        ("def run(rows):\n    return open(SECRET).read()", "broke in its sandbox: FileNotFoundError"),
        ("answer = 42", "no function run(rows)"),
    ],
)
def test_derived_code_that_misbehaves_ends_in_one_line(rows: Rows, tmp_path: Path, source: str, said: str) -> None:
    secret = tmp_path / "secret.jsonl"
    secret.write_text("not yours")
    with pytest.raises(SilvaError) as refused:
        run_boxed(source.replace("SECRET", repr(str(secret))), rows, "rows", "derived", SMALL)
    assert said in str(refused.value) and "\n" not in str(refused.value)


@pytest.mark.slow
@needs_sandbox
def test_a_toolsmith_writes_code_that_is_tested_and_waits(folder: Path) -> None:
    write_rows(folder / "alpaca.jsonl", WORDS)
    code = "def run(rows):\n    return [row['id'] for row in rows if 6 <= row['words'] <= 25]"
    script = {"model": "smith", "otherwise": {"text": f"Here it is:\n```python\n{code}\n```"}}
    (folder / "smith.yaml").write_text(json.dumps(script))
    words = ("elf", "pilot", "rows of alpaca.jsonl", "--check", CHECK, "--toolsmith", "scripted:smith.yaml")
    done = json.loads(silva(folder, *words, "--json"))
    assert done["converged"] and done["candidate"] and done["tokens"] > 0
    shown = silva(folder, "elf", "promote", done["candidate"], "--show")
    assert "def run(rows)" in shown and "did not hold" not in shown


def test_checks_say_what_lacks() -> None:
    table = Table(rows=({"words": 3, "ok": True}, {"words": 9, "ok": False}))
    verdict = Check("rows >= 2 and max(words) <= 5").ask(table)
    assert not verdict.holds and verdict.score == 50 and verdict.lacking == ("max(words) <= 5",)
    assert Check("select count(*) = 2 as two from result").ask(table).holds
    for text in ("be good", "judge: ", "rows ~ 3"):
        with pytest.raises(UsageError):
            Check(text)
    with pytest.raises(UsageError, match="no model was given"):
        Check("judge: is it polite?").ask(table)


def test_what_models_cost_is_announced_so_that_no_kill_makes_room_for_a_call(tmp_path: Path) -> None:
    meter = Meter(tmp_path / "spent.jsonl", 1000, 1.0)
    call = meter.announce(600)
    assert Meter(tmp_path / "spent.jsonl", 1000, 1.0).spent() == (600, 0.0)  # as after a kill
    with pytest.raises(UsageError, match="600 of 1000 tokens are spent and the next call may take 600"):
        meter.announce(600)
    meter.tell(call, 150, 0.01)
    assert meter.spent() == (150, 0.01)
    meter.announce(600)


def test_a_check_of_an_empty_result_is_asked_of_its_columns() -> None:
    clean = Findings(found=())
    assert Check("count(*) filter (where risk = 'secret') = 0 and rows = 0").ask(clean).holds
    verdict = Check("max(words) <= 5").ask(Rows(rows=()))
    assert not verdict.holds and verdict.criteria[0].said == "nothing to measure"
    with pytest.raises(UsageError, match="verdict"):
        Check("count(*) filter (where verdict = 'detected') = 0").ask(clean)


def test_a_pilot_is_asked_of_rows_and_a_derived_tool_feeds_what_took_them(folder: Path) -> None:
    write_rows(folder / "alpaca.jsonl", WORDS)
    source = str(folder / "alpaca.jsonl")
    for intent in (f"rows of {source}", f"describe {source}"):
        plan = first_plan(intent, "", "offline", Terms(lake=str(folder / "lake")), folder / "elf")
        assert [step.tool for step in plan.steps] == ["read-rows"]
        assert any("describe-rows" in note and "left out" in note for note in plan.notes)
    audited = first_plan(f"audit {source} for secrets", "", "offline", Terms(lake=str(folder / "lake")), folder / "elf")
    assert [step.tool for step in audited.steps] == ["read-rows", "audit-rows"]
    step = mended(audited, "read-rows", "short").steps
    assert {each.id: each.inputs for each in step} == {
        "read-rows": {},
        "audit-rows": {"rows": ("derived",)},
        "derived": {"rows": ("read-rows",)},
    }
