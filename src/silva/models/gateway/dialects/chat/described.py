"""Chat Completions as JSON Schema: the body of a request and of a reply."""

from __future__ import annotations

from silva.models.gateway.dialects.chat.history import Messages
from silva.models.gateway.dialects.chat.offered import MODES, Choice, Functions, Tools
from silva.models.gateway.dialects.chat.reading import Body
from silva.models.gateway.dialects.described import (
    COUNT,
    LABEL,
    NAME,
    NULL,
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
from silva.tree import Json


def described() -> Described:
    """The dialect."""
    book = Book("Chat", Body, Messages, Tools, Functions, Choice)
    _, messages, tools, functions, _ = book.roots
    _history(book)
    choice = _offered(book)
    request = book.body(
        "messages",
        messages=messages | {"minItems": 1},
        tools=tools,
        functions=functions,
        tool_choice=choice,
        function_call=choice,
        n=optional(const(1)),
        modalities=optional(const(["text"])),
    )
    return Described(
        request=book.add("Body", request),
        reply=book.add("Reply", _reply()),
        components=book.components,
    )


def _history(book: Book) -> None:
    address = book.variant("Address", url=PICTURE)
    book.add(
        "Part",
        book.variant("Part", "text", type=const("text")),
        book.variant("Part", "refusal", type=const("refusal")),
        book.variant("Part", "image_url", type=const("image_url"), image_url=either(PICTURE, address)),
    )
    book.add("HistoryFunction", book.variant("HistoryFunction", name=NAME))
    book.add("Call", book.variant("Call", "function", id=NAME, type=const("function")))
    named: Json = {"name": optional(LABEL)}
    silent: Json = {"function_call": NULL, "tool_calls": optional({"type": "array", "maxItems": 0})}
    function = {"role": const("function"), **silent}
    book.add(
        "Message",
        book.variant("Message", role=const("system", "developer", "user"), **named, **silent),
        book.variant("Message", role=const("assistant"), audio=NULL, **named),
        book.variant("Message", "tool_call_id", role=const("tool"), tool_call_id=NAME, **named, **silent),
        book.variant("Message", "tool_call_id", tool_call_id=NAME, **named, **function),
        book.variant("Message", "name", name=NAME, tool_call_id=NULL, **function),
    )


def _offered(book: Book) -> Json:
    book.add("OfferedFunction", book.variant("OfferedFunction", parameters=optional(PARAMETERS)))
    book.add("Tool", book.variant("Tool", "function", type=const("function")))
    book.add("Reference", book.variant("Reference", "function"))
    book.add("Allowed", book.variant("Allowed", mode=const(*MODES)))
    forms = (
        book.variant("Choice", "function", type=const("function")),
        book.variant("Choice", "name", type=const("function"), function=NULL),
        book.variant("Choice", "type", "allowed_tools", type=const("allowed_tools")),
    )
    return either(const(*MODES), book.add("Choice", *forms), NULL)


def _reply() -> Json:
    function = opened(name=TEXT, arguments=TEXT)
    message = opened(role=const("assistant"), content=optional(TEXT), refusal=optional(TEXT))
    message["properties"] |= {
        "reasoning_content": TEXT,
        "tool_calls": listed(opened(id=NAME, type=const("function"), function=function), 1),
        "function_call": function,
    }
    choice = opened(
        index=const(0),
        message=message,
        logprobs=optional(opened(content=listed(opened(token=TEXT, logprob={"type": "number"})))),
        finish_reason=const("stop", "length", "tool_calls", "content_filter", "function_call"),
    )
    ids = optional(listed(COUNT))
    choice["properties"]["token_ids"] = ids
    reply = opened(
        id=NAME,
        object=const("chat.completion"),
        created=COUNT,
        model=TEXT,
        choices=listed(choice, 1) | {"maxItems": 1},
        usage=opened(prompt_tokens=COUNT, completion_tokens=COUNT, total_tokens=COUNT),
    )
    reply["properties"]["prompt_token_ids"] = ids
    return reply
