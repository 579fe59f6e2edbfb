"""Any OpenEnv environment server as an environment: sessions over its websocket, actions as tool calls.

    openenv/http://host:8000   a server that runs          openenv/server.py@app   one that is started per instance
    reset ─▶ /schema or the tools of its MCP server ─▶ Tool(s) ─▶ call ─▶ {"type": "step"} ─▶ Observation

An environment whose action is "call a tool" shows its MCP tools; any other shows one tool, `act`, whose parameters are
the JSON Schema of its action class. The observation's fields are sent as JSON. OpenEnv knows rewards and no score: the
score is the sum of the rewards (or the last one), cut to [0, 1]. A message without a call gives up.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar, Literal

from silva.envs.gyms.bridge_name import BridgeName, file_of, parse
from silva.envs.gyms.openenv_entry import PREFIX
from silva.envs.gyms.openenv_wire import LocalServer, ServerError, Session, ask_http
from silva.envs.protocol import Capabilities, Evaluation, Observation
from silva.errors import UnreachableError, UsageError
from silva.tree import Json, Message, Task, Tool, ToolCall, assistant, system, tool_result, user

MOST_TURNS = 100
"""Turns of an episode, unless the run sets fewer: a server does not say how long its episodes are."""

_SIZES = {"test": range(100), "train": range(1000, 2000)}
_UNTOLD = ("done", "reward", "metadata")


class OpenEnvBridge:
    """Base of the classes made by `__getattr__`; `named` says which server, its arguments go to every `reset`.

    Args:
        score: Which reward is the score: the "sum" of an episode's, or the "last".
    """

    capabilities: ClassVar[Capabilities] = Capabilities(tools=True, deterministic=False, max_turns=MOST_TURNS)
    named: ClassVar[BridgeName]
    name: ClassVar[str]

    def __init__(self, score: Literal["sum", "last"] = "sum") -> None:
        if score not in ("sum", "last"):
            raise UsageError(f"score {score!r}: sum or last")
        self._score = score
        self._server: LocalServer | None = None
        self._session: Session | None = None
        self._rules = system("")
        self._action: Json = {}
        self._calling = False
        self._tools: tuple[Tool, ...] = ()
        self._task: Task | None = None
        self._rewards: list[float] = []
        self._ended = False

    @classmethod
    def tasks(cls, split: str = "test") -> Iterable[Task]:
        """The server's own tasks where it lists them; else a hundred (train: a thousand) beginnings by seed.

        Raises:
            UsageError: no such split, or no server answers or can be started.
        """
        try:
            counts = _in_a_loop(cls._count())
        except UnreachableError as error:
            raise UsageError(str(error)) from error
        if counts is not None and split not in counts:
            raise UsageError(f"{cls.name}: no split {split!r}; the server has {', '.join(counts) or 'none'}")
        if counts is None and split not in _SIZES:
            raise UsageError(f"{cls.name}: no split {split!r}; there are {', '.join(_SIZES)}")
        for number in _SIZES[split] if counts is None else range(counts[split]):
            chosen: Json = {"seed": number} if counts is None else {"split": split, "index": number}
            label = f"{split}/{number}"
            yield Task(id=f"{cls.name}/{label}", env=cls.name, instruction=label, split=split, data=chosen)

    async def reset(self, task: Task, seed: int) -> Observation:
        """Begin in a session of the instance's own. A task without a place in a dataset mixes its number and `seed`."""
        if self._session is None:
            await self._open()
        session = self._playing()
        self._task, self._rewards, self._ended = task, [], False
        data = dict(task.data)
        data["seed"] = (data.get("seed", 0) * 1_000_003 + seed) & 0x7FFFFFFF
        answer = await session.ask("reset", {**self.named.arguments, **data})
        self._tools = await self._offered(session)
        self._ended = bool(answer.get("done"))
        first = user(_shown(answer.get("observation") or {}))
        return Observation(messages=(self._rules, first), tools=self._tools, done=self._ended)

    async def step(self, action: Message) -> Observation:
        """Carry out the calls, one step each, until the episode ends."""
        session = self._playing()
        if self._ended or not action.tool_calls:
            self._ended = True
            return Observation(done=True)
        before = len(self._rewards)
        answers = [await self._act(session, made) for made in action.tool_calls]
        gained = self._rewards[before:]
        return Observation(messages=tuple(answers), reward=sum(gained) if gained else None, done=self._ended)

    async def evaluate(self) -> Evaluation:
        """The rewards as a score."""
        self._playing()
        last = self._rewards[-1] if self._rewards else 0.0
        total = sum(self._rewards)
        score = min(1.0, max(0.0, total if self._score == "sum" else last))
        metrics = {"return": total, "last_reward": last, "steps": float(len(self._rewards))}
        return Evaluation(score=score, success=score >= 1.0, metrics=metrics)

    async def null(self) -> Message:
        """Give up at once."""
        return assistant("I do not know.")

    async def close(self) -> None:
        """Leave the session, and end the server if it was started here."""
        if self._session is not None:
            await self._session.close()
            self._session = None
        if self._server is not None:
            await self._server.close()
            self._server = None

    async def _open(self) -> None:
        if self._server is None and not _is_address(self.named.place):
            self._server = await _started(self.named.place)
        url = self.named.place if self._server is None else self._server.url
        schema = await ask_http(url, "/schema")
        if schema is None:
            raise UsageError(f"what answers at {self.named.place} is not an OpenEnv server: it has no /schema")
        about = await ask_http(url, "/metadata") or {}
        self._action = schema["action"]
        self._calling = {"tool_name", "arguments"}.issubset(self._action.get("properties", {}))
        self._rules = system(
            f"You act in the environment {about.get('name') or self.named.place}. {about.get('description') or ''}\n"
            "Act with the tools, one step at a time. Stop calling tools to give up.".strip()
        )
        self._session = await Session.open(url)

    async def _offered(self, session: Session) -> tuple[Tool, ...]:
        if not self._calling:
            parameters = _without(self._action, "metadata")
            return (
                Tool(name="act", description="Take one action; answers what you then observe.", parameters=parameters),
            )
        told = await session.ask("mcp", {"jsonrpc": "2.0", "method": "tools/list", "id": 1})
        if told.get("error"):
            raise RuntimeError(f"the server does not list its tools: {told['error'].get('message')}")
        listed: list[Json] = told["result"]["tools"]
        return tuple(
            Tool(
                name=tool["name"],
                description=tool.get("description") or "",
                parameters=tool.get("inputSchema") or tool.get("input_schema") or {},
            )
            for tool in listed
        )

    async def _act(self, session: Session, made: ToolCall) -> Message:
        if self._ended:
            return tool_result(made.id, "The episode is over.", made.name)
        if made.name not in {tool.name for tool in self._tools}:
            return tool_result(made.id, f"error: there is no tool {made.name!r}", made.name)
        try:
            action = made.parsed()
        except ValueError as error:
            return tool_result(made.id, f"error: {error}", made.name)
        if self._calling:
            action = {"type": "call_tool", "tool_name": made.name, "arguments": action}
        try:
            answer = await session.ask("step", action)
        except ServerError as error:
            if error.code != "VALIDATION_ERROR":
                raise
            return tool_result(made.id, f"error: not a valid action: {_faults(error.details)}", made.name)
        self._rewards.append(float(answer.get("reward") or 0.0))
        self._ended = bool(answer.get("done"))
        seen: Json = answer.get("observation") or {}
        return tool_result(made.id, _result(seen) if self._calling else _shown(seen), made.name)

    def _playing(self) -> Session:
        if self._session is None:
            raise UsageError(f"{self.name}: no task is being played: call reset first")
        return self._session

    @classmethod
    async def _count(cls) -> dict[str, int] | None:
        """Tasks in each of the server's splits; None where it lists none."""
        server = None if _is_address(cls.named.place) else await _started(cls.named.place)
        url = cls.named.place if server is None else server.url
        try:
            names = await ask_http(url, "/list_environments")
            splits = await ask_http(url, f"/{names[0]}/splits") if names else None
            if splits is None:
                return None
            counts: dict[str, int] = {}
            for split in splits:
                told = await ask_http(url, f"/{names[0]}/num_tasks", {"split": split["name"]})
                counts[split["name"]] = told["num_tasks"] if told else 0
            return counts
        finally:
            if server is not None:
                await server.close()


def _in_a_loop(work: Any) -> Any:
    """The result of `work`, from a caller that may itself be inside a running loop: listing tasks is synchronous."""
    with ThreadPoolExecutor(1) as executor:
        return executor.submit(asyncio.run, work).result()


def _is_address(place: str) -> bool:
    return place.startswith(("http://", "https://"))


async def _started(place: str) -> LocalServer:
    return await LocalServer.start(place, file_of(place, PREFIX))


def _shown(observation: Json) -> str:
    told = {key: value for key, value in observation.items() if key not in _UNTOLD}
    return json.dumps(told, ensure_ascii=False)


def _result(observation: Json) -> str:
    """What a called tool answered, as text."""
    fault = observation.get("error")
    if fault:
        return f"error: {fault.get('message') if isinstance(fault, dict) else fault}"
    result = observation.get("result")
    content = result.get("content") if isinstance(result, dict) else None
    if isinstance(content, list) and all(part.get("type") == "text" for part in content):
        return "\n".join(part["text"] for part in content)
    return result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)


def _without(schema: Json, name: str) -> Json:
    kept = {key: value for key, value in schema.get("properties", {}).items() if key != name}
    return {**schema, "properties": kept}


def _faults(details: Any) -> str:
    if not isinstance(details, list):
        return "it does not fit the schema"
    return "; ".join(f"{'.'.join(map(str, fault.get('loc', ())))}: {fault.get('msg')}" for fault in details[:5])


def _proof() -> type[OpenEnvBridge]:
    place = f"{Path(__file__).with_name('proofs') / 'openenv_sums.py'}@app"

    class OpenEnvProof(OpenEnvBridge):
        """The bridge's own server, with its expert."""

        named = BridgeName(text=place, place=place, arguments={})
        name = "openenv"

        async def reset(self, task: Task, seed: int) -> Observation:
            """Begin, and note the question for the expert."""
            observation = await super().reset(task, seed)
            self._question = json.loads(observation.messages[1].text)["question"]
            return observation

        async def expert(self) -> Message:
            """Add up."""
            first, second = (int(word) for word in self._question.split() if word.isdigit())
            return assistant("", ToolCall(id="act", name="act", arguments=json.dumps({"answer": first + second})))

    return OpenEnvProof


def __getattr__(attribute: str) -> type[OpenEnvBridge]:
    """The class for one server. It is not asked anything yet: it may be started later than Silva."""
    if attribute.startswith("__"):
        raise AttributeError(attribute)
    if attribute == "OpenEnvProof":
        return _proof()
    named = parse(attribute)
    file_of(named.place, PREFIX)
    return type("OpenEnvBridge", (OpenEnvBridge,), {"named": named, "name": f"{PREFIX}{attribute}"})
