"""`/tokenize` and `/detokenize`, as vLLM has them: what the server would read, and what ids say."""

from __future__ import annotations

import msgspec

from silva.models.local.asked import check_ids
from silva.models.local.network import Network
from silva.models.local.prompt import Prompter
from silva.models.serving import ChatMessage, ChatRequest, Refusal
from silva.models.serving.chat import ChatTool
from silva.tree import Json


class TokenizeRequest(msgspec.Struct, frozen=True):
    """A text, or a conversation, to cut into ids."""

    model: str | None = None
    prompt: str | None = None
    messages: list[ChatMessage] | None = None
    tools: list[ChatTool] | None = None
    add_special_tokens: bool | None = None
    add_generation_prompt: bool = True
    return_token_strs: bool | None = None


class DetokenizeRequest(msgspec.Struct, frozen=True):
    """Ids to write as text."""

    tokens: list[int]
    model: str | None = None


def tokenize(request: TokenizeRequest, prompter: Prompter, network: Network) -> Json:
    """The ids of a text, or of a conversation as the chat route would read it.

    Raises:
        Refusal: there is neither or both.
    """
    if (request.prompt is None) == (not request.messages):
        raise Refusal(400, "say either prompt or messages")
    if request.messages:
        asked = ChatRequest(messages=request.messages, tools=request.tools or [])
        ids = prompter.ids(asked, ready=request.add_generation_prompt)
    else:
        ids = prompter.encode(request.prompt or "", request.add_special_tokens is not False)
    strings = [prompter.written(number) for number in ids] if request.return_token_strs else None
    return {"count": len(ids), "max_model_len": network.context, "tokens": ids, "token_strs": strings}


def detokenize(request: DetokenizeRequest, prompter: Prompter, network: Network) -> Json:
    """The text of ids, the template's marks with it.

    Raises:
        Refusal: an id is not the model's.
    """
    check_ids(request.tokens, network, "list tokens")
    return {"prompt": prompter.decode(request.tokens, special=True)}
