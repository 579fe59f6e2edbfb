"""The configurations of docs/guides/backends.md and gateway.md are what the gateway's command takes."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from silva.cli.main import run
from silva.models.gateway.config import Route

GUIDES = Path(__file__).parents[2] / "docs" / "guides"


def blocks() -> list[Any]:
    found = []
    for name in ("backends.md", "gateway.md"):
        heading = ""
        for line, block in re.findall(r"^## ([^\n]*)$|^```yaml\n(.*?)^```$", (GUIDES / name).read_text(), re.M | re.S):
            heading = line or heading
            if block:
                found.append(pytest.param(block, id=f"{name}: {heading}"))
    return found


@pytest.mark.parametrize("block", blocks())
def test_every_configuration_shown_is_understood_in_full(block, tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("SILVA_LAKE", raising=False)
    for variable in re.findall(r"api_key_env: (\w+)", block):
        monkeypatch.setenv(variable, "dummy")
    file = tmp_path / "gateway.yaml"
    file.write_text(block)
    code = run(["gateway", "-c", str(file), "--dry-run"])
    printed = capsys.readouterr()
    assert code == 0, printed.err
    assert_within(yaml.safe_load(block), yaml.safe_load(printed.out))
    assert "dummy" not in printed.out


def assert_within(given: Any, understood: Any) -> None:
    """All that was given is in what was understood, as it was given."""
    if isinstance(given, dict):
        for key, value in given.items():
            assert_within(value, understood[key])
    elif isinstance(given, list):
        assert len(given) == len(understood)
        for one, other in zip(given, understood, strict=True):
            assert_within(one, other)
    else:
        assert given == understood


def test_a_setting_that_does_not_exist_would_be_told(tmp_path, capsys):
    file = tmp_path / "gateway.yaml"
    file.write_text("models: {qwen: {backends: [{url: http://127.0.0.1:8000/v1, knd: vllm}]}}")
    assert run(["gateway", "-c", str(file), "--dry-run"]) != 0
    assert "knd" in capsys.readouterr().err


def test_the_pages_have_all_their_configurations():
    assert len(blocks()) >= 9


@pytest.mark.parametrize(
    ("heading", "kind", "where"),
    [
        ("vLLM, token ids in and out", "vllm", "127.0.0.1"),
        ("vLLM by its chat route", "chat", "127.0.0.1"),
        ("SGLang", "sglang", "127.0.0.1"),
        ("llama.cpp", "chat", "127.0.0.1"),
        ("OpenAI", "chat", "api.openai.com"),
        ("Anthropic", "anthropic", "api.anthropic.com"),
    ],
)
def test_each_backend_has_a_configuration_of_its_own(heading, kind, where):
    section = (GUIDES / "backends.md").read_text().split(f"\n## {heading}\n")[1].split("\n## ")[0]
    block = yaml.safe_load(re.findall(r"```yaml\n(.*?)```", section, re.S)[0])
    (backend,) = next(iter(block["models"].values()))["backends"]
    assert backend["kind"] == kind and where in backend["url"]


def rows() -> list[Any]:
    table = (GUIDES / "gateway.md").read_text().split("\n| backend | `kind` |")[1].split("\n\n")[0]
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()[2:]]
    return [pytest.param(kind, id=name) for name, kind, *_ in cells]


@pytest.mark.parametrize("cell", rows())
def test_every_row_of_the_table_is_a_backend(cell):
    given: dict[str, Any] = {}
    for span in re.findall(r"`([^`]+)`", cell.partition("(")[0]):
        key, colon, value = span.partition(": ")
        if colon:
            given[key] = yaml.safe_load(value)
        elif span == "command":
            given["command"] = ["server", "{port}"]
        else:
            given["kind"] = span
    if "provider" not in given:
        given.setdefault("url", "http://127.0.0.1:8000/v1")
    (backend,) = Route.model_validate({"backends": [given]}).backends
    assert {key: str(getattr(backend, key)) for key in given if key != "command"} == {
        key: str(value) for key, value in given.items() if key != "command"
    }
