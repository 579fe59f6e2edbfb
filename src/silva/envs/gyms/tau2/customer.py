"""The customer on the other side of an airline or retail conversation: scripted, or played by a model.

    says = customer.opening()            the first words
    says = customer.reply(agent_words)   None: the customer has ended the conversation

The scripted customer says what the scenario lets it know and want: first the reason for calling and what it knows, at
its next turn its further instructions, then an answer to each question by the sentences of the scenario that share
most words with it, "yes" to a request for confirmation. It hangs up when asked whether there is anything else, when
told things twice in a row without being asked anything, or when it would say the same thing a third time. It is the
same every time and needs no model, but it reveals more and haggles less than a person would, and cannot act on an
instruction such as "if the agent offers a refund, refuse": **its scores are not comparable to the leaderboard's.**

The model customer is the benchmark's: its guidelines and the scenario as system prompt, the conversation with roles
exchanged, from any OpenAI-compatible server; its stop words end the conversation.
"""

from __future__ import annotations

import json
import os
import re
import time
import urllib.error
import urllib.request
from typing import Any, Protocol

from silva.envs.gyms.tau2 import library
from silva.errors import UnreachableError, UsageError

STOP_WORDS = ("###STOP###", "###TRANSFER###", "###OUT-OF-SCOPE###")
"""The benchmark's words by which a customer ends the conversation."""

REPLIES = 20
"""The scripted customer hangs up after so many replies."""

CONSENT = "Yes, please go ahead."
GO_ON = "Thank you. Please go on."

GREETING = "Hi! How can I help you today?"
"""The benchmark's first agent message, which the customer answers."""


class Customer(Protocol):
    """Who calls."""

    def opening(self) -> str:
        """The first words."""
        ...

    def reply(self, words: str) -> str | None:
        """The answer to the agent's words; None when the conversation is over."""
        ...


_TURNED = [
    (re.compile(pattern, re.IGNORECASE), words)
    for pattern, words in (
        (r"\byou are\b", "I am"),
        (r"\byou're\b", "I'm"),
        (r"\byou've\b", "I've"),
        (r"\byou'd\b", "I'd"),
        (r"\byou'll\b", "I'll"),
        (r"\byourself\b", "myself"),
        (r"\byours\b", "mine"),
        (r"\byour\b", "my"),
        (
            r"\b(to|for|of|with|from|by|at|on|tell|give|offer|offers|ask|asks|let|lets|help|helps|charge|allow) you\b",
            r"\1 me",
        ),
        (r"\byou\b", "I"),
    )
]

_WORD = re.compile(r"[a-z0-9#']+")
_COMMON = frozenset(
    _WORD.findall(
        "a an and any are as at be been but by can could did do does for from had has have he her hi how i i'm if in "
        "is it its me my no not of on or our please she so some that the their them then there they this to us was we "
        "what when where which who will with would you your yes just also may know like need want tell provide give "
        "help sure thank thanks"
    )
)
_CONFIRM = re.compile(
    r"\b(confirm|proceed|go ahead|shall i|should i|is (that|this) (correct|right|ok|okay)|yes/no|\(yes|agree)\b", re.I
)
_MORE = re.compile(r"\b(anything|something) else\b|\bfurther (help|assist)", re.I)
_TRANSFER = re.compile(r"transferred to a human agent", re.I)


def first_person(text: str) -> str:
    """The scenario's second person turned into the customer's first, word by word."""
    for pattern, words in _TURNED:
        text = pattern.sub(words, text)
    return " ".join(text.split())


def _words(text: str) -> set[str]:
    return {word for word in _WORD.findall(text.lower()) if word not in _COMMON}


class ScriptedCustomer:
    """Speaks from the scenario alone; a pure function of the scenario and what the agent has said."""

    def __init__(self, scenario: Any) -> None:
        told = scenario.instructions
        self._reason = first_person(told.reason_for_call)
        self._known = first_person(told.known_info or "")
        self._unknown = first_person(told.unknown_info or "")
        wishes = told.task_instructions or ""
        self._wishes = first_person(wishes) if _words(wishes) else ""  # some are a lone full stop
        everything = " ".join((self._known, self._reason, self._wishes))
        self._sentences = [s for s in re.split(r"(?<=[.!?])\s+", everything) if s]
        self._wishes_told = not self._wishes
        self._replies = 0
        self._last: str | None = ""
        self._same = 0

    def opening(self) -> str:
        """The reason for the call and what the customer knows."""
        return f"{self._reason} {self._known}".strip()

    def reply(self, words: str) -> str | None:
        """Further wishes once, then answers; None when it hangs up, at the latest after 20 replies."""
        self._replies += 1
        if self._replies > REPLIES or _TRANSFER.search(words):
            return None
        answer = self._answer(words)
        self._same = self._same + 1 if answer == self._last else 0
        self._last = answer
        patience = {CONSENT: REPLIES, GO_ON: 0}.get(answer or "", 1)
        return None if self._same > patience else answer  # over and over the same: no progress

    def _answer(self, words: str) -> str | None:
        asks = "?" in words
        confirms = bool(_CONFIRM.search(words))
        if not self._wishes_told:
            self._wishes_told = True
            found = self._recall(words) if asks and not confirms else ""
            return f"{found} {self._wishes}".strip()
        if confirms:
            return CONSENT
        if _MORE.search(words):
            return None
        if not asks:
            return GO_ON
        return self._recall(words) or "I do not know more than I have told you."

    def _recall(self, words: str) -> str:
        asked = _words(words)
        if self._unknown and len(_words(self._unknown) & asked) > 1:
            return self._unknown
        scored = [(len(_words(sentence) & asked), -place) for place, sentence in enumerate(self._sentences)]
        best = sorted((s for s in scored if s[0] > 0), reverse=True)[:2]
        chosen = sorted(-place for _, place in best)
        return " ".join([self._known, *(self._sentences[p] for p in chosen if self._sentences[p] not in self._known)])


class ModelCustomer:
    """The benchmark's simulated user, played by a model behind an OpenAI-compatible server.

    Args:
        scenario: The task's user scenario.
        model: Model name the server knows.
        url: Base URL, ending before `/chat/completions`.
        key_variable: Environment variable that holds the key ("" or unset: none is sent).
        seed: Sent with every request.
    """

    def __init__(self, scenario: Any, model: str, url: str, key_variable: str, seed: int) -> None:
        if not url.startswith(("http://", "https://")):
            raise UsageError(f"tau2: user_url {url!r} is not an http(s) address: give the server's base URL")
        template = library.prompt("SYSTEM_PROMPT", "user/user_simulator.py")
        instructions = template.format(
            global_user_sim_guidelines=library.customer_guidelines(), instructions=str(scenario)
        )
        self._messages = [{"role": "system", "content": instructions}, {"role": "user", "content": GREETING}]
        self._model = model
        self._url = url.rstrip("/") + "/chat/completions"
        self._key_variable = key_variable
        self._seed = seed

    def opening(self) -> str:
        """The model's answer to the benchmark's greeting.

        Raises:
            UnreachableError: as `reply`, or the model ends the conversation with its first words.
        """
        words = self._ask()
        if words is None:
            raise UnreachableError(f"tau2: user model {self._model} hung up before it began: try another model")
        return words

    def reply(self, words: str) -> str | None:
        """The model's answer; None when it holds one of the stop words.

        Raises:
            UnreachableError: the server refuses, cannot be reached in three tries, or says nothing.
        """
        self._messages.append({"role": "user", "content": words})
        return self._ask()

    def _ask(self) -> str | None:
        body = {"model": self._model, "messages": self._messages, "temperature": 0.0, "seed": self._seed}
        words = self._completion(json.dumps(body).encode())
        self._messages.append({"role": "assistant", "content": words})
        return None if any(stop in words for stop in STOP_WORDS) else words

    def _completion(self, body: bytes) -> str:
        headers = {"Content-Type": "application/json"}
        if key := os.environ.get(self._key_variable, ""):
            headers["Authorization"] = f"Bearer {key}"
        fault = ""
        for wait in (1.0, 4.0, 0.0):
            try:
                with urllib.request.urlopen(urllib.request.Request(self._url, body, headers), timeout=120) as response:
                    words = json.load(response)["choices"][0]["message"]["content"]
                if not isinstance(words, str) or not words.strip():
                    raise UnreachableError(f"tau2: user model {self._model} replied without words: try another model")
                return words
            except urllib.error.HTTPError as error:
                fault = f"status {error.code}: {' '.join(error.read(300).decode('utf-8', 'replace').split())}"
                if error.code != 429 and error.code < 500:
                    break
            except (OSError, TimeoutError) as error:
                fault = str(getattr(error, "reason", error))
            except (ValueError, KeyError, IndexError, TypeError) as error:
                raise UnreachableError(
                    f"tau2: user model {self._model} sent no chat completion ({type(error).__name__}): check user_url"
                ) from error
            time.sleep(wait)
        raise UnreachableError(f"tau2: user model {self._model} cannot be asked ({fault}): check user_url and the key")
