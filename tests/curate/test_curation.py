"""A curation runs in the sandbox alone, gives the same data twice, names only what it was given, and is kept with what
was found of it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from silva.cli.curate import app
from silva.curate.curation import operators
from silva.curate.curation.corpus import Corpus, read_corpus
from silva.curate.curation.curated import CurationError, checked
from silva.curate.curation.memory import write_bank
from silva.curate.curation.profile import cost, objective, profile
from silva.curate.curation.running import Bounds, curate, run_curation
from silva.curate.curation.source import Curation, curation, named, operator_calls
from silva.curate.curation.versions import Curations, Judgement
from silva.errors import StoreError, UsageError
from silva.sandbox.system import probe

sandboxed = pytest.mark.skipif(bool(probe().problem), reason="needs sandboxes")


def talk(task: str, *calls: tuple[str, str], end: str = "Done.") -> list[dict[str, Any]]:
    """A conversation: each call with what came back."""
    made: list[dict[str, Any]] = [{"role": "user", "content": task}]
    for number, (name, saw) in enumerate(calls):
        call = {"id": f"c{number}", "type": "function", "function": {"name": name, "arguments": "{}"}}
        made += [
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"c{number}", "content": saw},
        ]
    return [*made, {"role": "assistant", "content": end}]


ROWS = [
    {"messages": talk('Bring "lamp" home.', ("take", "You hold lamp."), ("give", "Given.")), "label": True},
    {"messages": talk('Bring "lamp" home.', ("take", "You hold lamp."), ("give", "Given.")), "label": True},
    {"messages": talk('Bring "rope" home.', ("take", "You hold lamp."), ("give", "Given.")), "label": True},
    {"messages": talk('Bring "rope" home.', ("fly", "error: cannot"), ("take", "You hold rope.")), "label": False},
    {"messages": talk('Bring "rope" home.', ("take", "You hold rope."), ("look", "Hall."), ("take", "You hold rope."))},
]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A wild corpus: a table of conversations, some labelled, of which one is none."""
    path = tmp_path / "raw.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS) + '"no row"\n')
    return path


@pytest.fixture
def corpus(table: Path) -> Corpus:
    return read_corpus([str(table)])


def test_a_corpus_tells_what_was_done_and_leaves_out_what_is_held_out(table: Path, corpus: Corpus) -> None:
    assert [walk["success"] for walk in corpus.walks] == [True, True, True, False, None]
    assert [turn["faults"] for turn in corpus.walks[3]["turns"]] == [["error-observation"], [], []]
    assert len(corpus.notes) == 1
    rest = read_corpus([str(table)], held_out=['Bring  "LAMP" home.'])
    assert (len(rest.walks), rest.left_out) == (3, 2)
    with pytest.raises(UsageError, match="holds no walk with a turn"):
        read_corpus([str(table)], held_out=['Bring "lamp" home.', 'Bring "rope" home.'])


@pytest.mark.parametrize("name", ["claude-code.jsonl", "codex.jsonl", "swe-agent.json"])
def test_imported_sessions_are_a_wild_corpus(name: str) -> None:
    walks = read_corpus([str(Path(__file__).parents[1] / "tree" / "golden" / "tools" / name)]).walks
    assert {walk["success"] for walk in walks} == {None}
    assert all(walk["words"] and walk["turns"] for walk in walks)
    assert any(turn["calls"] and turn["saw"] for walk in walks for turn in walk["turns"])
    assert operators.imitate(operators.without_failures(list(walks)))


def test_operators_do_what_their_names_say(corpus: Corpus) -> None:
    walks = list(corpus.walks)
    assert len(operators.known_successes(walks)) == 3
    assert len(operators.without_failures(walks)) == 4
    assert len(operators.without_repeats(walks)) == 4
    assert [walk["words"] for walk in operators.grounded(walks)].count('Bring "rope" home.') == 2  # not the lamp
    assert [turn["n"] for turn in operators.without_loops(walks)[4]["turns"]] == [1, 4]
    assert [turn["n"] for turn in operators.without_errors(walks)[3]["turns"]] == [2, 3]
    quiet = operators.no_loss_on_faults(walks)
    assert operators.imitate(quiet)[3]["loss"] == [2, 3]
    assert operators.imitate(quiet)[3]["turns"] == [1, 2, 3]
    assert len(operators.more_of_rare(walks)) > len(walks)
    assert {row["task"] for row in operators.practise(walks, most=2)} <= {walk["task"] for walk in walks}
    achieved = [{**walks[3], "achieved": [["Find a hat.", 2]]}]
    again = operators.in_hindsight(achieved)[-1]
    assert (again["words"], again["success"], len(again["turns"])) == ("Find a hat.", True, 2)
    for name, numbers in operator_calls().items():  # every one of them goes from walks to walks or rows
        made = getattr(operators, name)(walks, **numbers)
        assert isinstance(made, list), name
    assert walks == list(corpus.walks)  # and changes none of what it is given


@sandboxed
def test_a_curation_gives_data_its_profile_and_a_bank(corpus: Corpus, tmp_path: Path) -> None:
    code = curation(
        "from operators import *\n\ndef curate(raw):\n    walks = known_successes(raw)\n"
        "    return imitate(walks), practise(walks), [{'when': 'Lamps', 'text': 'Take, then give.', 'says': 'lamp'}]\n"
    )
    made = run_curation(code, corpus)
    found = profile(made, corpus)
    assert (found.sft, found.kept, found.memory) == (3, 3, 1)
    assert found.turns == 9 + 3 * len(made.rl)
    assert found.redundancy == pytest.approx(1 / 3)
    bank = write_bank(tmp_path / "bank", made.memory, code.digest)
    assert [(skill.says, skill.status) for skill in bank] == [("lamp", "kept")]
    assert made.without("sft").digest != made.digest
    assert cost(100_000) == pytest.approx(0.76159, abs=1e-4)  # tanh(1)
    assert objective(0.5, 0) == 0.5


BAD = {
    "loops": ("while True: pass", "took more than 3 s"),
    "network": ("import socket; socket.create_connection(('1.1.1.1', 53), 1)", "failed (OSError"),
    "memory": ("x = bytearray(1 << 30)", "memory"),
    "chance": ("import random; random.shuffle(raw)\n    raw = raw[:2]", "not deterministic"),
    "sets": ("raw = [raw[hash(w['words'] + str(n)) % 5] for n, w in enumerate(raw)]", "not deterministic"),
    "nothing": ("raw = []", "drops everything"),
    "breaks": ("raw.frobnicate()", "AttributeError"),
    "tests": ("return {'sft': [], 'rl': [{'task': 'test/1'}], 'memory': []}", "it may be a test's"),
    "form": ("return 7", "returns no curated data"),
}


@sandboxed
@pytest.mark.slow
def test_bad_curations_are_one_clear_line_each(corpus: Corpus) -> None:
    head, tail = "from operators import *\n\ndef curate(raw):\n    ", "\n    return output(imitate(raw))\n"
    codes = {name: Curation(source=head + body + tail) for name, (body, _) in BAD.items()}
    endless = asyncio.run(curate([codes.pop("loops")], corpus, bounds=Bounds(seconds=3.0)))
    made = asyncio.run(curate(list(codes.values()), corpus, bounds=Bounds(seconds=120.0, memory=256 << 20)))
    for name, found in zip(("loops", *codes), (*endless, *made), strict=True):
        assert isinstance(found, CurationError), name
        assert BAD[name][1] in str(found), name
        assert "\n" not in str(found)


def test_rows_that_name_what_was_not_given_are_refused(corpus: Corpus) -> None:
    first = corpus.walks[0]["id"]
    good = {"walk": first, "turns": [1, 2], "loss": [2]}
    assert checked(json.dumps({"sft": [good]}).encode(), corpus).sft[0].loss == (2,)
    for change, said in (
        ({"walk": "other"}, "no walk"),
        ({"turns": [2, 1]}, "in their order"),
        ({"turns": [1, 9]}, "not turns of walk"),
        ({"loss": [3]}, "loss"),
        ({"words": "Bring the drum to the tower."}, "held-out task"),
    ):
        with pytest.raises(CurationError, match=said):
            checked(json.dumps({"sft": [good | change]}).encode(), corpus, ["Bring the drum to the tower."])
    told = {"sft": [good], "memory": [{"when": "Drums", "text": "Bring the DRUM to the tower. Answer: 7"}]}
    with pytest.raises(CurationError, match="holds a held-out task"):
        checked(json.dumps(told).encode(), corpus, ["Bring the drum to the tower."])
    many = {"sft": [good] * 1000}
    with pytest.raises(CurationError, match="at most"):
        checked(json.dumps(many).encode(), corpus)


def test_versions_keep_source_parent_and_what_was_found(tmp_path: Path) -> None:
    lake = str(tmp_path / "lake")
    kept = Curations(lake, make=True)
    raw, better = named("raw"), named("successes")
    kept.write(raw, author="person", phase="initial")
    kept.write(better, author="mutations", phase="effect", parent=raw.digest)
    kept.write(better, author="another")  # as it was
    judged = Judgement(loop="demo", p=0.5, c=0.4, j=0.38, turns=10, seeds=(0, 1), epoch=1, verdict="kept")
    kept.judge(better.digest, judged)
    kept.judge(better.digest, judged)  # a stage that was killed and begun again
    found = Curations(lake).versions()
    assert [(each.author, each.phase, len(each.judged)) for each in found] == [
        ("person", "initial", 0),
        ("mutations", "effect", 1),
    ]
    assert Curations(lake).source(found[1]) == better
    assert "+    walks = known_successes(walks)" in better.difference(raw)
    with pytest.raises(UsageError, match="no curation begins"):
        kept.find("zz")
    (Path(lake) / "lake.json").write_text('{"lake": "silva", "schema": 99}')
    with pytest.raises(StoreError, match="newer than this Silva reads"):
        Curations(lake)


@sandboxed
def test_commands_run_list_show_and_compare(table: Path, tmp_path: Path) -> None:
    lake = ["--lake", str(tmp_path / "lake")]
    runner = CliRunner()
    ran = runner.invoke(app, ["curation", "run", "raw", str(table), *lake, "-o", str(tmp_path / "out"), "--json"])
    assert json.loads(ran.stdout)["profile"]["sft"] == 5
    assert len((tmp_path / "out" / "sft.jsonl").read_text().splitlines()) == 5
    edited = tmp_path / "mine.py"
    edited.write_text(named("successes").source)
    Curations(str(tmp_path / "lake")).write(named(str(edited)), author="person")
    assert len(runner.invoke(app, ["curation", "list", *lake]).stdout.splitlines()) == 2
    mine, first = named(str(edited)).digest, named("raw").digest
    assert "def curate" in runner.invoke(app, ["curation", "show", mine[:8], *lake]).stdout
    assert "known_successes" in runner.invoke(app, ["curation", "diff", mine[:8], first[:8], *lake]).stdout
    edited.write_text("def curate(:\n")
    assert "line 1" in str(runner.invoke(app, ["curation", "run", str(edited), str(table), *lake]).exception)
