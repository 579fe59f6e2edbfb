"""Inspect AI tasks that the bridge's tests play. Loaded by Inspect in the bridge's own environment."""

import anyio
from inspect_ai import Task, task
from inspect_ai.agent import react
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import (
    ChatMessageAssistant,
    ChatMessageTool,
    ChatMessageUser,
    ContentAudio,
    ContentDocument,
    ContentImage,
    ContentText,
    ContentVideo,
    ModelAPI,
    ModelOutput,
    get_model,
    modelapi,
)
from inspect_ai.scorer import Score, mean, scorer
from inspect_ai.scorer import includes as included
from inspect_ai.solver import generate, self_critique, solver, use_tools
from inspect_ai.tool import ToolCall, computer, tool
from inspect_ai.util import sandbox, store


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


PIXELS = {
    "red": "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC",
    "blue": "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGNgYPgPAAEDAQAIicLsAAAAAElFTkSuQmCC",
}


def pixel(colour):
    return ContentImage(image=f"data:image/png;base64,{PIXELS[colour]}")


@tool
def look():
    async def execute(through: str) -> list[ContentText | ContentImage]:
        """Look.

        Args:
            through: What to look through.
        """
        return [ContentText(text=f"seen through the {through}"), pixel("blue")]

    return execute


@solver
def tampers(how: str):
    """Three turns; before the last, something earlier is changed whose words stay as they were."""

    async def solve(state, generate):
        for following in ("And now?", "And then?"):
            state = await generate(state, tool_calls="single")
            state.messages.append(ChatMessageUser(content=following))
        for message in state.messages:
            if how == "picture" and isinstance(message.content, list):
                message.content = [part for part in message.content if not isinstance(part, ContentImage)]
            if how == "arguments":
                for call in getattr(message, "tool_calls", None) or []:
                    call.arguments = {}
        return await generate(state)

    return solve


@task
def pictures(how: str = "nothing"):
    """A picture in the question and one in a tool's answer."""
    opening = [ChatMessageUser(content=[ContentText(text="What is it?"), pixel("red")])]
    return Task(
        dataset=MemoryDataset([Sample(input=opening, target="blue")]),
        solver=[use_tools(look()), tampers(how)],
        scorer=included(),
    )


@task
def media(kind: str):
    """A question in what no message of Silva's can hold."""
    held = {
        "sound": ContentAudio(audio="data:audio/wav;base64,UklGRg==", format="wav"),
        "video": ContentVideo(video="data:video/mp4;base64,AAAA", format="mp4"),
        "document": ContentDocument(document="data:application/pdf;base64,JVBERi0=", mime_type="application/pdf"),
    }[kind]
    opening = [ChatMessageUser(content=[ContentText(text="What is it?"), held])]
    return Task(dataset=MemoryDataset([Sample(input=opening, target="x")]), solver=generate(), scorer=included())


@task
def screens():
    """Two screenshots taken already, and a tool that would show its latest alone."""
    opening = [ChatMessageUser(content="Click.")]
    for number, colour in enumerate(PIXELS):
        made = ToolCall(id=f"s{number}", function="computer", arguments={"action": "screenshot"})
        opening += [
            ChatMessageAssistant(content="", tool_calls=[made]),
            ChatMessageTool(content=[pixel(colour)], tool_call_id=made.id, function="computer"),
        ]
    solver = [use_tools(computer(max_screenshots=1)), generate(tool_calls="none")]
    return Task(dataset=MemoryDataset([Sample(input=opening, target="x")]), solver=solver, scorer=included())


@task
def poster(place: str):
    """A question with a picture that lies elsewhere."""
    opening = [ChatMessageUser(content=[ContentText(text="What is it?"), ContentImage(image=place)])]
    return Task(dataset=MemoryDataset([Sample(input=opening, target="x")]), solver=generate(), scorer=included())


@solver
def chooses_no_tool():
    async def solve(state, generate):
        state.tool_choice = "none"
        return state

    return solve


@task
def talks_only():
    """Has a tool and asks that it be not used."""
    return Task(dataset=dataset(), solver=[use_tools(open_box()), chooses_no_tool(), generate()], scorer=included())


@modelapi(name="judge")
class Judge(ModelAPI):
    """A model that is not the agent."""

    async def generate(self, input, tools, tool_choice, config):
        return ModelOutput.from_content("judge", f"the judge agrees with: {input[-1].text}")


@scorer(metrics=[mean()])
def graded():
    async def score(state, target):
        said = await get_model(role="grader").generate(f"Is it {target.text}? {state.output.completion}")
        return Score(
            value=float(said.completion == f"the judge agrees with: Is it {target.text}? {state.output.completion}")
        )

    return score


@task
def judged():
    """Scored by the model of another role."""
    return Task(dataset=dataset(), solver=generate(), scorer=graded())


@solver
def reads_a_file():
    async def solve(state, generate):
        state.messages.append(ChatMessageUser(content=await sandbox().read_file("note.txt")))
        return await generate(state)

    return solve


@task
def boxed():
    """Reads a file of its sandbox, which is a container."""
    note = Sample(input="What does it say?", target="acorn", files={"note.txt": "acorn in here"})
    return Task(dataset=MemoryDataset([note]), solver=reads_a_file(), scorer=included(), sandbox="docker")
