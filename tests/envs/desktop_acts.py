"""What a test does on a desktop."""

from __future__ import annotations

from silva.envs import HostPool
from silva.tree import assistant, call

PATIENCE = 300.0


async def begun(hosts: HostPool, env, name: str):
    (task,) = await hosts.tasks(ids=[f"desktop/{name}"])
    return await env.reset(task, 0)


async def do(env, tool: str, **arguments):
    return await env.step(assistant("", call(tool, arguments)))


async def code(env, text: str) -> str:
    """What a piece of code printed, or its error."""
    observation = await do(env, "pyautogui", code=text)
    return observation.messages[0].text.partition("\n\nwindows, the uppermost")[0]


async def until(env, words: str, tries: int = 60):
    """Look until something stands in the tree."""
    for _ in range(tries):
        observation = await do(env, "wait", seconds=0.5)
        if words in observation.messages[0].text:
            return observation
    raise AssertionError(f"{words!r} is not to be seen: {observation.messages[0].text}")


def place(observation, tag: str, name: str) -> dict[str, float]:
    """The middle of an element of the table that was shown."""
    for line in observation.messages[-1].text.splitlines():
        cells = line.split("\t")
        if len(cells) >= 5 and (cells[0], cells[1]) == (tag, name):
            (x, y), (w, h) = (tuple(map(int, cell.strip("()").split(", "))) for cell in cells[3:5])
            return {"x": x + w // 2, "y": y + h // 2}
    raise AssertionError(f"no {tag} {name!r} in {observation.messages[-1].text}")
