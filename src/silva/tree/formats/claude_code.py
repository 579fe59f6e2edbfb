"""Claude Code: the session files of Anthropic's command line. Read only.

    lines (uuid, parentUuid) ─▶ one turn for the lines of one reply ─▶ answers of one turn in a row ─▶ Branches

An edited prompt and a retry are branches. A compacted context and a sub-agent (`isSidechain`) see nothing of what
stood before, so each opens a root of its own in the session's tree, and says under `attributes["claude-code"]` what it
follows. Lines that are no message (attachments, hooks, snapshots, titles) are passed through and counted there; the
system prompt and the tools do not stand in these files. A reply that the program made up is no turn of the policy.

A session that is resumed may be written again, with links of its own or under another session's name: what says the
same in the same place is the same turn. What the program prints of itself (`claude_stream`) is read, too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, cast

import msgspec

from silva.tree.formats.blocks import Reading, Said
from silva.tree.formats.bundle import Bundle
from silva.tree.formats.claude_stream import Stream, is_stream, outcome_of
from silva.tree.formats.draft import Origin, Turn
from silva.tree.formats.images import Loader
from silva.tree.formats.twigs import ROOT, Branches, Ending
from silva.tree.formats.values import Row, rows
from silva.tree.message import Json, Message
from silva.tree.node import NO_USAGE, Author, Usage
from silva.tree.run import Run

KEPT = "claude-code"
_SYNTHETIC = "<synthetic>"
_SESSION = ("cwd", "gitBranch", "version", "entrypoint", "userType", "permissionMode", "slug")
_LINKS = ("uuid", "parentUuid", "logicalParentUuid", "sourceToolAssistantUUID", "promptId", "requestId", "agentId")
_LINE = (*_SESSION, *_LINKS, "type", "message", "timestamp", "sessionId", "isSidechain", "promptSource")


def recognise(sample: bytes, value: Any) -> bool:
    """Whether the file's first value is a line of a session."""
    row = cast(Json, value) if isinstance(value, dict) else {}
    if not isinstance(row.get("type"), str):
        return False
    if is_stream(value):
        return True
    if "uuid" in row and "parentUuid" in row:
        return True
    # A file may begin with a title, a snapshot or a queue; the messages come after it.
    first = "sessionId" in row or "leafUuid" in row or "messageId" in row
    return first and b'"parentUuid"' in sample and b'"sessionId"' in sample


def read(
    lines: Iterable[str | bytes], name: str = "session.jsonl", run: str = "imported", load: Loader | None = None
) -> Iterator[Bundle]:
    """One bundle for each session of the file.

    Args:
        lines: the file's lines, newlines kept.
        name: the file as errors name it.
        run: the run to read into.
        load: gives the bytes of images by their path.

    Raises:
        FormatError: with the line and the field.
    """
    sessions: dict[str, _Session] = {}
    stream = Stream()
    latest = ""
    for row in rows(lines, name):
        if "type" not in row:
            raise row.error("type", "required field is missing")
        if is_stream(row.value):
            row = stream.line(row)
        latest = row.text("sessionId") or latest
        if latest not in sessions:
            # A session that another one goes on from is one conversation with it.
            parent = row.text("parentUuid") or row.text("logicalParentUuid")
            before = (each for each in sessions.values() if parent and each.has(parent))
            sessions[latest] = next(before, None) or _Session(latest, load)
        sessions[latest].take(row)
    for session in dict.fromkeys(sessions.values()):
        if session.begun:
            yield session.bundle(Origin(run=Run(id=run)), name)


class _Session:
    """A session while its lines come in."""

    def __init__(self, own: str, load: Loader | None) -> None:
        self._id = own
        self._branches = Branches()
        self._reading = Reading(load, self._branches.blobs)
        self._places: dict[str, int] = {}
        """Where the children of a line go, by its uuid."""
        self._tails: dict[int, int] = {}
        """The last answer in a row under a reply, by the reply's place."""
        self._replies: dict[str, int] = {}
        self._rows: dict[int, int] = {}
        """The reply that an answer answers, by the answer's place."""
        self._continued: set[int] = set()
        """Where a compaction took over."""
        self._others: Counter[str] = Counter()
        self._about: Json = {}
        self._roots: dict[int, Json] = {}
        self._copies: set[str] = set()
        """Lines that say again what an earlier line said in the same place, by uuid."""
        self._names: dict[int, str] = {}
        """The session that a turn was written under."""
        self._result: Row | None = None
        self._last = ROOT
        self._line = 0

    def has(self, uuid: str) -> bool:
        """Whether a line of that name was taken."""
        return uuid in self._places

    @property
    def begun(self) -> bool:
        """Whether any line was a message."""
        return bool(self._branches.twigs)

    def take(self, row: Row) -> None:
        """One line.

        Raises:
            FormatError: with line and field.
        """
        self._line = self._line or row.line
        kind = row.text("type")
        uuid, parent = row.text("uuid"), row.text("parentUuid")
        for key in _SESSION:
            if key in row:
                self._about.setdefault(key, row.value[key])
        if kind not in ("user", "assistant") or "message" not in row:
            self._other(row, kind, uuid, parent)
            return
        if not uuid:
            raise row.error("uuid", "required field is missing")
        if uuid in self._places:
            self._others["repeated"] += 1
            return
        if parent and parent not in self._places:
            self._others["orphans"] += 1
        place = self._end(parent)
        if kind == "assistant":
            self._places[uuid] = self._reply(row, place, uuid, parent)
        else:
            self._places[uuid] = self._told(row, place)
        self._names.setdefault(self._places[uuid], row.text("sessionId"))
        if not row.flag("isSidechain"):
            self._last = self._places[uuid]

    def bundle(self, origin: Origin, name: str) -> Bundle:
        """The session's records."""
        last = set(self._branches.walk(self._last)) if self._last != ROOT else set[int]()
        return self._branches.grow(origin, lambda leaf: self._ending(leaf, last), name, self._line, self._id)

    def _ending(self, leaf: int, last: set[int]) -> Ending:
        path = self._branches.walk(leaf)
        own = dict(self._roots.get(path[0], {})) if path else {}
        branch = own.get("branch", "main")
        if branch == "main" and leaf not in last and leaf not in self._continued:
            branch = "left"
        named = self._names.get(leaf) or self._id
        kept: Json = {"session": named or None, **self._about, **own, "branch": branch}
        if self._others:
            kept["other_lines"] = dict(self._others)
        agent = str(own.get("agent") or "claude-code")
        attributes: Json = {KEPT: {key: item for key, item in kept.items() if item is not None}}
        if self._result is None or leaf not in last:
            return Ending(agent=agent, attributes=attributes)
        said = self._result.rest("type", "session_id", "sessionId", "usage", "uuid")
        usage = sum((self._branches.twigs[place].turn.usage for place in path), NO_USAGE)
        usage = msgspec.structs.replace(usage, usd=self._result.number("total_cost_usd") or usage.usd)
        attributes[KEPT]["result"] = said
        return Ending(agent=agent, outcome=outcome_of(self._result), usage=usage, attributes=attributes)

    def _other(self, row: Row, kind: str, uuid: str, parent: str) -> None:
        said = row.text("subtype") or row.row("attachment").text("type")
        self._others[f"{kind}/{said}" if said else kind] += 1
        if kind == "result":
            self._result = row
        if kind == "summary" and "summary" in row:
            self._about.setdefault("titles", []).append(row.text("summary"))
        if uuid:
            # Not a message, but a link of the chain: what follows it follows what it follows.
            self._places[uuid] = self._end(parent) if parent else ROOT
            if said == "compact_boundary":
                before = row.text("logicalParentUuid")
                self._continued.add(self._places.get(before, ROOT))
                self._roots[ROOT] = {"after": before, "compaction": row.row("compactMetadata").value}

    def _end(self, parent: str) -> int:
        """Where a line that follows `parent` goes."""
        return self._places.get(parent, ROOT) if parent else ROOT

    def _behind(self, place: int) -> int:
        """Behind all the answers to a reply, where `place` is the reply or one of them."""
        tail = self._tails.get(self._rows.get(place, place), place)
        return tail if place in self._branches.walk(tail) else place

    def _copied(self, known: int, place: int, parent: str) -> bool:
        """Whether a line repeats a reply: it stands where the reply stands, or goes on from a line that repeats it."""
        return self._branches.twigs[known].parent == self._behind(place) or parent in self._copies

    def _reply(self, row: Row, place: int, uuid: str, parent: str) -> int:
        message = row.row("message")
        own, model = message.text("id"), message.text("model")
        said = self._reading.said("assistant", message, "content")
        content = said[0].message if said else Message(role="assistant")
        known = self._replies.get(own) if own else None
        if known is not None and self._copied(known, place, parent):
            self._copies.add(uuid)
            self._others["repeated"] += 1
            return known
        if known is not None and (place == known or self._tails.get(known) == place):
            # Each block of a reply has a line of its own, under the line of the block before it.
            before = self._branches.twigs[known].turn.message
            joined = Message(
                role="assistant",
                parts=(*before.parts, *content.parts),
                tool_calls=(*before.tool_calls, *content.tool_calls),
            )
            self._branches.replace(
                known,
                message=joined,
                usage=_usage(message.row("usage")),
                finish_reason=message.text("stop_reason") or self._branches.twigs[known].finish_reason,
            )
            return known
        synthetic = model == _SYNTHETIC
        kept = row.rest(*_LINE)
        kept |= {key: item for key, item in (("uuid", row.text("uuid")), ("request", row.text("requestId"))) if item}
        if said and said[0].kept:
            kept["message"] = said[0].kept
        found = self._branches.add(
            self._behind(place),
            Turn(
                message=content,
                model="" if synthetic else model,
                usage=NO_USAGE if synthetic else _usage(message.row("usage")),
                started=row.moment("timestamp"),
                attributes={KEPT: kept},
            ),
            author=Author.ENVIRONMENT if synthetic else Author.POLICY,
            finish_reason=message.text("stop_reason"),
        )
        self._begin(found, row)
        if own:
            self._replies[own] = found
        return found

    def _told(self, row: Row, place: int) -> int:
        message = row.row("message")
        found = self._reading.said("user", message, "content")
        kept = row.rest(*_LINE)
        author = Author.ENVIRONMENT
        if row.flag("isCompactSummary"):
            author = Author.SUMMARISER
        elif _typed(row, found):
            author = Author.PERSON
        at = place
        if all(said.message.role == "tool" for said in found) and place != ROOT:
            at = self._tail(place, found)
        first = at
        for number, said in enumerate(found):
            own: Json = {"uuid": row.text("uuid"), **(kept if number == 0 else {})}
            if said.kept:
                own["message"] = said.kept
            answers = said.message.role == "tool"
            # Two sub-agents of the same words stay two.
            same = None if at == ROOT and row.flag("isSidechain") else self._branches.same(at, said.message)
            if same is not None:
                self._others["repeated"] += 1
                at = same
                continue
            turn = Turn(message=said.message, started=row.moment("timestamp"), attributes={KEPT: own})
            at = self._branches.add(at, turn, author=Author.ENVIRONMENT if answers else author)
            if number == 0 and first == ROOT:
                self._begin(at, row)
            if answers and place != ROOT and self._branches.twigs[place].turn.message.tool_calls:
                self._tails[place], self._rows[at] = at, place
        return at

    def _tail(self, place: int, found: list[Said]) -> int:
        """Behind the other answers to the reply, unless they answered these very calls: that is a branch."""
        tail = self._tails.get(place)
        if tail is None:
            return place
        answered = {
            self._branches.twigs[at].turn.message.tool_call_id for at in self._branches.walk(tail) if at > place
        }
        return place if any(said.message.tool_call_id in answered for said in found) else tail

    def _begin(self, place: int, row: Row) -> None:
        """What a new root says of itself."""
        if self._branches.twigs[place].parent != ROOT:
            return
        if row.flag("isSidechain"):
            own = row.text("agentId") or None
            self._roots[place] = {"branch": "sidechain", "agent_id": own, "caller": self._caller(place)}
        elif ROOT in self._roots:
            self._roots[place] = self._roots.pop(ROOT)

    def _caller(self, place: int) -> str | None:
        """The id of the call whose prompt a sub-agent begins with."""
        asked = self._branches.twigs[place].turn.message.text
        for twig in reversed(self._branches.twigs):
            for call in twig.turn.message.tool_calls:
                try:
                    given = call.parsed()
                except ValueError:
                    continue
                if asked and given.get("prompt") == asked:
                    return call.id
        return None


def _typed(row: Row, found: list[Said]) -> bool:
    """Whether a person wrote the line, and not a tool, a hook, a command or another agent."""
    if row.flag("isMeta") or row.flag("isSidechain") or any(said.message.role == "tool" for said in found):
        return False
    words = found[0].message.text if found else ""
    return not words.startswith(("<command-", "<local-command-", "[Request interrupted"))


def _usage(row: Row) -> Usage:
    cached, made = row.whole("cache_read_input_tokens"), row.whole("cache_creation_input_tokens")
    return Usage(
        # Anthropic counts what the cache served or stored beside the rest of the prompt.
        prompt_tokens=row.whole("input_tokens") + cached + made,
        completion_tokens=row.whole("output_tokens"),
        cached_tokens=cached,
    )
