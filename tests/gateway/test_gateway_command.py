"""`silva gateway`, the command: what it is told on its command line, what it prints, and how it ends."""

from __future__ import annotations

import signal
import stat
import subprocess
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest
import requests
from commands import EXPORTS, SILVA, Command, started
from dialect_errors import ASKED

from silva.lake import Lake
from silva.models.serving.bounds import open_files


def model(scripted: Any, **script: Any) -> tuple[str, str]:
    return "--model", f"mine={scripted(**script).url}#scripted"


def said(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*SILVA, "gateway", *arguments], capture_output=True, text=True, timeout=100, check=False)


@pytest.mark.parametrize("by", [signal.SIGTERM, signal.SIGINT])
def test_the_export_lines_work_as_printed_and_the_run_ends_with_the_gateway(
    scripted: Any, tmp_path: Path, by: signal.Signals
) -> None:
    lake = tmp_path / "lake"
    given = model(scripted, otherwise={"text": "I am here."})
    with started(lake, *given, "--run", "night", lines=1 + EXPORTS) as gateway:
        variables = gateway.exports
        assert variables["OPENAI_BASE_URL"] == f"{gateway.where}/r/night/v1" == variables["OPENAI_API_BASE"]
        asks = openai.OpenAI(base_url=variables["OPENAI_BASE_URL"], api_key=variables["OPENAI_API_KEY"])
        chat = asks.chat.completions.create(model="mine", messages=[{"role": "user", "content": "Who?"}])
        assert chat.choices[0].message.content == "I am here."
        other = anthropic.Anthropic(
            base_url=variables["ANTHROPIC_BASE_URL"], api_key=variables["ANTHROPIC_API_KEY"]
        ).messages.create(model="mine", max_tokens=9, messages=[{"role": "user", "content": "And?"}])
        assert [block.text for block in other.content if block.type == "text"] == ["I am here."]
        assert gateway.end(by) == 0
        assert "Traceback" not in "".join(gateway.complaints)
    with Lake.open(lake, mode="read") as kept:
        run = kept.run("night")
        assert run is not None and run.status == "finished" and run.finished
        (trajectory,) = kept.trajectories(run_id="night")
    assert (trajectory.outcome.status, trajectory.turns) == ("completed", 2)


def test_a_run_may_go_on_with_the_next_gateway(scripted: Any, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    given = model(scripted)
    for _ in range(2):
        with started(lake, *given, "--run", "night", lines=1 + EXPORTS) as gateway:
            assert asked(gateway, gateway.exports["OPENAI_API_KEY"], "/r/night/v1").ok
    with Lake.open(lake, mode="read") as kept:
        assert sum(node.message.role == "assistant" for node in kept.nodes(run_id="night")) == 2


def asked(gateway: Command, token: str, place: str, body: Any = ASKED, **headers: str) -> requests.Response:
    given = {**body, "model": "mine"}
    headers = {"Authorization": f"Bearer {token}", **headers}
    return requests.post(f"{gateway.where}{place}/chat/completions", json=given, headers=headers, timeout=30)


def test_the_admin_token_is_in_its_file_and_every_form_of_address_leads_to_its_rollout(
    scripted: Any, tmp_path: Path
) -> None:
    file = tmp_path / "admin.token"
    with started(tmp_path / "lake", *model(scripted), "--admin-token-file", str(file)) as gateway:
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        admin = {"Authorization": f"Bearer {file.read_text().strip()}"}
        runs = f"{gateway.where}/admin/runs"
        assert (
            requests.post(runs, json={"run": "day"}, headers={"Authorization": "Bearer no"}, timeout=30).status_code
            == 401
        )
        opened = requests.post(runs, json={"run": "day"}, headers=admin, timeout=30)
        token = opened.json()["token"]
        named = {"X-Session-ID": "named"}
        answers = [
            asked(gateway, token, "/v1"),
            asked(gateway, token, "/r/day/v1"),
            asked(gateway, token, "/v1", **named),
            asked(gateway, token, "/r/day/v1", **named),
            asked(gateway, token, "/r/day/placed/v1"),
            asked(gateway, token, "/r/day/placed/v1", **named),  # the URL says it more plainly
        ]
        assert [answer.status_code for answer in answers] == [200] * 6
        listed = requests.get(f"{runs}/day/rollouts", headers=admin, timeout=30).json()["rollouts"]
        assert {each["rollout"]: each["turns"] for each in listed} == {"main": 2, "named": 2, "placed": 2}
        assert asked(gateway, token, "/r/night/v1").status_code == 401
        for place in ("/v1", "/r/day/v1", "/r/day/placed/v1"):
            bearer = {"Authorization": f"Bearer {token}"}
            chat = requests.get(f"{gateway.where}{place}/models", headers=bearer, timeout=30).json()
            assert chat["object"] == "list" and [each["id"] for each in chat["data"]] == ["mine"]
            one = requests.get(f"{gateway.where}{place}/models/mine", headers=bearer, timeout=30).json()
            assert (one["object"], one["id"]) == ("model", "mine")
            keys = {"x-api-key": token, "anthropic-version": "2023-06-01"}
            messages = requests.get(f"{gateway.where}{place}/models", headers=keys, timeout=30).json()
            assert [(each["type"], each["id"]) for each in messages["data"]] == [("model", "mine")]
            assert messages["first_id"] == messages["last_id"] == "mine"
            one = requests.get(f"{gateway.where}{place}/models/mine", headers=keys, timeout=30).json()
            assert (one["type"], one["id"]) == ("model", "mine")
    assert not gateway.complaints, "the token stands in its file alone"


def test_a_dry_run_prints_the_configuration_and_starts_nothing(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    done = said(
        "--model", "mine=http://127.0.0.1:9/v1#theirs", "--lake", str(lake), "--dry-run", "limits.connections=7"
    )
    assert done.returncode == 0 and not done.stderr, done
    assert "theirs" in done.stdout and "connections: 7" in done.stdout
    assert not lake.exists()
    file = tmp_path / "gateway.yaml"
    file.write_text(done.stdout)
    again = said("--config", str(file), "--dry-run")
    assert again.stdout == done.stdout, "what it prints is a configuration"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "a gateway needs a model"),
        (("--model", "mine"), "write NAME=SPEC"),
        (("--model", "mine=ftp://x"), "possible are NAME=local"),
        (("--model", "mine=http://127.0.0.1:9/v1?knd=vllm"), "'knd' is not known"),
        (("--model", "mine=http://127.0.0.1:9/v1", "--host", "0.0.0.0"), "token"),
        (("--model", "mine=http://127.0.0.1:9/v1", "--run", "no/name"), "run name 'no/name'"),
        (("--model", "mine=http://127.0.0.1:9/v1", "limits.conections=3"), "conections"),
    ],
)
def test_what_it_cannot_do_is_one_line_and_an_exit_code(tmp_path: Path, arguments: tuple[str, ...], words: str) -> None:
    done = said(*arguments, "--lake", str(tmp_path / "lake"), "--port", "0")
    assert done.returncode not in (0, 1), done
    complaints = [line for line in done.stderr.splitlines() if not line.startswith("admin token")]
    assert len(complaints) == 1 and words in complaints[0], done
    assert not done.stdout


@pytest.mark.parametrize(("hard", "short"), [(900, True), (3000, False)])
def test_the_limit_on_open_files_is_raised_and_one_that_is_too_low_is_told(
    scripted: Any, tmp_path: Path, hard: int, short: bool
) -> None:
    file, shell = tmp_path / "token", f"ulimit -Sn 400; ulimit -Hn {hard}"
    given = (*model(scripted), "--admin-token-file", str(file), "limits.connections=1000")
    with started(tmp_path / "lake", *given, shell=shell) as gateway:
        limits = Path(f"/proc/{gateway.process.pid}/limits").read_text()
        (line,) = [line.split() for line in limits.splitlines() if line.startswith("Max open files")]
        assert line[3:5] == [str(hard), str(hard)]
    told = "".join(gateway.complaints).strip()
    assert ("limits.connections=1000 needs 2256" in told) == short
    assert len(told.splitlines()) == short, told


def test_a_limit_that_is_high_enough_is_left_unsaid() -> None:
    assert open_files(1) == ""


def test_a_disk_that_is_full_is_told_on_standard_error(scripted: Any, tmp_path: Path) -> None:
    given = model(scripted)
    with started(tmp_path / "lake", *given, "--run", "night", lines=1 + EXPORTS, shell="ulimit -f 512") as gateway:
        key = gateway.exports["OPENAI_API_KEY"]
        for number in range(8):
            messages = [{"role": "user", "content": f"{number} " + "word " * 20_000}]
            answer = requests.post(
                f"{gateway.where}/r/night/v1/chat/completions",
                json={"model": "mine", "messages": messages},
                headers={"Authorization": f"Bearer {key}"},
                timeout=30,
            )
            if answer.status_code == 507:
                break
        assert answer.status_code == 507
        gateway.end()
        assert any(line.startswith("error: turns cannot be kept: ") for line in gateway.complaints)
        assert not any(key in line for line in gateway.complaints)
