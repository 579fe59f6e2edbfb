"""All the tools, in the order in which an agent is told of them."""

from __future__ import annotations

from collections.abc import Sequence

from silva.envs.gyms.files.tools import documents, pictures, plotting, searching, sums, tables, writing
from silva.envs.gyms.files.tools.instrument import Instrument
from silva.errors import UsageError
from silva.tree import Tool

INSTRUMENTS: dict[str, Instrument] = {
    run.__name__: Instrument(run)
    for run in (
        documents.list_files,
        documents.read_text,
        documents.read_document,
        documents.document_table,
        documents.read_slides,
        documents.read_pdf,
        documents.find_text,
        tables.list_sheets,
        tables.read_table,
        tables.read_cells,
        tables.query_table,
        pictures.image_info,
        pictures.view_image,
        pictures.ocr,
        pictures.locate,
        pictures.count,
        pictures.describe_region,
        pictures.dominant_colour,
        pictures.crop,
        pictures.draw_box,
        plotting.plot,
        sums.calculate,
        sums.solve,
        sums.convert_unit,
        searching.search,
        sums.python,
        writing.write_text,
        writing.write_table,
        writing.write_document,
    )
}
ANSWER = Tool(
    name="answer",
    description="Give the answer, in a few words or a number, and end the task.",
    parameters={
        "type": "object",
        "properties": {"text": {"type": "string"}},
        "required": ["text"],
        "additionalProperties": False,
    },
)
VIEW = "view_image"
"""The tool for models that see: it is offered where the option `images` is on."""
TOOLS: tuple[Tool, ...] = (*(each.tool for name, each in INSTRUMENTS.items() if name != VIEW), ANSWER)
"""What is offered where nothing else is asked for."""


def offered(images: bool, names: Sequence[str] = ()) -> tuple[Tool, ...]:
    """The tools for an agent: all, or those of these names and `answer`.

    Raises:
        UsageError: there is no tool of a name.
    """
    for name in names:
        if name not in INSTRUMENTS and name != ANSWER.name:
            raise UsageError(f"files: there is no tool {name!r}; there are {', '.join(INSTRUMENTS)}")
    every = [each.tool for name, each in INSTRUMENTS.items() if name != VIEW or images]
    return (*(tool for tool in every if not names or tool.name in names), ANSWER)
