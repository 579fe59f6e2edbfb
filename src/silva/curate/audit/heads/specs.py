"""The heads there are: what each looks at, and which corpora teach it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Literal, NamedTuple

from silva.curate.audit.heads.views import Unit, answers, references, replies, sentences, stances, texts
from silva.curate.rows import Row

Kind = Literal["text", "reply", "pair", "stance", "preference"]


class Spec(NamedTuple):
    """A head: its risk, its `kind` of features, what it looks at, and the corpora of its positives.

    `near`: pairs whose embeddings are less alike than this are not looked at: sentences about other things cannot
    contradict each other. `traps`: the share of the training's traps that may score as high as anything that is told;
    None: clean rows alone say what is told.
    """

    risk: str
    kind: Kind
    view: Callable[[Row], Iterator[Unit]]
    corpora: tuple[str, ...]
    near: float = -1.0
    traps: float | None = None


_said = partial(texts, roles=frozenset({"user", "assistant"}))
_asked = partial(texts, roles=frozenset({"user"}))
_given = partial(texts, roles=frozenset({"user", "tool"}), windows=True)

SPECS: dict[str, Spec] = {
    "harmful_request": Spec("harmful", "text", _asked, ("harmful_requests",)),
    "harmful_reply": Spec("harmful", "reply", replies, ("harmful_replies", "harmful_requests")),
    "jailbreak": Spec("jailbreak", "text", _asked, ("jailbreaks",)),
    "injection": Spec("prompt_injection", "text", _given, ("injections",)),
    "toxicity": Spec("toxicity", "text", _said, ("toxic",)),
    "bias": Spec("bias", "text", _said, ("biased",)),
    "sycophancy": Spec("sycophancy", "stance", stances, ("sycophantic",), traps=0.2),
    "mismatch": Spec("instruction_mismatch", "pair", answers, ("mismatched",)),
    "contradiction": Spec("self_contradiction", "pair", sentences, ("contradicting", "factual"), 0.35),
    "factual": Spec("factual", "pair", references, ("factual",)),
    "preference": Spec("label_flipping", "preference", answers, ("flipped",)),
}
"""By name. A row that a head's view finds nothing in is not checked by it."""
