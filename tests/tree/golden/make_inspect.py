"""Make inspect.eval with the real Inspect AI: two samples, two epochs, its own mock model, a tool, an image, an error.

    python tests/tree/golden/make_inspect.py FOLDER      (needs inspect-ai; writes FOLDER/inspect.eval)

Tracebacks name paths of the machine, so they are cut out before the log is written for good.
"""

from __future__ import annotations

import sys
from pathlib import Path

from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.log import read_eval_log, write_eval_log
from inspect_ai.model import (
    ChatMessageUser,
    ContentImage,
    ContentReasoning,
    ContentText,
    ModelOutput,
    ModelUsage,
    get_model,
)
from inspect_ai.scorer import includes
from inspect_ai.solver import generate, system_message, use_tools
from inspect_ai.tool import tool

MODEL = "mockllm/model"
DOT = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5E"
    "rkJggg=="
)


@tool
def add():
    async def execute(x: int, y: int) -> int:
        """Add two numbers.

        Args:
            x: The first.
            y: The second.
        """
        return x + y

    return execute


def answer(messages, tools, tool_choice, config) -> ModelOutput:
    """What the mock model says, by what it is asked."""
    if any("colour" in message.text for message in messages):
        output = ModelOutput.from_content(MODEL, "I cannot see it.")
    elif any("fail" in message.text for message in messages):
        raise RuntimeError("the model broke")
    elif messages[-1].role == "tool":
        thought = ContentReasoning(reasoning="One and two make three.", signature="c2ln")
        output = ModelOutput.from_content(MODEL, [thought, ContentText(text="The answer is 3.")])
    else:
        output = ModelOutput.for_tool_call(MODEL, "add", {"x": 1, "y": 2})
    output.usage = ModelUsage(input_tokens=20, output_tokens=5, total_tokens=29, input_tokens_cache_read=4)
    return output


def main(folder: Path) -> None:
    """Run the task and leave one log in `folder`."""
    samples = [
        Sample(id="sum", input="What is 1 + 2?", target="3", metadata={"level": 1}),
        Sample(
            id="picture",
            input=[ChatMessageUser(content=[ContentText(text="What colour is it?"), ContentImage(image=DOT)])],
            target="green",
        ),
        Sample(id="broken", input="Please fail.", target="never"),
    ]
    task = Task(
        dataset=samples,
        solver=[system_message("Answer briefly."), use_tools(add()), generate()],
        scorer=includes(),
        epochs=2,
        name="small",
        fail_on_error=False,
    )
    model = get_model(MODEL, custom_outputs=answer, memoize=False)
    (log,) = eval(task, model=model, max_samples=1, log_dir=str(folder / "run"), display="none", log_format="eval")
    made = read_eval_log(log.location)
    made.eval.model_args = {}
    for sample in made.samples or []:
        if sample.error is not None:
            sample.error.traceback = sample.error.traceback_ansi = "(cut out)"
        for event in sample.events:
            if event.event == "error":
                event.error.traceback = event.error.traceback_ansi = "(cut out)"
            if event.event == "model" and event.traceback:
                event.traceback = event.traceback_ansi = "(cut out)"
    write_eval_log(made, str(folder / "inspect.eval"))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
