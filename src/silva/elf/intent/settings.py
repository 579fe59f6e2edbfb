"""A tool's settings from what an intent says: by the setting's name, for every tool alike."""

from __future__ import annotations

import re

from silva.elf.intent.frame import Frame, among
from silva.elf.tool import Card
from silva.tree import Json

_MEASURES = (
    ("success", r"success(?:ful)?(?: rates?)?|solve rate|win rate|pass rate|accuracy"),
    ("safety", r"safety"),
    ("turns", r"(?:turns|steps|length)"),
    ("tokens", r"tokens"),
    ("usd", r"(?:costs?|dollars|usd|money|spent|expensive)"),
    ("seconds", r"(?:seconds|duration|how long|time|latency)"),
    ("reward", r"rewards?"),
    ("score", r"scores?|scored"),
)
_GROUPS = (
    ("env", r"(?:env|environment|gym)s?"),
    ("run", r"runs?"),
    ("task", r"tasks?"),
    ("model", r"models?"),
    ("agent", r"agents?"),
    ("policy", r"polic(?:y|ies)(?: versions?)?"),
    ("status", r"(?:status|outcome|state)"),
    ("failure", r"(?:failure(?: codes?| kinds?)?|error codes?)"),
)


class Filling:
    """Fills settings from a frame; `asks` collects what a person must say before a plan can run.

    Args:
        frame: what was read.
        runs: those that may be meant where none is said.
    """

    def __init__(self, frame: Frame, runs: tuple[str, ...]) -> None:
        self.frame, self._there = frame, runs
        self.asks: list[str] = []
        self.notes: list[str] = []

    def settings(self, card: Card) -> Json:
        """The settings of one step."""
        found: Json = {}
        for name in card.settings:
            value = self._value(card, name)
            if value not in (None, "", (), [], {}, 0, 0.0) or (
                value is False and card.settings[name].get("default") is True
            ):
                found[name] = value
        for name in card.required:
            if name not in found:
                self._ask(card, name)
        return found

    def _ask(self, card: Card, name: str) -> None:
        known = (
            f" (there are: {', '.join(self._there[:8])})" if self._there and name in ("run", "plan", "against") else ""
        )
        words = {
            "run": "which run?",
            "against": "which run is it compared with?",
            "plan": "which plan of the red team, or which run?",
            "source": "which data: a run, a file, or a condition on trajectories?",
            "paths": "which data sets? Name two files at least",
            "path": "which file?",
            "text": "which words?",
            "query": "which SELECT?",
            "where": "which condition?",
            "count": "how many rows?",
            "licence": "under which licence (an SPDX name, such as CC-BY-4.0)?",
        }
        self.asks.append(f"{card.name}: {words.get(name, f'which {name}?')}{known}")

    def _value(self, card: Card, name: str) -> object:
        frame = self.frame
        simple = getattr(self, f"_{name}", None)
        if simple is not None:
            return simple(card)
        if name in frame.codes:
            return frame.codes[name]
        return None

    def _run(self, card: Card) -> str:
        if self.frame.into:
            return self.frame.into
        if self.frame.runs:
            return self.frame.runs[0]
        if card.required and "run" in card.required and not self.frame.envs:
            if self.frame.unknown:
                return self.frame.unknown[0]
            if len(self._there) == 1:
                self.notes.append(f"the run is {self._there[0]}, the only one there is")
                return self._there[0]
            if self._there and re.search(r"\b(?:last|latest|newest|most recent) run\b", self.frame.said, re.IGNORECASE):
                return self._there[-1]
        return ""

    def _against(self, card: Card) -> str:
        if len(self.frame.runs) > 1:
            return self.frame.runs[1]
        return self.frame.unknown[0] if self.frame.runs and self.frame.unknown else ""

    def _plan(self, card: Card) -> str:
        if self.frame.runs or self.frame.unknown:
            return (self.frame.runs or self.frame.unknown)[0]
        return self._there[0] if len(self._there) == 1 else ""

    def _runs(self, card: Card) -> list[str]:
        return list(self.frame.runs) or list(self.frame.unknown[:1])

    def _where(self, card: Card) -> str:
        if card.name == "filter-rows":
            return " and ".join(self.frame.rows)
        if card.name == "read-rows" and (self.frame.files or not self.frame.runs):
            return ""
        said = self.frame.condition
        if (
            "run" not in card.settings
            and "runs" not in card.settings
            and "source" not in card.settings
            and self.frame.runs
        ):
            said = " and ".join(filter(None, (among("run_id", self.frame.runs), said)))
        return said

    def _count(self, card: Card) -> int:
        return self.frame.count

    def _seed(self, card: Card) -> int | None:
        return self.frame.seed

    def _query(self, card: Card) -> str:
        return self.frame.sql

    def _text(self, card: Card) -> str:
        if self.frame.quoted:
            return self.frame.quoted[0]
        held = re.search(r"ilike '%(.+)%'", " ".join(self.frame.rows))
        if held:
            return held[1].replace("''", "'")
        match = re.search(
            r"\b(?:for|mention(?:s|ing)?|contain(?:s|ing)?|find|words?|about|say(?:s|ing)?)\s+(?:the "
            r"(?:words?|phrase|text|term)s? )?([\w][\w \-]*?)(?:\s+(?:in|of|among|from|within)\b.*|"
            r"[.?!]?\s*)$",
            self.frame.said,
            re.IGNORECASE,
        )
        words = match[1] if match else ""
        return re.sub(
            r"^(?:all |any |the )?(?:turns?|messages?|trajector(?:y|ies)|places)\s+(?:that |which |where )?", "", words
        ).strip()

    def _form(self, card: Card) -> str:
        frame = self.frame
        kinds = card.settings["form"]
        allowed = kinds.get("enum") or [each.get("const") for each in kinds.get("anyOf", [])]
        if card.name == "write-samples":
            return frame.sample_form
        if card.name in ("export-trajectories", "import-trajectories"):
            return frame.tree_form
        return frame.form if frame.form and (not allowed or frame.form in allowed) else ""

    def _name(self, card: Card) -> str:
        return self.frame.output.rsplit("/", 1)[-1]

    def _paths(self, card: Card) -> list[str]:
        return list(self.frame.files) if len(self.frame.files) > 1 or card.name == "eeg-recordings" else []

    def _path(self, card: Card) -> str:
        return self.frame.files[0] if self.frame.files else ""

    def _ratios(self, card: Card) -> list[float]:
        return self.frame.ratios

    def _shares(self, card: Card) -> dict[str, float]:
        return self.frame.shares

    def _factor(self, card: Card) -> float:
        return self.frame.factor

    def _margin(self, card: Card) -> float:
        return self.frame.margin

    def _rule(self, card: Card) -> str:
        parts = [each.strip("()").replace("'", "") for each in self.frame.where if " or " not in each]
        parts += [f"env = {each}" for each in self.frame.envs[:1]]
        if any("status = 'failed' or" in each for each in self.frame.where):
            parts.append("success = false")
        return " and ".join(dict.fromkeys(parts))

    def _success(self, card: Card) -> bool:
        return False  # a condition says it

    def _key(self, card: Card) -> str:
        found = re.search(
            r"\b(?:by|per|same|keep together) (?:the )?(question|tag)s?\b", self.frame.said, re.IGNORECASE
        )
        return found[1].lower() if found else ""

    def _loose(self, card: Card) -> bool:
        return bool(
            re.search(
                r"near|case|punctuation|whitespace|spac(?:es|ing)|almost|similar|fuzz|loose",
                self.frame.said,
                re.IGNORECASE,
            )
        )

    def _how(self, card: Card) -> str:
        said = self.frame.said.lower()
        if card.name == "take-rows":
            return "random" if self.frame.drawn else ""
        if card.name == "clean-rows":
            return (
                "redact"
                if re.search(r"redact|anonymi|blank|black out|hid(?:e|ing)", said)
                else "mask"
                if "mask" in said
                else ""
            )
        return ""

    def _by(self, card: Card) -> str:
        said = self.frame.said.lower()
        if card.name == "sort-rows":
            if re.search(r"long|short|length", said):
                return "words" if "word" in said else "turns" if "turn" in said else "chars"
            match = re.search(
                r"\b(?:by|on) (?:their |the )?(?:number of )?(score|turns|words|chars|characters|label|"
                r"reward|safety|length|id)\b",
                said,
            )
            return {"characters": "chars", "length": "chars"}.get(match[1], match[1]) if match else ""
        for name, pattern in _GROUPS:
            if re.search(
                rf"\b(?:by|per|for each|of each|in each|each|every|for every|across|grouped by|which) "
                rf"(?:the )?{pattern}\b",
                said,
            ):
                return name
        return ""

    def _descending(self, card: Card) -> bool | None:
        return (
            False
            if re.search(r"short|ascending|lowest|fewest|smallest|least", self.frame.said, re.IGNORECASE)
            else None
        )

    def _measure(self, card: Card) -> str:
        said = self.frame.said.lower()
        counts = re.search(r"\bhow many\b|\bnumber of\b|\bcount\b|\btally\b", said)
        if re.search(r"\b(?:share|fraction|proportion|percentage|percent)\b", said) and re.search(
            r"succe|solved|passed", said
        ):
            return "success"
        if counts and not re.search(r"how many (?:turns|tokens|steps)|\b(?:mean|average|avg)\b", said):
            return ""
        for name, pattern in _MEASURES:
            if re.search(rf"\b(?:{pattern})\b", said):
                return name
        return ""

    def _risks(self, card: Card) -> list[str]:
        return self.frame.risks

    def _scorer(self, card: Card) -> str:
        other = re.search(r"\b(?:with|by|using) (?:the )?(\w+_\w+)", self.frame.said)
        if not self.frame.scorers and other and other[1] in self.frame.unknown:
            self.asks.append(f"{card.name}: which scorer? there is no {other[1]} (silva data scorers lists them)")
        return self.frame.scorers[0] if self.frame.scorers else ""

    def _sequence(self, card: Card) -> list[str]:
        found = self.frame.codes.get("sequence")
        return [found] if found else []

    def _variable(self, card: Card) -> str:
        found = re.search(r"\bvariable (?:called |named )?[\"'`]?(\w+)", self.frame.said, re.IGNORECASE)
        return found[1] if found else ""

    def _licence(self, card: Card) -> str:
        found = re.search(
            r"\b(CC0-1\.0|CC0|CC-?BY(?:-[A-Z]{2})*-?\d\.\d|MIT|Apache-2\.0|BSD-\d-Clause|GPL-[\d.]+)\b", self.frame.said
        )
        return {"CC0": "CC0-1.0"}.get(found[1], found[1]) if found else ""

    def _source(self, card: Card) -> str:
        frame = self.frame
        if frame.files:
            return frame.files[0]
        if len(frame.runs) == 1:
            return frame.runs[0]
        if frame.runs:
            return among("run_id", frame.runs)
        if frame.unknown:
            return frame.unknown[0]
        if frame.condition:
            return frame.condition
        if re.search(
            r"\b(?:lake|everything|all (?:the )?(?:runs|trajectories|data|of it)|whole|every)\b",
            frame.said,
            re.IGNORECASE,
        ):
            return "turns >= 0"
        if len(self._there) == 1:
            self.notes.append(f"the rows are those of run {self._there[0]}, the only one there is")
            return self._there[0]
        return ""
