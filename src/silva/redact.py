"""Secrets taken out of text before it is written anywhere.

    config, log line or message ─▶ Redactor ─▶ the same value, secrets replaced by `[redacted …]`

Two sources say what a secret is: the shapes that providers give their keys, and the values of this process's own
`*_KEY`, `*_TOKEN`, `*_SECRET` and `*_PASSWORD` variables. Most text holds neither, so a substring test runs before any
pattern; a value in which nothing is found is returned as the same object.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from silva.tree import Message, TextPart, ThinkingPart, ToolCall

_WORD = r"[A-Za-z0-9_\-]"


class _Shape(NamedTuple):
    """A secret's shape: `hints` are substrings one of which every match contains (tested first, being cheap)."""

    name: str
    hints: tuple[str, ...]
    pattern: re.Pattern[str]


# Order matters: a specific prefix must be tried before the general one that would also match it.
_SHAPES = (
    _Shape("run token", ("sk-silva.",), re.compile(rf"\bsk-silva\.[A-Za-z0-9._\-]{{1,100}}\.{_WORD}{{20,}}")),
    _Shape("Anthropic key", ("sk-ant-",), re.compile(rf"\bsk-ant-{_WORD}{{16,}}")),
    _Shape("OpenAI key", ("sk-",), re.compile(rf"\bsk-(?:proj-|svcacct-|admin-|or-v1-)?{_WORD}{{20,}}")),
    _Shape("Hugging Face token", ("hf_",), re.compile(r"\bhf_[A-Za-z0-9]{20,}")),
    _Shape("Google key", ("AIza",), re.compile(rf"\bAIza{_WORD}{{30,}}")),
    _Shape(
        "GitHub token",
        ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"),
        re.compile(r"\b(?:gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{22,})"),
    ),
    _Shape("AWS key id", ("AKIA", "ASIA"), re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b")),
    _Shape("Slack token", ("xox",), re.compile(r"\bxox[abposr]-[A-Za-z0-9\-]{10,}")),
    _Shape(
        "private key",
        ("PRIVATE KEY-----",),
        re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?-----END [A-Z ]*PRIVATE KEY-----", re.DOTALL),
    ),
    _Shape("JWT", ("eyJ",), re.compile(rf"\beyJ{_WORD}{{8,}}\.eyJ{_WORD}{{8,}}\.{_WORD}{{8,}}")),
    _Shape(
        "bearer token",
        ("earer ", "EARER "),
        re.compile(r"(?<=bearer )(?!\[redacted)[A-Za-z0-9._~+/\-]{16,}=*", re.IGNORECASE),
    ),
    _Shape("credentials", ("://",), re.compile(r"(?<=://)[^\s/@:\"']*:[^\s/@\"']+(?=@)")),
)

_EVERY = tuple(hint for shape in _SHAPES for hint in shape.hints)
_HINTS = tuple(hint for hint in _EVERY if not any(other in hint for other in _EVERY if other != hint))
"""The hints that no other one is part of: where none of these is, there is none at all."""
_SECRET_VARIABLE = re.compile(r"(?:^|_)(?:KEY|TOKEN|SECRET|PASSWORD)$")
_SECRET_NAME = re.compile(
    r"^(?:.*[_\-.])?(?:api[_\-]?key|secret(?:[_\-]?(?:access[_\-]?)?key)?|password|passwd|token|authorization|"
    r"credentials?|private[_\-]?key|cookie)$",
    re.IGNORECASE,
)
_SHORTEST = 8


class Redactor:
    """Takes secrets out of text, JSON and messages.

    Args:
        environment: variables whose secret values are also taken out (the process's own by default). Values shorter
            than eight characters are left alone: they would also match ordinary words.
    """

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        variables = os.environ if environment is None else environment
        known = {
            value: name
            for name, value in variables.items()
            if _SECRET_VARIABLE.search(name) and len(value) >= _SHORTEST and not value.startswith(("/", "~"))
        }
        # The longest first, so that a secret containing another is replaced whole.
        self._known = sorted(known.items(), key=lambda pair: len(pair[0]), reverse=True)

    @property
    def hints(self) -> tuple[str, ...]:
        """Texts one of which stands in whatever holds a secret, for who looks through much at once."""
        return (*(value for value, _ in self._known), *_HINTS)

    def text(self, text: str) -> str:
        """The text without secrets; the same object when it holds none."""
        for value, name in self._known:
            if value in text:
                text = text.replace(value, f"[redacted {name}]")
        for shape in _SHAPES:
            for hint in shape.hints:
                if hint in text:
                    text = shape.pattern.sub(f"[redacted {shape.name}]", text)
                    break
        return text

    def json(self, value: Any, *, names: bool = False) -> Any:
        """Plain JSON without secrets, keys of objects included.

        Args:
            value: objects, lists and scalars; not changed.
            names: also replace text that stands under a secret's name (`api_key`, `password`, `token`). Right for
                configuration and headers, wrong for what an environment says: a benchmark's `token` is its data.
        """
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            clean: dict[Any, Any] = {}
            for name, item in value.items():
                if names and isinstance(item, str) and item and isinstance(name, str) and _SECRET_NAME.match(name):
                    clean[name] = f"[redacted {name}]"
                else:
                    clean[self.text(name) if isinstance(name, str) else name] = self.json(item, names=names)
            return clean
        if isinstance(value, list | tuple):
            return [self.json(item, names=names) for item in value]
        return value

    def message(self, message: Message) -> Message:
        """The message without secrets in its parts and tool calls; the same object when it holds none."""
        parts = tuple(self._part(part) for part in message.parts)
        calls = tuple(self._call(call) for call in message.tool_calls)
        # Identity, not equality: unchanged parts come back as themselves, and this runs for every turn.
        same = all(a is b for a, b in zip(parts, message.parts, strict=True)) and all(
            a is b for a, b in zip(calls, message.tool_calls, strict=True)
        )
        return message if same else msgspec.structs.replace(message, parts=parts, tool_calls=calls)

    def _part(self, part: Any) -> Any:
        if not isinstance(part, TextPart | ThinkingPart):
            return part
        text = self.text(part.text)
        return part if text is part.text else msgspec.structs.replace(part, text=text)

    def _call(self, call: ToolCall) -> ToolCall:
        arguments = self.text(call.arguments)
        return call if arguments is call.arguments else msgspec.structs.replace(call, arguments=arguments)


@lru_cache(maxsize=1)
def redactor() -> Redactor:
    """The redactor of this process, made once from its environment."""
    return Redactor()


def redact(text: str) -> str:
    """The text without secrets, by the process's own redactor."""
    return redactor().text(text)


def redact_json(value: Any, *, names: bool = False) -> Any:
    """Plain JSON without secrets, by the process's own redactor (see `Redactor.json`)."""
    return redactor().json(value, names=names)
