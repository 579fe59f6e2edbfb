"""A sealed set answers what its policy allows and nothing else; what it costs is spent before it is answered."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("nacl", reason="pip install 'silva[seal]'")

from silva.curate.sealed import Field, Keys, Policy, Question, Sealed, Shape, ask, run, seal
from silva.curate.sealed.gate import Shut, let_through, reply
from silva.curate.sealed.keys import VARIABLE, drawn
from silva.curate.sealed.ledger import LEDGER, Ledger, held
from silva.curate.sealed.policy import Column
from silva.curate.sealed.program import allowed, approve, digest
from silva.curate.sealed.statement import checked
from silva.errors import StoreError, UsageError
from silva.sandbox.system import probe

ROWS = [
    {"name": f"canary-{number}", "age": 30 + number % 40, "city": "Oslo" if number else "Lima"} for number in range(60)
]
POLICY = Policy(
    columns={
        "age": Column(type="number", lower=0, upper=120),
        "city": Column(type="category", values=("Oslo", "Lima")),
    },
    epsilon=1.0,
    bits=70,
    seconds=2.0,
)
SHAPE = Shape(
    fields={
        "mean": Field(type="number", lower=0, upper=120, digits=1),
        "cities": Field(type="histogram", upper=1000, values=("Oslo", "Lima")),
    }
)
GOOD: dict[str, Any] = {"mean": 49.04, "cities": {"Oslo": 59, "Lima": 1}}


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> Keys:
    monkeypatch.setenv(VARIABLE, drawn())
    return Keys()


@pytest.fixture
def sealed(keys: Keys, tmp_path: Path) -> Sealed:
    seal(tmp_path / "set", ROWS, POLICY, keys)
    return Sealed(tmp_path / "set")


def test_gate_lets_the_agreed_shape_through_in_one_form_and_nothing_else() -> None:
    told = let_through(json.dumps({"cities": GOOD["cities"], "mean": 49.04}, indent=7).encode(), SHAPE, POLICY)
    assert told == {"cities": {"Lima": None, "Oslo": 59}, "mean": 49.0}  # rounded, small counts left out
    assert let_through(json.dumps({**GOOD, "mean": -0.0}).encode(), SHAPE, POLICY)["mean"].hex() == (0.0).hex()
    for wrong in (
        {**GOOD, "mean": "canary"},
        {**GOOD, "mean": 120.01},
        {**GOOD, "mean": True},
        {**GOOD, "mean": 10**30},
        {**GOOD, "note": "canary"},
        {"mean": 49.0},
        {**GOOD, "cities": {"canary": 20}},
        {**GOOD, "cities": {"Oslo": 59.5}},
        {**GOOD, "cities": {"Oslo": -1}},
        [GOOD],
    ):
        with pytest.raises(Shut):
            let_through(json.dumps(wrong).encode(), SHAPE, POLICY)
    for words in (
        b"",
        b"{",
        b'{"mean": NaN, "cities": {}}',
        b'{"mean": 1, "mean": 2, "cities": {}}',
        b"[" * 9000,
        b" " * 5000,
    ):
        with pytest.raises(Shut):
            let_through(words, SHAPE, POLICY)
    assert len(reply(told, POLICY)) == len(reply(None, POLICY)) and b"canary" not in reply(None, POLICY)
    # 1,201 numbers (and one), two histogram counts of 10 to 1,000 or left out, and one bit for a refusal.
    assert SHAPE.bits(POLICY) == pytest.approx(math.log2(1202) + 2 * math.log2(992) + 1)


def test_key_that_is_wrong_and_set_that_was_changed_are_a_line_each(
    sealed: Sealed, keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert b"canary" not in b"".join(path.read_bytes() for path in sealed.folder.iterdir())
    assert json.loads(sealed.opened(keys).splitlines()[0]) == ROWS[0]
    monkeypatch.setenv(VARIABLE, drawn())
    with pytest.raises(UsageError, match="this key does not open it"):
        ask(sealed, Question(what="count", epsilon=0.5), Keys())
    with held(sealed) as ledger:
        assert ledger.entries == []  # it cost nothing
    for value, words in (("", "is not set"), ("c2hvcnQ=", "holds no key"), ("?", "holds no key")):
        monkeypatch.setenv(VARIABLE, value)
        with pytest.raises(UsageError, match=words):
            Keys()
    manifest, rows = sealed.folder / "sealed.json", sealed.folder / "rows.bin"
    whole, text = rows.read_bytes(), manifest.read_text()
    rows.write_bytes(whole[:-1])
    with pytest.raises(StoreError, match="changed or cut off"):
        sealed.opened(keys)
    manifest.write_text(text.replace('"epsilon":1.0', '"epsilon":9.0').replace('"bits":70', '"bits":71'))
    with pytest.raises(StoreError, match="was changed after it was signed"):
        Sealed(sealed.folder)


def test_budget_is_spent_before_and_kept_and_refused(sealed: Sealed) -> None:
    with held(sealed) as ledger:
        ledger.spend("a", epsilon=0.75)
    with held(sealed) as ledger, pytest.raises(UsageError, match=r"epsilon 0\.5 is asked, 0\.25 is left"):
        ledger.spend("b", epsilon=0.5)
    path = sealed.folder / LEDGER
    path.write_bytes(path.read_bytes() + b'{"kind":"asked","ques')  # a write that a kill interrupted
    with held(sealed) as ledger:
        ledger.spend("b", epsilon=0.25)
    assert (Ledger(sealed).epsilon, len(Ledger(sealed).entries)) == (1.0, 2)
    first, second = path.read_bytes().splitlines(keepends=True)
    for changed in (second, first.replace(b"0.75", b"0.05") + second, first + second + second):
        path.write_bytes(changed)
        with pytest.raises(StoreError, match="does not follow"):
            Ledger(sealed)


def test_program_runs_only_as_often_as_the_owner_approved_it(
    sealed: Sealed, keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = b"print(1)"
    with pytest.raises(UsageError, match="nobody has approved"):
        run(sealed, code, SHAPE, keys)
    monkeypatch.setenv(VARIABLE, drawn())
    with held(sealed) as ledger:
        with pytest.raises(UsageError, match="only the key it was sealed with"):
            approve(code, SHAPE, sealed, ledger, Keys(), "eve", 1)
        entry = approve(code, SHAPE, sealed, ledger, keys, "ada", 1)
        allowed(entry.question, sealed, ledger)
        other = digest(code + b" ", SHAPE, sealed)
        for question in (other, digest(code, Shape(fields={"ok": Field(type="flag")}), sealed)):
            with pytest.raises(UsageError, match="nobody has approved"):
                allowed(question, sealed, ledger)
        from msgspec.structs import replace

        ledger.write(replace(entry, question=other))  # signed for another program
        with pytest.raises(UsageError, match="nobody has approved"):
            allowed(other, sealed, ledger)
        ledger.spend(entry.question, bits=1)
        with pytest.raises(UsageError, match="all 1 runs"):
            allowed(entry.question, sealed, ledger)


def test_fixed_questions_are_answered_with_noise_within_what_they_cost(sealed: Sealed, keys: Keys) -> None:
    pytest.importorskip("opendp", reason="pip install 'silva[privacy]'")
    answered = ask(sealed, Question(what="histogram", column="city", epsilon=0.5), keys)
    told = json.loads(answered.reply)["release"]["histogram"]
    assert set(told) == {"Oslo", "Lima"} and abs(told["Oslo"] - 59) < 60  # 30 times the scale: never, in e^-30
    statement = checked(answered.statement, answered.reply, keys.public)
    assert statement["predicate"]["budget"]["epsilon_spent"] == 0.5
    with pytest.raises(UsageError, match="another release"):
        checked(answered.statement, answered.reply + b" ", keys.public)
    with pytest.raises(UsageError, match="not signed"):
        checked(answered.statement, answered.reply, "00" * 32)
    for wrong in (
        Question(what="sum", column="city", epsilon=0.1),
        Question(what="mean", column="name", epsilon=0.1),
        Question(what="count", epsilon=0.0),
        Question(what="count", epsilon=0.1, where=(("name", "canary-1"),)),
    ):
        with pytest.raises(UsageError):
            ask(sealed, wrong, keys)
    with pytest.raises(UsageError, match="the budget is spent"):
        ask(sealed, Question(what="count", epsilon=0.6), keys)
    assert Ledger(sealed).epsilon == 0.5


@pytest.mark.slow
@pytest.mark.skipif(bool(probe().problem), reason="needs sandboxes")
def test_approved_program_tells_what_was_agreed_and_a_thief_gets_a_refusal_of_the_same_size(
    sealed: Sealed, keys: Keys
) -> None:
    read = b"import sys, json, collections\nrows = [json.loads(line) for line in sys.stdin]\n"
    honest = read + (
        b"print(json.dumps({'mean': sum(r['age'] for r in rows) / len(rows), "
        b"'cities': collections.Counter(r['city'] for r in rows)}))"
    )
    thief = read + b"print(rows[0]['name'], file=sys.stderr); raise SystemExit(rows[0]['name'])"
    with held(sealed) as ledger:
        for code in (honest, thief):
            approve(code, SHAPE, sealed, ledger, keys, "ada", 1)
    told, refused = run(sealed, honest, SHAPE, keys), run(sealed, thief, SHAPE, keys)
    assert json.loads(told.reply)["release"] == {"cities": {"Lima": None, "Oslo": 59}, "mean": 46.2}
    assert (told.released, refused.released) == (True, False)
    assert len(told.reply) == len(refused.reply)
    assert b"canary" not in refused.reply + refused.statement
    with pytest.raises(UsageError, match="all 1 runs"):
        run(sealed, honest, SHAPE, keys)
    with held(sealed) as ledger:
        approve(honest + b"\n", SHAPE, sealed, ledger, keys, "ada", 1)
    with pytest.raises(UsageError, match=r"bits are asked, .* are left"):
        run(sealed, honest + b"\n", SHAPE, keys)


def test_approval_is_a_persons_and_rows_that_do_not_fit_are_named(tmp_path: Path, sealed: Sealed) -> None:
    def said(*words: str) -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, "-m", "silva", "lake", *words], capture_output=True, text=True, cwd=tmp_path
        )
        return done.returncode, done.stderr

    (tmp_path / "p.py").write_text("print(1)")
    (tmp_path / "shape.json").write_text('{"fields": {"ok": {"type": "flag"}}}')
    code, line = said("approve-sealed", "set", "p.py", "--shape", "shape.json", "--by", "ada")
    assert code == 2 and "an approval is a person's" in line
    (tmp_path / "rows.jsonl").write_text('{"age": 3}\n{"age": "old"}\n')
    (tmp_path / "policy.json").write_text('{"columns": {"age": {"type": "number", "upper": 120}}}')
    code, line = said("seal", "rows.jsonl", "--policy", "policy.json", "--out", "new")
    assert code == 2 and "row 2: age is str, the policy says number" in line and not (tmp_path / "new").exists()
