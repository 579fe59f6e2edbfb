"""A plan: JSON that says which tools run, on what, with which settings. Nothing in it is code.

    {"format": 1, "intent": "…", "steps": [
       {"id": "rows", "tool": "read-rows", "settings": {"source": "expert"}},
       {"id": "unique", "tool": "deduplicate", "inputs": {"rows": ["rows"]}}]}

A step takes artefacts from steps by their ids, so steps are a graph without circles; what comes last in it is the
answer. `silva.elf.checking` says whether a plan may run.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from silva.errors import UsageError
from silva.tree import Json, Record, digest

FORMAT = 1
MOST_STEPS = 64
"""Steps that a plan may have."""
MOST_BYTES = 1 << 20
"""Bytes of a plan's file."""


class Step(Record, frozen=True, kw_only=True):
    """One call of a tool. `inputs` names, for each artefact that it takes, the steps that give it; `version` is the
    tool's when the plan was made (0: whatever it is now)."""

    id: str
    tool: str
    inputs: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict[str, tuple[str, ...]])
    settings: Json = msgspec.field(default_factory=dict)
    version: int = 0


class Budget(Record, frozen=True, kw_only=True):
    """What a job may take at most. `steps`: tool steps of a plan, or attempts of a pilot; `seconds` of wall time while
    it runs; `tokens` and `usd` of models; `memory`: bytes of the process that runs a step."""

    steps: int = MOST_STEPS
    seconds: float = 3600.0
    tokens: int = 200_000
    usd: float = 5.0
    memory: int = 4 << 30


class Plan(Record, frozen=True, kw_only=True):
    """A directed graph of steps. `notes` say what the planner took for granted; `planner` who made it; `asks` are
    questions that a person must answer before it can run."""

    intent: str = ""
    steps: tuple[Step, ...]
    planner: str = ""
    notes: tuple[str, ...] = ()
    asks: tuple[str, ...] = ()
    format: int = FORMAT

    @property
    def digest(self) -> str:
        """Equal for plans that do the same."""
        return digest("plan", msgspec.json.encode(self.steps, order="deterministic"))

    @property
    def last(self) -> tuple[str, ...]:
        """The ids of steps whose artefacts no other step takes: the answers."""
        used = {source for step in self.steps for sources in step.inputs.values() for source in sources}
        return tuple(step.id for step in self.steps if step.id not in used)

    def step(self, name: str) -> Step:
        """The step of that id. Raises KeyError."""
        return {step.id: step for step in self.steps}[name]


def read_plan(data: bytes, where: str) -> Plan:
    """Read a plan, of a file or of a model's reply.

    Raises:
        UsageError: it is none; the line says what is wrong with it.
    """
    if len(data) > MOST_BYTES:
        raise UsageError(f"{where}: a plan has at most {MOST_BYTES >> 20} MB, this has {len(data):,} bytes")
    try:
        plan = msgspec.json.decode(data, type=_Strict)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"{where}: it is no plan: {error}") from error
    if plan.format != FORMAT:
        raise UsageError(f"{where}: a plan of format {plan.format}; this reads {FORMAT}")
    return Plan(**{name: getattr(plan, name) for name in plan.__struct_fields__})


class _Strict(Plan, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A plan as strangers may send it: a field that nobody reads is a mistake."""


def load_plan(path: Path) -> Plan:
    """Read a plan's file. Raises UsageError."""
    try:
        return read_plan(path.read_bytes(), str(path))
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror})") from error


def encoded_plan(plan: Plan) -> bytes:
    """A plan as JSON for people to read."""
    return msgspec.json.format(msgspec.json.encode(plan), indent=2) + b"\n"


def drawn(plan: Plan) -> str:
    """A plan in lines: what each step does, with what, and where its artefacts come from."""
    lines: list[str] = []
    for number, step in enumerate(plan.steps, 1):
        given = ", ".join(f"{name}={_short(value)}" for name, value in step.settings.items())
        sources = ", ".join(source for each in step.inputs.values() for source in each)
        lines.append(f"{number}. {step.id}: {step.tool}({given})" + (f" of {sources}" if sources else ""))
    return "\n".join(lines)


def _short(value: object) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= 120 else text[:119] + "…"
