"""Folders that can be opened, and those that cannot: one clear line."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from exact_families import TEMPLATES, write_folder

from silva.errors import MissingError, UsageError
from silva.models.exact import open_renderer
from silva.tree import user

CHATML = (TEMPLATES / "chatml.jinja").read_text()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_folder(tmp_path / "tree", CHATML, ("<|im_start|>", "<|im_end|>"), (), "<|im_end|>")


def test_a_template_is_found_wherever_checkpoints_keep_it(folder: Path) -> None:
    expected = open_renderer(folder).render((user("x"),))
    (folder / "chat_template.jinja").unlink()
    config = {"eos_token": {"content": "<|im_end|>"}, "chat_template": CHATML}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    assert open_renderer(folder).render((user("x"),)) == expected
    config["chat_template"] = [{"name": "rag", "template": "no"}, {"name": "default", "template": CHATML}]  # type: ignore[assignment]
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    assert open_renderer(str(folder)).render((user("x"),)) == expected
    (folder / "tokenizer_config.json").unlink()
    (folder / "chat_template.json").write_text(json.dumps({"chat_template": CHATML}))
    assert open_renderer(folder).render((user("x"),)) == expected


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("tokenizer.json", None, "tokenizer.json is missing"),
        ("tokenizer.json", "{", "tokenizer.json cannot be used"),
        ("tokenizer.json", '{"model": {"type": "Nothing"}}', "tokenizer.json cannot be used"),
        ("tokenizer.json", b"\xff", "tokenizer.json cannot be read: it is not UTF-8"),
        ("chat_template.jinja", None, "it has no chat template"),
        ("chat_template.jinja", "{% if %}", "its chat template cannot be used"),
        ("chat_template.jinja", "hello", "does not write what a user says"),
        ("tokenizer_config.json", "[]", "tokenizer_config.json is not a JSON object"),
    ],
)
def test_a_bad_folder_is_one_clear_line(folder: Path, name: str, content: str | bytes | None, words: str) -> None:
    path = folder / name
    path.unlink() if content is None else path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(UsageError, match=f"^model folder tree: .*{words}") as caught:
        open_renderer(folder)
    assert "\n" not in str(caught.value) and str(folder) not in str(caught.value)


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="model folder nowhere: there is no such folder"):
        open_renderer(tmp_path / "nowhere")


def test_without_the_package_one_line_says_what_to_install(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(MissingError, match=r"pip install 'silva\[exact\]'"):
        open_renderer(folder)


def test_a_template_cannot_reach_out_of_its_sandbox(folder: Path) -> None:
    source = "{{ messages[0].content }}{{ messages.__class__.__mro__[1].__subclasses__() }}"
    (folder / "chat_template.jinja").write_text(source)
    with pytest.raises(UsageError):
        open_renderer(folder)
