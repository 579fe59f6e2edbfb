"""Responses as JSON Schema: the body of a request and of a reply."""

from __future__ import annotations

from silva.models.gateway.dialects.chat.offered import MODES
from silva.models.gateway.dialects.described import (
    COUNT,
    NAME,
    NULL,
    OBJECT,
    PARAMETERS,
    PICTURE,
    TEXT,
    Book,
    Described,
    const,
    either,
    listed,
    opened,
    optional,
)
from silva.models.gateway.dialects.responses.items import OUTPUTS, TEXTS, Input
from silva.models.gateway.dialects.responses.offered import SHELL, Choice, Tools
from silva.models.gateway.dialects.responses.reading import Body
from silva.tree import Json


def described() -> Described:
    """The dialect."""
    book = Book("Responses", Body, Input, Tools, Choice)
    _, written, tools, _ = book.roots
    _items(book)
    choice = _offered(book)
    book.add(
        "ReadingFormat",
        book.variant("ReadingFormat", type=const("text", "json_object")),
        book.variant("ReadingFormat", "name", "schema", type=const("json_schema")),
    )
    body = book.body(
        input=written,
        tools=tools,
        tool_choice=choice,
        background=optional(const(False)),
        conversation=NULL,
        prompt=NULL,
        stream_options={},
        n=optional(const(1)),
    )
    something: Json = {"minLength": 1, "type": "string"}
    given = either(TEXT, {"type": "array", "minItems": 1})
    body["anyOf"] = [
        {"required": ["input"], "properties": {"input": given}},
        {"required": ["instructions"], "properties": {"instructions": something}},
        {"required": ["previous_response_id"], "properties": {"previous_response_id": something}},
    ]
    return Described(
        request=book.add("Body", body),
        reply=book.add("Reply", _reply()),
        components=book.components,
    )


def _items(book: Book) -> None:
    part = book.add(
        "ShownPart",
        book.variant("Part", "text", type=const(*TEXTS)),
        book.variant("Part", "refusal", type=const("refusal")),
        book.variant("Part", "image_url", type=const("input_image"), image_url=PICTURE),
    )
    content = either(TEXT, listed(part), NULL)
    output: Json = {"output": either(TEXT, listed(part))}
    roles = const("user", "system", "developer", "assistant")
    shell_output = const(f"{SHELL}_call_output")
    book.add(
        "Item",
        book.variant("Item", "role", type=optional(const("message")), role=roles, content=content),
        book.variant("Item", "type", type=const("reasoning")),
        book.variant("Item", "type", "call_id", "name", type=const("function_call")),
        book.variant("Item", "type", "call_id", "name", "input", type=const("custom_tool_call")),
        book.variant("Item", "type", "call_id", "action", type=const(f"{SHELL}_call")),
        book.variant("Item", "type", "call_id", "output", type=const(*OUTPUTS), **output),
        book.variant("Item", "type", "id", "output", type=shell_output, id=NAME, call_id=NULL, **output),
    )


def _offered(book: Book) -> Json:
    book.add(
        "Tool",
        book.variant("Tool", "name", type=const("function"), parameters=optional(PARAMETERS)),
        book.variant("Tool", "name", type=const("custom")),
        book.variant("Tool", type=const(SHELL)),
    )
    book.add(
        "Choice",
        book.variant("Choice", "name", type=const("function", "custom")),
        book.variant("Choice", type=const("allowed_tools"), mode=const(*MODES)),
    )
    return either(const(*MODES), book.ref("Choice"), NULL)


def _reply() -> Json:
    status = const("in_progress", "completed", "incomplete")
    texts = listed(opened(type=const("output_text"), text=TEXT, annotations=listed({}), logprobs=listed(OBJECT)))
    item = either(
        opened(type=const("message"), id=NAME, role=const("assistant"), status=status, content=texts),
        opened(type=const("reasoning"), id=NAME, summary=listed(OBJECT), content=listed(OBJECT), status=status),
        opened(type=const("function_call"), id=NAME, call_id=NAME, name=TEXT, arguments=TEXT, status=status),
        opened(type=const("custom_tool_call"), id=NAME, call_id=NAME, name=TEXT, input=TEXT, status=status),
        opened(type=const(f"{SHELL}_call"), id=NAME, call_id=NAME, action=OBJECT, status=status),
    )
    ids = optional(listed(COUNT))
    reply = opened(
        id=NAME,
        object=const("response"),
        created_at=COUNT,
        status=const("completed", "incomplete"),
        error=NULL,
        incomplete_details=optional(opened(reason=TEXT)),
        model=TEXT,
        output=listed(item, 1),
        tools=listed(OBJECT),
        usage=opened(input_tokens=COUNT, output_tokens=COUNT, total_tokens=COUNT),
    )
    reply["properties"] |= {"token_ids": ids, "prompt_token_ids": ids}
    return reply
