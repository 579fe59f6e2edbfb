"""What tokens cost: a conversation of 50 turns, gone on from by its ids, and tokenised anew at every turn.

the same conversation ─▶ extend: template, then the new message's ids   ┐ ids made, seconds, for each turn
                      └▶ anew: template, then every id of the prompt    ┘

Ids made grow with what is new; the seconds of a turn have the template in them, which is rendered whole each time.
"""

from __future__ import annotations

import os
import random
import statistics
import sys
import time
from typing import Any

from report import Measurement, arguments, hand_in, load
from silva.models.exact import Extension, Renderer, open_renderer
from silva.tree import Message, Tool, assistant, call, system, tool_result, user

WORDS = """the agent reads a file of logs and finds the error in line {n}: value {v} is not in range, so it tries
again""".split()  # noqa: SIM905 - a sentence reads better than a list
TOOL = Tool(
    name="run",
    description="Run a command.",
    parameters={"type": "object", "properties": {"command": {"type": "string"}}},
)


def text(source: random.Random, words: int) -> str:
    """Words and numbers, as logs and listings have them."""
    return " ".join(
        source.choice(WORDS).format(n=source.randrange(9999), v=source.random()) + source.choice(("", "", "\n", ","))
        for _ in range(words)
    )


def conversation(turns: int, words: int) -> list[tuple[Message, tuple[Message, ...]]]:
    """For each turn: the reply, and what is said after it."""
    source = random.Random(7)
    made: list[tuple[Message, tuple[Message, ...]]] = []
    for turn in range(turns):
        reply = assistant(text(source, 20), call("run", {"command": text(source, 10)}, f"call{turn:05d}"))
        made.append((reply, (tool_result(f"call{turn:05d}", text(source, words), "run"),)))
    return made


def run(renderer: Renderer, turns: int, words: int) -> dict[str, Any]:
    """One conversation both ways; ids made and seconds of each turn."""
    messages: tuple[Message, ...] = (system("You fix programs."), user(text(random.Random(1), words)))
    seen = asked = renderer.render(messages, (TOOL,))
    anew_ids, anew_seconds, extend_ids, extend_seconds, lengths = [], [], [], [], []
    for reply, new in conversation(turns, words):
        told = renderer.render((*messages, reply), (TOOL,), generation_prompt=False)
        sampled = told[len(asked) : max(place + 1 for place, number in enumerate(told) if number in renderer.stop_ids)]
        seen, messages = seen + sampled, (*messages, reply)
        before, began = renderer.encoded, time.perf_counter()
        found = renderer.extend(seen, messages, new, (TOOL,))
        extend_seconds.append(time.perf_counter() - began)
        extend_ids.append(renderer.encoded - before)
        assert isinstance(found, Extension), found
        messages = (*messages, *new)
        before, began = renderer.encoded, time.perf_counter()
        asked = renderer.render(messages, (TOOL,))
        anew_seconds.append(time.perf_counter() - began)
        anew_ids.append(renderer.encoded - before)
        seen = seen + found.ids
        lengths.append(len(seen))
    return {
        "anew_ids": anew_ids,
        "anew_seconds": anew_seconds,
        "extend_ids": extend_ids,
        "extend_seconds": extend_seconds,
        "lengths": lengths,
    }


def middle(rounds: list[dict[str, Any]]) -> dict[str, Any]:
    """The median of the rounds, turn by turn; ids are the same in all of them."""
    return {
        key: [statistics.median(each) for each in zip(*(one[key] for one in rounds), strict=True)] for key in rounds[0]
    }


def growth(values: list[float]) -> float:
    """How much more the last fifth of turns takes than the first fifth."""
    fifth = max(1, len(values) // 5)
    return statistics.mean(values[-fifth:]) / max(statistics.mean(values[:fifth]), 1e-9)


def main() -> int:
    """Measure and hand in."""
    options = arguments(__doc__).parse_args()
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    before = load()
    turns, words = (10, 100) if options.quick else (50, 200)
    renderer = open_renderer("local")
    renderer.render((user("warm"),))
    measured = middle([run(renderer, turns, words) for _ in range(1 if options.quick else 5)])
    rows = []
    for way in ("extend", "anew"):
        ids, seconds = measured[f"{way}_ids"], measured[f"{way}_seconds"]
        rows.append(
            {
                "way": "by its ids" if way == "extend" else "tokenised anew",
                "turns": turns,
                "ids made": sum(ids),
                "ids, last turn": ids[-1],
                "ms in all": round(sum(seconds) * 1000, 1),
                "ms, last turn": round(seconds[-1] * 1000, 2),
                "growth of ids": round(growth(ids), 2),
                "growth of ms": round(growth(seconds), 2),
            }
        )
    ratio = rows[1]["ids made"] / rows[0]["ids made"]
    linear = rows[0]["growth of ids"] < 1.5
    return hand_in(
        Measurement(
            name="exact",
            question=f"What do the tokens of a conversation of {turns} turns cost ({measured['lengths'][-1]:,} ids at its end)?",
            bar="Extending makes at least 10 times fewer ids than tokenising anew, and no more in late turns than in early ones",
            ratio=ratio,
            holds=ratio >= 10 and linear,
            rows=rows,
            details={
                "seconds_ratio": round(rows[1]["ms in all"] / rows[0]["ms in all"], 2),
                "linear": linear,
                "tokenizer": renderer.name,
                "by_turn": {
                    key: [round(value * 1000, 3) for value in values] if key.endswith("seconds") else values
                    for key, values in measured.items()
                },
                "units": "seconds by turn are in milliseconds",
            },
            versions={"tokenizers": __import__("tokenizers").__version__, "jinja2": __import__("jinja2").__version__},
            quick=options.quick,
        ),
        before,
    )


if __name__ == "__main__":
    sys.exit(main())
