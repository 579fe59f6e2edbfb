"""Any Gymnasium environment as a conversation: spaces become JSON, the action space a tool `act`.

    gymnasium/FrozenLake-v1 ─▶ this module's attribute "FrozenLake-v1" ─▶ a class made for that id

An observation that is a picture (8-bit, height x width x 1, 3 or 4) is sent as PNG, everything else as JSON. The score
is the return over the environment's own `reward_threshold`, clipped to [0, 1]; where it has none, the return clipped to
[0, 1]. The raw return is always among the metrics. A message without a call gives up.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import struct
import zlib
from collections.abc import Iterable
from typing import Any, ClassVar

import gymnasium
import numpy

from silva.envs.gyms.gymnasium_goals import Counted, counted
from silva.envs.gyms.spaces import from_json, nothing, schema, to_json
from silva.envs.protocol import Capabilities, Evaluation, Observation
from silva.errors import UsageError
from silva.tree import ImagePart, Json, Message, Task, TextPart, Tool, assistant, call, system, tool_result, user

_SIZES = {"test": range(100), "train": range(1000, 2000)}


class GymnasiumBridge:
    """Base of the classes made by `__getattr__`; `env_id` names the environment, `options` go to `gymnasium.make`.

    The random source of an episode is drawn from the task's number and the seed of the reset together.
    """

    env_id: ClassVar[str] = ""
    capabilities: ClassVar[Capabilities] = Capabilities(tools=True, max_turns=500)

    def __init__(self, **options: Any) -> None:
        self._env: Any = gymnasium.make(self.env_id, disable_env_checker=True, **options)
        self._picture = _is_picture(self._env.observation_space)
        self._wrapped = not isinstance(self._env.action_space, gymnasium.spaces.Dict)
        seen = {"type": "image"} if self._picture else schema(self._env.observation_space)
        inner = schema(self._env.action_space)
        if self._wrapped:
            inner = {"type": "object", "properties": {"action": inner}, "required": ["action"]}
        self._tool = Tool(name="act", description="Take one action; returns what you then observe.", parameters=inner)
        self._rules = system(
            f"You act in the environment {self.env_id}. Observations are {json.dumps(seen)}. "
            "Take one action at a time with the tool act. Stop calling the tool to give up."
        )

    @classmethod
    def tasks(cls, split: str = "test") -> Iterable[Task]:
        """A hundred (train: a thousand) beginnings."""
        if split not in _SIZES:
            raise UsageError(f"no split {split!r}; there are {', '.join(_SIZES)}")
        name = f"gymnasium/{cls.env_id}"
        for number in _SIZES[split]:
            text = f"{cls.env_id}, beginning {number}"
            yield Task(id=f"{name}/{number}", env=name, instruction=text, split=split, data={"number": number})

    async def reset(self, task: Task, seed: int) -> Observation:
        """The rules and the first observation."""
        drawn = numpy.random.SeedSequence([task.data["number"], seed & 0xFFFFFFFF]).generate_state(1)
        value, _ = self._env.reset(seed=int(drawn[0]) & 0x7FFFFFFF)
        self._return, self._steps, self._ended = 0.0, 0, False
        part, blobs = self._told(value)
        first = user("Begin.")
        first = Message(role="user", parts=(*first.parts, part))
        return Observation(messages=(self._rules, first), tools=(self._tool,), blobs=blobs)

    async def step(self, action: Message) -> Observation:
        """Carry out the calls until the episode ends."""
        if not action.tool_calls:
            self._ended = True
            return Observation(reward=0.0, done=True)
        answers: list[Message] = []
        blobs: dict[str, bytes] = {}
        reward, truncated = 0.0, False
        for made in action.tool_calls:
            if self._ended:
                answers.append(tool_result(made.id, "The episode is over.", made.name))
                continue
            try:
                arguments = made.parsed()
                value = from_json(self._env.action_space, arguments["action"] if self._wrapped else arguments)
            except (ValueError, KeyError) as error:
                answers.append(tool_result(made.id, f"error: {error}", made.name))
                continue
            seen, gained, terminated, truncated, _ = self._env.step(value)
            self._ended = bool(terminated or truncated)
            self._steps += 1
            reward += float(gained)
            part, more = self._told(seen)
            blobs |= more
            text = TextPart(text=f"reward {float(gained):g}{', the episode is over' if self._ended else ''}")
            answers.append(Message(role="tool", parts=(part, text), tool_call_id=made.id, name=made.name))
        self._return += reward
        return Observation(
            messages=tuple(answers),
            reward=reward,
            done=self._ended and not truncated,
            truncated=bool(truncated),
            blobs=blobs,
        )

    async def evaluate(self) -> Evaluation:
        """The return against the environment's own threshold."""
        score = share(self._return, self._env.spec.reward_threshold)
        metrics = {"return": self._return, "steps": float(self._steps)}
        return Evaluation(score=score, success=score >= 1.0, metrics=metrics)

    async def null(self) -> Message:
        """The action that does least."""
        value = to_json(self._env.action_space, nothing(self._env.action_space))
        return assistant("", call("act", {"action": value} if self._wrapped else value))

    async def close(self) -> None:
        """Close the environment."""
        self._env.close()

    def _told(self, value: Any) -> tuple[TextPart | ImagePart, dict[str, bytes]]:
        if not self._picture:
            return TextPart(text=json.dumps(to_json(self._env.observation_space, value))), {}
        data = png(value)
        name = hashlib.sha256(data).hexdigest()
        return ImagePart(hash=name, width=value.shape[1], height=value.shape[0]), {name: data}


def share(gained: float, threshold: float | None) -> float:
    """How much of the threshold a return reaches, in [0, 1]; for a threshold below zero, threshold / return."""
    if threshold is None or threshold == 0:
        part = gained if threshold is None else float(gained >= 0)
    elif threshold > 0:
        part = gained / threshold
    else:
        part = 1.0 if gained >= threshold else threshold / gained
    return min(1.0, max(0.0, part))


def png(picture: numpy.ndarray[Any, Any]) -> bytes:
    """Encode an 8-bit picture (height x width x 1, 3 or 4)."""
    height, width, channels = picture.shape
    colour = {1: 0, 3: 2, 4: 6}[channels]
    rows = numpy.concatenate([numpy.zeros((height, 1), numpy.uint8), picture.reshape(height, -1)], axis=1)

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    head = struct.pack(">IIBBBBB", width, height, 8, colour, 0, 0, 0)
    body = zlib.compress(rows.tobytes(), 3)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", body) + chunk(b"IEND", b"")


def _is_picture(space: Any) -> bool:
    shape = getattr(space, "shape", None) or ()
    return (
        isinstance(space, gymnasium.spaces.Box)
        and space.dtype == numpy.uint8
        and len(shape) == 3
        and shape[2] in (1, 3, 4)
        and min(shape[:2]) >= 8
    )


def __getattr__(env_id: str) -> type[GymnasiumBridge]:
    """The class for one Gymnasium id; `module:Name-v0` imports `module` first, as Gymnasium does."""
    if env_id.startswith("__"):
        raise AttributeError(env_id)
    module, _, _ = env_id.rpartition(":")
    if module:
        importlib.import_module(module)
    try:
        spec = gymnasium.spec(env_id)
    except gymnasium.error.Error as error:
        raise UsageError(f"gymnasium: {' '.join(str(error).split())}") from error
    probe = gymnasium.make(env_id, disable_env_checker=True)
    pictures = _is_picture(probe.observation_space)
    bases: tuple[type, ...] = (GymnasiumBridge,)
    if counted(probe.observation_space):
        bases = (Counted, GymnasiumBridge)
    probe.close()
    capabilities = Capabilities(tools=True, images=pictures, max_turns=spec.max_episode_steps or 1000)
    body: Json = {"env_id": env_id, "capabilities": capabilities, "__doc__": f"Gymnasium's {env_id}."}
    return type("GymnasiumBridge", bases, body)
