"""Anthropic Messages as JSON Schema: the body of a request, of one that counts, and of a reply."""

from __future__ import annotations

from silva.models.gateway.dialects.anthropic.blocks import Turn
from silva.models.gateway.dialects.anthropic.offered import Choice, Tools
from silva.models.gateway.dialects.anthropic.reading import Body
from silva.models.gateway.dialects.described import (
    COUNT,
    DATA,
    MEDIA,
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
from silva.tree import Json


def described() -> Described:
    """The dialect."""
    book = _book()
    count = book.variant("Body")
    book.add("Count", count)
    whole = book.variant("Body", "max_tokens")
    return Described(
        request=book.add("Body", whole),
        reply=book.add("Reply", _reply()),
        components=book.components,
    )


def counted() -> Described:
    """The same conversation, where only its tokens are counted."""
    dialect = described()
    return Described(
        request={"$ref": "#/components/schemas/AnthropicCount"},
        reply=opened(input_tokens=COUNT),
        components=dialect.components,
    )


def _book() -> Book:
    book = Book("Anthropic", Body, list[Turn], Tools, Choice)
    _, messages, tools, _ = book.roots
    system, asked, said = _blocks(book)
    book.add(
        "Turn",
        book.variant("Turn", role=const("user"), content=either(TEXT, listed(asked))),
        book.variant("Turn", role=const("assistant"), content=either(TEXT, listed(said))),
        book.variant("Turn", role=const("system"), content=either(TEXT, listed(system))),
    )
    custom = optional(const("custom"))
    book.add("Tool", book.variant("Tool", "input_schema", type=custom, input_schema=PARAMETERS))
    book.add(
        "Choice",
        book.variant("Choice", type=const("auto", "any", "none")),
        book.variant("Choice", "name", type=const("tool")),
    )
    book.add(
        "Thinking",
        book.variant("Thinking", "budget_tokens", type=const("enabled")),
        book.variant("Thinking", type=TEXT | {"not": const("enabled")}),
    )
    book.add("Format", book.variant("Format", "schema", type=const("json_schema")))
    book.add(
        "Body",
        book.body(
            "messages",
            messages=messages | {"minItems": 1},
            system=either(TEXT, listed(system), NULL),
            tools=tools,
            tool_choice=optional(book.ref("Choice")),
            mcp_servers=optional({"type": "array", "maxItems": 0}),
            thread=NULL,
            n=optional(const(1)),
        ),
    )
    return book


def _blocks(book: Book) -> tuple[Json, Json, Json]:
    """The blocks of the system, those of a user and those of an assistant. What is of no use in a block of its kind is
    still read, as a block of any kind; the document lets such blocks hold none of their own."""
    within = book.variant("Block", content=either(TEXT, {"type": "array", "maxItems": 0}, NULL))
    book.add("Block", book.variant("Block", content=either(TEXT, listed(within), NULL)))
    source = either(
        book.variant("Source", "media_type", "data", type=const("base64"), media_type=MEDIA, data=DATA),
        book.variant("Source", "url", type=const("url"), url=PICTURE),
    )
    text = book.add("TextBlock", book.variant("Block", "text", type=const("text")))
    image = book.add("ImageBlock", book.variant("Block", "source", type=const("image"), source=source))
    shown = either(text, image)
    result = book.add(
        "ResultBlock",
        book.variant("Block", "tool_use_id", type=const("tool_result"), content=either(TEXT, listed(shown), NULL)),
    )
    use = book.add("UseBlock", book.variant("Block", "id", "name", "input", type=const("tool_use"), input=OBJECT))
    thinking = book.add("ThinkingBlock", book.variant("Block", "thinking", type=const("thinking")))
    redacted = book.add("RedactedBlock", book.variant("Block", "data", type=const("redacted_thinking")))
    return text, either(text, image, result), either(text, use, thinking, redacted)


def _reply() -> Json:
    block = either(
        opened(type=const("text"), text=TEXT),
        opened(type=const("thinking"), thinking=TEXT, signature=TEXT),
        opened(type=const("redacted_thinking"), data=TEXT),
        opened(type=const("tool_use"), id=NAME, name=TEXT, input=OBJECT),
    )
    ids = optional(listed(COUNT))
    reply = opened(
        id=NAME,
        type=const("message"),
        role=const("assistant"),
        model=TEXT,
        content=listed(block),
        stop_reason=const("end_turn", "max_tokens", "stop_sequence", "tool_use", "pause_turn", "refusal"),
        stop_sequence=optional(TEXT),
        usage=opened(input_tokens=COUNT, output_tokens=COUNT, cache_read_input_tokens=COUNT),
    )
    reply["properties"] |= {"token_ids": ids, "prompt_token_ids": ids}
    return reply
