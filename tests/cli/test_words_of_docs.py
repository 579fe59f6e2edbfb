"""What pages say of the command line is so: the reference has every option, and what a page types is there."""

from __future__ import annotations

import importlib.util
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from silva.cli import main
from silva.errors import Exit
from silva.rollout.config import RolloutConfig

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([ROOT / "README.md", ROOT / "AGENTS.md", ROOT / "CONTRIBUTING.md", *DOCS.rglob("*.md")])


def _names(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def _hook() -> Any:
    spec = importlib.util.spec_from_file_location("commands_hook", DOCS / "hooks" / "commands.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def commands() -> dict[str, Any]:
    """Every command by its whole name, found as the command line finds it."""
    found: dict[str, Any] = {}

    def below(name: str, group: Any) -> None:
        context = typer.Context(group, info_name=name)
        for inner in group.list_commands(context):
            found[f"{name} {inner}"] = command = group.resolve_command(context, [inner])[1]
            if hasattr(command, "list_commands"):
                below(f"{name} {inner}", command)

    below("silva", typer.main.get_command(main.app))
    return found


def test_the_reference_has_what_the_help_of_every_command_has(
    commands: dict[str, Any], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "250")
    hook = _hook()
    text = hook.on_page_markdown((DOCS / "reference" / "cli.md").read_text(), page=None, config=None, files=None)
    sections = dict(re.findall(r"^##+ (silva [^\n]*)\n(.*?)(?=^##|\Z)", text, re.MULTILINE | re.DOTALL))
    assert sections.keys() == commands.keys() and len(sections) > 80 and hook.MARK not in text
    for name in (name for name, command in commands.items() if not hasattr(command, "commands")):
        assert main.run([*name.split()[1:], "--help"]) == Exit.OK
        options = set(re.findall(r"(?<=[\s│])--[a-z][\w-]*", capsys.readouterr().out.split("Options ─")[-1]))
        assert options - {"--help"} <= set(re.findall(r"--[a-z][\w-]*", sections[name])), name
    assert {"--logprobs", "--inexact"} <= set(re.findall(r"--[a-z]+", sections["silva train samples"]))
    assert "[default: 60; x>=0" in sections["silva report"].replace("\\", "")


def test_every_exit_code_stands_in_the_references() -> None:
    for page in (_hook().reference(), (DOCS / "reference" / "exit-codes.md").read_text()):
        assert all(f"| {code.value} | {code.name} |" in page for code in Exit)


def test_every_key_of_a_rollout_stands_in_the_reference_with_its_default() -> None:
    page = (DOCS / "reference" / "configuration.md").read_text()
    table = _hook().on_page_markdown(page, page=None, config=None, files=None)
    told = dict(re.findall(r"^\| `([a-z_.]+)` \| `(.*)` \|$", table, re.MULTILINE))
    assert {"pool": "16", "lake": '"lake"', "env": "must be given", "run": "by the clock"}.items() <= told.items()
    config = RolloutConfig(env=("arithmetic",)).model_dump(mode="json")

    def leaves(value: Any, key: str) -> Iterator[tuple[str, Any]]:
        if isinstance(value, dict) and value:
            for name, inner in value.items():
                yield from leaves(inner, f"{key}.{name}" if key else name)
        else:
            yield key, value

    for key, value in leaves(config, ""):
        assert key in ("run", "env") or json.loads(told[key]) == value, key


def _typed(text: str) -> Iterator[list[str]]:
    """The words of each `silva …` that a page types, in a console block or between back quotes."""
    for block in re.findall(r"```(?:console|bash|sh)[^\n]*\n(.*?)```", text, re.DOTALL):
        for line in block.replace("\\\n", " ").splitlines():
            if found := re.match(r"\s*(?:\$ )?(?:\w+=\S+ )*(?:\S*/bin/)?silva (.*)", line):
                yield _words(found[1])
    for line in re.findall(r"`silva ([^`]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL)):
        yield _words(line)


def _words(line: str) -> list[str]:
    try:
        words = shlex.split(line.replace("\n", " "), comments=True)
    except ValueError:  # an apostrophe in what is no shell
        words = line.split()
    ends = [place for place, word in enumerate(words) if word in ("|", "&&", "&", ">", ";", "2>", "--")]
    return words[: min(ends, default=len(words))]


@pytest.mark.parametrize("page", PAGES, ids=_names)
def test_every_command_that_a_page_types_is_there_with_its_options(page: Path, commands: dict[str, Any]) -> None:
    wrong = []
    for words in _typed(page.read_text()):
        name = "silva"
        rest = list(words)
        while rest and f"{name} {rest[0]}" in commands:
            name = f"{name} {rest.pop(0)}"
        command = commands.get(name, typer.main.get_command(main.app))
        if hasattr(command, "commands") and rest and re.fullmatch(r"[a-z][a-z-]*", rest[0]):
            wrong.append(f"{name} {rest[0]}: no such command")
        known = {word for one in command.params for word in (*one.opts, *one.secondary_opts)} | {"-h", "--help"}
        said = {word.split("=")[0] for word in rest if re.match(r"--?[a-z]", word)}
        wrong += [f"{name} {word}: no such option" for word in said - known]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "AGENTS.md"])
def test_links_of_the_pages_outside_the_site_lead_to_files(page: str) -> None:
    text = re.sub(r"```.*?```", "", (ROOT / page).read_text(), flags=re.DOTALL)
    aims = {aim for aim in re.findall(r"\]\(([^)#\s]+)", text) if "://" not in aim}
    assert not {aim for aim in aims if not (ROOT / aim).exists()}


def test_agents_md_names_every_room_and_commands_of_every_kind_it_promises() -> None:
    rooms = {path.parent.name for path in (ROOT / "src/silva").glob("*/__init__.py")}
    rows = re.findall(r"^\| (`.*`) \|", (ROOT / "AGENTS.md").read_text(), re.MULTILINE)
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == rooms
    typed = [" ".join(words) for words in _typed((ROOT / "AGENTS.md").read_text())]
    assert len(typed) > 12 and {"doctor", "rollout", "envs", "lake"} <= {line.split()[0] for line in typed}
    for target in re.findall(r"make ([a-z]+)", (ROOT / "AGENTS.md").read_text()):
        assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE), target


def test_pages_that_code_and_examples_point_to_are_there() -> None:
    for folder in ("src", "examples", "benchmarks"):
        for file in (ROOT / folder).rglob("*.py"):
            for page in re.findall(r"docs/[\w/-]+\.md", file.read_text(encoding="utf-8")):
                assert (ROOT / page).is_file(), f"{file.relative_to(ROOT)}: {page}"
