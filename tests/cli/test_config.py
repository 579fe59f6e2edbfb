"""Configuration: a file and overrides become a typed model, or one line that says where the fault is."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field

from silva.cli.config import load, render
from silva.errors import UsageError


class Budget(BaseModel):
    model_config = ConfigDict(extra="forbid")
    turns: int | None = Field(default=None, ge=1)
    usd: float = 1.0


class Settings(BaseModel):
    model_config = ConfigDict(extra="forbid")
    run: str
    env: tuple[str, ...] = ()
    policy: Literal["model", "expert"] = "model"
    rate: float = 0.1
    on: bool = True
    max_tokens: int = 10
    budget: Budget = Budget()
    second: Budget | None = None
    options: dict[str, dict[str, object]] = {}
    key_env: str = "SILVA_API_KEY"


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_yaml_toml_and_json_say_the_same(tmp_path: Path) -> None:
    expected = Settings(run="r", env=("a", "b"), budget=Budget(turns=3), rate=1e-4)
    yml = write(tmp_path, "c.yaml", "run: r\nenv: [a, b]\nrate: 1e-4\nbudget:\n  turns: 3\n")
    toml = write(tmp_path, "c.toml", 'run = "r"\nenv = ["a", "b"]\nrate = 1e-4\n[budget]\nturns = 3\n')
    jsn = write(tmp_path, "c.json", '{"run": "r", "env": ["a", "b"], "rate": 1e-4, "budget": {"turns": 3}}')
    assert load(Settings, yml) == load(Settings, toml) == load(Settings, jsn) == expected


def test_overrides_win_over_the_file_and_later_ones_over_earlier(tmp_path: Path) -> None:
    path = write(tmp_path, "c.yaml", "run: r\nbudget: {turns: 3, usd: 2}\n")
    found = load(Settings, path, ["budget.turns=4", "budget.turns=5", "on=false", "second.usd=7"])
    assert found.budget == Budget(turns=5, usd=2.0)
    assert found.on is False and found.second == Budget(usd=7.0)


@pytest.mark.parametrize(
    ("override", "field", "value"),
    [
        ("env=[a, b]", "env", ("a", "b")),
        ('env=["a"]', "env", ("a",)),
        ("rate=1e-3", "rate", 1e-3),
        ("run=a=b", "run", "a=b"),
        ("run='7'", "run", "7"),
        ("run=http://127.0.0.1:8000/v1#name", "run", "http://127.0.0.1:8000/v1#name"),
        ("budget.turns=null", "budget", Budget()),
        ("options.bfcl.strict=true", "options", {"bfcl": {"strict": True}}),
        ('options={"x": {"y": [1]}}', "options", {"x": {"y": [1]}}),
    ],
)
def test_value_of_an_override(override: str, field: str, value: object) -> None:
    assert getattr(load(Settings, None, ["run=r", override]), field) == value


def test_nothing_given_needs_nothing_but_what_is_required() -> None:
    assert load(Settings, None, ["run=r"]) == Settings(run="r")
    assert load(Budget, None) == Budget()


def test_empty_file_is_an_empty_configuration(tmp_path: Path) -> None:
    assert load(Budget, write(tmp_path, "c.yaml", "# nothing\n")) == Budget()


@pytest.mark.parametrize(
    ("name", "text", "overrides", "said"),
    [
        ("c.yaml", "run: r\nbuget: {}\n", [], "c.yaml: buget: unknown key (did you mean 'budget'?)"),
        ("c.yaml", "run: r\nbudget: {trns: 1}\n", [], "c.yaml: budget.trns: unknown key (did you mean 'turns'?)"),
        ("c.yaml", "run: r\nsecond: {trns: 1}\n", [], "c.yaml: second.trns: unknown key (did you mean 'turns'?)"),
        ("c.yaml", "run: r\nzzzz: 1\n", [], "c.yaml: zzzz: unknown key (known: "),
        ("c.yaml", "run: r\n", ["budget.trns=1"], "override budget.trns: budget.trns: unknown key"),
        ("c.yaml", "run: r\nbudget: {turns: 0}\n", [], "c.yaml: budget.turns: input should be greater than"),
        ("c.yaml", "run: r\n", ["budget.turns=x"], "override budget.turns: budget.turns: input should be a valid int"),
        ("c.yaml", "run: r\npolicy: expret\n", [], "c.yaml: policy: input should be 'model' or 'expert', got 'expret'"),
        ("c.yaml", "policy: model\n", [], "c.yaml: run: field required"),
        ("c.yaml", "run: r\nbudget: 3\n", [], "c.yaml: budget: "),
        ("c.yaml", "run: r\nrun: s\n", [], "config c.yaml line 2: not YAML (key 'run' stands twice)"),
        ("c.yaml", "run: [\n", [], "config c.yaml line 2: not YAML"),
        ("c.yaml", "- run\n", [], "config c.yaml: a configuration is an object of keys, this is list"),
        ("c.yaml", "run: !!python/object:os.system {}\n", [], "config c.yaml line 1: not YAML"),
        ("c.toml", "run = \n", [], "config c.toml: not TOML"),
        ("c.ini", "run: r\n", [], "config c.ini: unknown kind of file '.ini'"),
        ("c.yaml", "run: r\nenv: [a]\n", ["env.0=b"], "override env.0: env is a list, which is given whole: env='[…]'"),
        ("c.yaml", "run: r\n", ["env.0=b"], "override env.0: env: input should be a valid tuple"),
        ("c.yaml", "run: r\n", ["novalue"], "override 'novalue': write it as key=value"),
        ("c.yaml", "run: r\n", ["=3"], "override '=3': write it as key=value"),
        ("c.yaml", "run: r\n", ["a..b=3"], "override 'a..b=3': write it as key=value"),
    ],
)
def test_fault_is_one_line_with_file_and_field(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str, overrides: list[str], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, name, text)
    with pytest.raises(UsageError) as caught:
        load(Settings, Path(name), overrides)
    assert str(caught.value).startswith(said), str(caught.value)
    assert "\n" not in str(caught.value)


def test_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"none\.yaml: no such file"):
        load(Settings, tmp_path / "none.yaml")
    with pytest.raises(UsageError, match="cannot be read"):
        (tmp_path / "folder.yaml").mkdir()
        load(Settings, tmp_path / "folder.yaml")
    (tmp_path / "latin.yaml").write_bytes(b"run: \xff\xfe\n")
    with pytest.raises(UsageError, match="not UTF-8"):
        load(Settings, tmp_path / "latin.yaml")


SECRET = "sk-proj-" + "a1B2" * 8


@pytest.mark.parametrize(
    ("text", "overrides"),
    [
        ("run: r\napi_key: abc\n", []),
        (f"run: {SECRET}\n", []),
        ("run: r\n", ["options.model.api_key=abc"]),
        ("run: r\n", [f"run={SECRET}"]),
        ("run: r\noptions: {m: {headers: [{Authorization: Bearer abc}]}}\n", []),
        ("run: r\noptions: {m: {password: abc}}\n", []),
    ],
)
def test_secret_is_refused_and_not_repeated(tmp_path: Path, text: str, overrides: list[str]) -> None:
    with pytest.raises(UsageError, match=r"environment variable, such as [A-Z_]+$") as caught:
        load(Settings, write(tmp_path, "c.yaml", text), overrides)
    assert "abc" not in str(caught.value) and SECRET not in str(caught.value)


def test_the_name_of_a_variable_is_no_secret() -> None:
    assert load(Settings, None, ["run=r", "key_env=MY_KEY", "max_tokens=5"]).key_env == "MY_KEY"
    assert load(Settings, None, ["run=r", "options.m.api_key_env=MY_KEY"]).options == {"m": {"api_key_env": "MY_KEY"}}


def test_render_reads_back_and_shows_no_secret(tmp_path: Path) -> None:
    given_ = Settings(run="r", env=("a",), options={"m": {"password": "hidden-word"}})
    text = render(given_)
    assert "hidden-word" not in text and "[redacted password]" in text
    plain = Settings(run="r", env=("a",), budget=Budget(turns=2))
    assert load(Settings, write(tmp_path, "c.yaml", render(plain))) == plain


@given(text=st.text(st.characters(exclude_categories=["Cs"]), max_size=40))
def test_no_text_of_an_override_breaks_it(text: str) -> None:
    try:
        found = load(Settings, None, ["run=r", f"options.m.x={text}"])
    except UsageError as error:
        assert "\n" not in str(error)
    else:
        yaml.safe_load(render(found))
