"""How a family of models marks its thinking and its calls, told from its template."""

from __future__ import annotations

from silva.models.exact.calls import ReadCalls, read_deepseek, read_gemma, read_llama, read_mistral, read_tagged
from silva.tree import Record


class CallSyntax(Record, frozen=True, kw_only=True):
    """Calls of one family: `begin` opens a block, `end` closes it ("": the next block or the reply's end does), `read`
    reads what is between. `bare`: a reply that begins with `{` is a call without a mark."""

    name: str
    begin: str
    end: str
    read: ReadCalls
    bare: bool = False


TAGGED = CallSyntax(name="tagged", begin="<tool_call>", end="</tool_call>", read=read_tagged)
LLAMA = CallSyntax(name="llama", begin="<|python_tag|>", end="", read=read_llama, bare=True)
MISTRAL = CallSyntax(name="mistral", begin="[TOOL_CALLS]", end="", read=read_mistral)
GEMMA = CallSyntax(name="gemma", begin="```tool_code", end="```", read=read_gemma)
DEEPSEEK = CallSyntax(name="deepseek", begin="<｜tool▁calls▁begin｜>", end="<｜tool▁calls▁end｜>", read=read_deepseek)


class Syntax(Record, frozen=True, kw_only=True):
    """What a reply may hold besides words. `calls` is empty where the family's way of calling is not known; `think` and
    `unthink` are "" where it shows no thinking."""

    calls: tuple[CallSyntax, ...] = (TAGGED,)
    think: str = ""
    unthink: str = ""


def syntax_of(source: str, marks: frozenset[str], knows_tools: bool) -> Syntax:
    """The syntax of a family.

    Args:
        source: its chat template.
        marks: the texts of its control tokens.
        knows_tools: whether the template writes tools; where not, they are described to the model in tagged form.
    """
    think, unthink = ("[THINK]", "[/THINK]") if "[THINK]" in marks else ("<think>", "</think>")
    shows = think in marks or think in source or unthink in source
    calls = _calls(source, marks) if knows_tools else (TAGGED, GEMMA) if "<start_of_turn>" in source else (TAGGED,)
    return Syntax(calls=calls, think=think if shows else "", unthink=unthink if shows else "")


def _calls(source: str, marks: frozenset[str]) -> tuple[CallSyntax, ...]:
    for syntax in (MISTRAL, DEEPSEEK):
        if syntax.begin in source or syntax.begin in marks:
            return (syntax,)
    if TAGGED.begin in source:
        return (TAGGED,)
    if LLAMA.begin in source or LLAMA.begin in marks or ("<|start_header_id|>" in source and "parameters" in source):
        return (LLAMA,)
    return (GEMMA,) if "tool_code" in source else ()
