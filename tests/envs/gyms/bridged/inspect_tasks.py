"""Inspect AI tasks that the bridge's tests play. Loaded by Inspect in the bridge's own environment."""

import anyio
from inspect_ai import Task, task
from inspect_ai.agent import react
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import ChatMessageAssistant, ChatMessageUser
from inspect_ai.scorer import Score, mean, scorer
from inspect_ai.scorer import includes as included
from inspect_ai.solver import generate, self_critique, solver
from inspect_ai.tool import tool
from inspect_ai.util import store


def dataset(count=3):
    return MemoryDataset([Sample(input=f"Open box {n}.", target=f"pearl-{n}", id=f"box {n}") for n in range(count)])


@tool
def open_box():
    async def execute(number: int) -> str:
        """Open a box.

        Args:
            number: Which one.
        """
        opened = store().get("opened", 0) + 1
        store().set("opened", opened)
        return f"There is pearl-{number} in it; {opened} opened so far."

    return execute


@scorer(metrics={"right": [mean()], "thrift": [mean()]})
def two_sided():
    async def score(state, target):
        right = float(target.text in state.output.completion)
        return Score(value={"right": right, "thrift": 1.0 if store().get("opened", 0) <= 1 else 0.0})

    return score


@task
def boxes(count: int = 3, limit: int | None = None):
    """An agent with a tool of its own and the `submit` tool."""
    return Task(
        dataset=dataset(count), solver=react(tools=[open_box()]), scorer=[included(), two_sided()], message_limit=limit
    )


@solver
def interview():
    async def solve(state, generate):
        for question in ("And your name?", "Say goodbye."):
            state = await generate(state)
            state.messages.append(ChatMessageUser(content=question))
        return await generate(state)

    return solve


@task
def talk():
    """Three questions, after an example in the prompt."""
    opening = [
        ChatMessageUser(content="Say yes."),
        ChatMessageAssistant(content="yes"),
        ChatMessageUser(content="Say hello."),
    ]
    return Task(dataset=MemoryDataset([Sample(input=opening, target="goodbye")]), solver=interview(), scorer=included())


@task
def critic():
    """Asks the model in a second conversation beside the first."""
    return Task(dataset=dataset(), solver=[generate(), self_critique()], scorer=included())


@solver
def breaks(how: str):
    async def solve(state, generate):
        state = await generate(state)
        if how == "hangs":
            await anyio.sleep(3600)
        raise RuntimeError("the solver tripped")

    return solve


@task
def broken(how: str = "raises"):
    return Task(dataset=dataset(), solver=breaks(how), scorer=included())


@task
def unscored():
    return Task(dataset=dataset(), solver=generate())
