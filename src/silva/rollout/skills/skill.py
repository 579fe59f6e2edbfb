"""A skill as a `SKILL.md`: front matter that says when it helps, and a short text that says how.

The form is that of Agent Skills (agentskills.io: `name`, `description`, `metadata` of strings), so that other agents
read a bank of ours as their own. What Silva knows besides stands in `metadata`.
"""

from __future__ import annotations

import json
import re
from typing import Any, Literal, cast

import msgspec
import yaml

from silva.errors import UsageError
from silva.tree import Record, digest

NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
LONGEST_NAME, LONGEST_DESCRIPTION, LONGEST_BODY = 64, 1024, 8_000
"""Characters; the first two as the form has them."""

Status = Literal["candidate", "kept", "rejected", "retired"]
_FENCE = "---"
_OURS = ("kind", "version", "status", "envs", "says", "by", "sources", "tasks", "evidence", "why", "trial")


class Trial(Record, frozen=True, kw_only=True):
    """What a paired trial of a skill said: the mean gain in score with it against without it over `tasks`, with its
    interval (None where too few tasks say), the gain in safety where that was measured, and the two runs."""

    gain: float
    low: float | None
    high: float | None
    tasks: int
    with_run: str
    without_run: str
    safety: float | None = None


class Skill(Record, frozen=True, kw_only=True):
    """One skill, in one version.

    Attributes:
        name: small letters, digits and hyphens.
        description: when it helps; this is what tasks are held against.
        body: what to do, as Markdown.
        kind: `do` what the better sibling did, or `avoid` what made the other unsafe.
        version: from 1; a newer one supersedes it.
        status: candidates have not been tried; only kept ones are given to agents.
        envs: environments it comes from; empty for any.
        says: a word; tasks that do not say it are not given the skill ("": any may be).
        by: who wrote it: `extraction`, or a model.
        sources: trajectories it comes from, the better before the worse.
        tasks: the tasks of those trajectories; a trial leaves them out.
        evidence: how many tasks there are whose siblings agree on it.
        why: why it was rejected or retired.
        trial: what its trial said.
    """

    name: str
    description: str
    body: str
    kind: Literal["do", "avoid"] = "do"
    version: int = 1
    status: Status = "candidate"
    envs: tuple[str, ...] = ()
    says: str = ""
    by: str = ""
    sources: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    evidence: int = 1
    why: str = ""
    trial: Trial | None = None

    @property
    def digest(self) -> str:
        """Of what an agent reads of it."""
        return digest("skill", self.name, self.description, self.body)

    def checked(self) -> Skill:
        """This skill.

        Raises:
            UsageError: a field is not of the form.
        """
        if not NAME.fullmatch(self.name) or len(self.name) > LONGEST_NAME:
            raise UsageError(f"skill {self.name!r}: its name is small letters, digits and hyphens, at most 64")
        if not self.description.strip() or len(self.description) > LONGEST_DESCRIPTION:
            raise UsageError(f"skill {self.name}: its description has 1 to {LONGEST_DESCRIPTION} characters")
        if not self.body.strip() or len(self.body) > LONGEST_BODY:
            raise UsageError(f"skill {self.name}: its text has 1 to {LONGEST_BODY} characters")
        return self


def write_skill(skill: Skill) -> str:
    """The skill as the text of a SKILL.md."""
    said = {
        "kind": skill.kind,
        "version": str(skill.version),
        "status": skill.status,
        "envs": " ".join(skill.envs),
        "says": skill.says,
        "by": skill.by,
        "sources": " ".join(skill.sources),
        "tasks": json.dumps(skill.tasks, ensure_ascii=False) if skill.tasks else "",
        "evidence": str(skill.evidence),
        "why": skill.why,
        "trial": "" if skill.trial is None else msgspec.json.encode(skill.trial).decode(),
    }
    front = {
        "name": skill.name,
        "description": skill.description,
        "metadata": {key: text for key, text in said.items() if text},
    }
    head = yaml.safe_dump(front, sort_keys=False, allow_unicode=True, width=100)
    return f"{_FENCE}\n{head}{_FENCE}\n\n{skill.body.strip()}\n"


def read_skill(text: str, where: str) -> Skill:
    """The skill that a SKILL.md holds; one that somebody else wrote counts as kept.

    Args:
        text: the file's.
        where: the file, as errors name it.

    Raises:
        UsageError: it is not of the form.
    """
    parts = re.split(r"^---[ \t]*$", text.lstrip("\ufeff \n"), maxsplit=2, flags=re.MULTILINE)
    try:
        front: Any = yaml.safe_load(parts[1]) if len(parts) == 3 and not parts[0].strip() else None
    except yaml.YAMLError as fault:
        raise UsageError(f"{where}: its front matter is no YAML ({' '.join(str(fault).split())})") from fault
    if not isinstance(front, dict):
        raise UsageError(f"{where}: begins with no front matter (--- name: … description: … ---)")
    fields = cast(dict[str, Any], front)
    metadata = fields.get("metadata") if isinstance(fields.get("metadata"), dict) else {}
    said = {key: str(value) for key, value in cast(dict[str, Any], metadata).items() if key in _OURS}
    try:
        trial = msgspec.json.decode(said["trial"], type=Trial) if said.get("trial") else None
        values = {
            "name": fields.get("name"),
            "description": fields.get("description"),
            "body": parts[2].strip(),
            "kind": said.get("kind", "do"),
            "version": int(said.get("version", "1")),
            "status": said.get("status", "kept"),
            "envs": said.get("envs", "").split(),
            "says": said.get("says", ""),
            "by": said.get("by", ""),
            "sources": said.get("sources", "").split(),
            "tasks": json.loads(said.get("tasks", "[]")),
            "evidence": int(said.get("evidence", "1")),
            "why": said.get("why", ""),
        }
        return msgspec.structs.replace(msgspec.convert(values, Skill), trial=trial).checked()
    except (msgspec.ValidationError, msgspec.DecodeError, ValueError) as fault:
        raise UsageError(f"{where}: {fault}") from fault
