"""Expressions and code actions: a small part of Python, walked node by node; nothing is compiled or imported.

    "$r1[0]['price'] * 3"  ─▶ Expressions.value ─▶ a plain value
    "```python … ```"      ─▶ Expressions.run   ─▶ tools called, names set, what was printed

What a model writes is never run as Python here: a name means an earlier result, a call means a tool or one of a few
functions, and every size is bounded. Code that needs more goes to the tool `python`, in the sandbox.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from silva.errors import UsageError

Values = dict[str, Any]
Call = Callable[[str, dict[str, Any], tuple[Any, ...]], Awaitable[Any]]
"""How a tool is called: its name, arguments by name, arguments by place."""

MOST_NODES = 20_000
MOST_LENGTH = 100_000
_MOST_BITS = 4096
_MOST_MADE = 20_000_000

_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda one, other: one in other,
    ast.NotIn: lambda one, other: one not in other,
}
_UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Not: operator.not_,
}


def numbers(text: str) -> list[float]:
    """The numbers in a text, in their order; thousands may have commas."""
    found = re.findall(r"(?<![\w.])-?\d{1,3}(?:,\d{3})+(?:\.\d+)?|(?<![\w.])-?\d+(?:\.\d+)?|\d+(?:\.\d+)?", str(text))
    return [float(each.replace(",", "")) for each in found]


def join(parts: list[Any], between: str = ", ") -> str:
    """Texts put together."""
    return _bounded(str(between).join(str(part) for part in parts))


def without_spaces(text: str) -> str:
    """A text without its spaces: what OCR reads may have lost them."""
    return "".join(str(text).split())


FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{each.__name__: each for each in (abs, bool, float, int, len, max, min, round, sorted, str, sum)},
    **{each.__name__: each for each in (math.ceil, math.cos, math.exp, math.floor, math.log, math.log10, math.sin)},
    **{each.__name__: each for each in (math.sqrt, math.tan, math.radians, math.degrees)},
    **{each.__name__: each for each in (numbers, join, without_spaces)},
}
CONSTANTS = {"pi": math.pi, "e": math.e}


class Expressions:
    """Reads names from `names`, calls tools by `call` (None: there are none)."""

    def __init__(self, names: Values, call: Call | None = None, tools: frozenset[str] = frozenset()) -> None:
        self._names = names
        self._call = call
        self._tools = tools
        self._left = MOST_NODES
        self._room = _MOST_MADE
        self.printed: list[str] = []

    async def value(self, source: str) -> Any:
        """What an expression is worth.

        Raises:
            UsageError: it cannot be read or worked out; the line says why.
        """
        tree = _parsed(source, "eval")
        assert isinstance(tree, ast.Expression)
        return await self._safely(self._value(tree.body))

    async def run(self, source: str) -> Any:
        """Carry out statements (assignments, expressions, `if`, `for` over a list); the last expression's value.

        Raises:
            UsageError: it cannot be read, or a line of it fails; what came before is done.
        """
        tree = _parsed(source, "exec")
        assert isinstance(tree, ast.Module)
        return await self._safely(self._block(tree.body))

    async def _safely(self, work: Awaitable[Any]) -> Any:
        try:
            return await work
        except (ArithmeticError, AttributeError, IndexError, KeyError, TypeError, ValueError, RecursionError) as error:
            raise UsageError(f"{type(error).__name__}: {' '.join(str(error).split())[:200]}") from error

    async def _block(self, body: list[ast.stmt]) -> Any:
        last: Any = None
        for line in body:
            last = await self._statement(line)
        return last

    async def _statement(self, node: ast.stmt) -> Any:
        match node:
            case ast.Expr(value=value):
                return await self._value(value)
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                self._names[_free(name, self._tools)] = made = await self._value(value)
                return made
            case ast.If(test=test, body=body, orelse=other):
                return await self._block(body if await self._value(test) else other)
            case ast.For(target=ast.Name(id=name), iter=over, body=body, orelse=[]):
                last: Any = None
                for item in _items(await self._value(over)):
                    self._names[_free(name, self._tools)] = item
                    last = await self._block(body)
                return last
            case ast.Pass():
                return None
        line = getattr(node, "lineno", 1)
        raise UsageError(
            f"line {line}: {type(node).__name__} is not understood in a code action: assign to a name, call tools, if,"
            " for; the tool python runs any Python"
        )

    async def _value(self, node: ast.expr) -> Any:
        self._left -= 1
        if self._left < 0:
            raise UsageError(f"more than {MOST_NODES:,} steps: use the tool python")
        match node:
            case ast.Constant(value=value) if isinstance(value, str | int | float | bool | None):
                return value
            case ast.Name(id=name):
                return self._named(name)
            case ast.List(elts=items) | ast.Tuple(elts=items):
                return [await self._value(item) for item in items]
            case ast.Dict(keys=keys, values=values) if all(key is not None for key in keys):
                pairs = zip(keys, values, strict=True)
                return {await self._value(key): await self._value(value) for key, value in pairs if key is not None}
            case ast.BinOp(left=left, op=how, right=right) if type(how) in _BINARY:
                return binary(how, await self._value(left), await self._value(right))
            case ast.UnaryOp(op=how, operand=inner) if type(how) in _UNARY:
                return _UNARY[type(how)](await self._value(inner))
            case ast.BoolOp(op=how, values=parts):
                return await self._both(isinstance(how, ast.And), parts)
            case ast.Compare(left=left, ops=hows, comparators=others) if all(type(how) in _COMPARE for how in hows):
                return await self._compare(left, hows, others)
            case ast.IfExp(test=test, body=body, orelse=other):
                return await self._value(body if await self._value(test) else other)
            case ast.Subscript(value=inner, slice=ast.Slice(lower=lower, upper=upper, step=None)):
                ends = [None if end is None else await self._value(end) for end in (lower, upper)]
                return (await self._value(inner))[ends[0] : ends[1]]
            case ast.Subscript(value=inner, slice=key):
                return (await self._value(inner))[await self._value(key)]
            case ast.JoinedStr(values=parts):
                return _bounded("".join([str(await self._value(part)) for part in parts]))
            case ast.FormattedValue(value=inner, format_spec=form):
                spec = "" if form is None else str(await self._value(form))
                if any(len(run) > 2 for run in _digits(spec)):
                    raise UsageError(f"format {spec!r} asks for too much")
                return format(await self._value(inner), spec)
            case ast.ListComp(elt=made, generators=[ast.comprehension(target=ast.Name(id=name), iter=over, ifs=tests)]):
                return await self._listed(made, name, over, tests)
            case ast.Call(func=ast.Name(id=name), args=places, keywords=named):
                return await self._called(name, places, named)
        raise UsageError(f"{ast.unparse(node)[:80]!r} is not understood here")

    async def _both(self, all_of: bool, parts: list[ast.expr]) -> Any:
        value: Any = all_of
        for part in parts:
            value = await self._value(part)
            if bool(value) != all_of:
                return value
        return value

    async def _compare(self, left: ast.expr, hows: list[ast.cmpop], others: list[ast.expr]) -> bool:
        before = await self._value(left)
        for how, other in zip(hows, others, strict=True):
            value = await self._value(other)
            if not _COMPARE[type(how)](before, value):
                return False
            before = value
        return True

    async def _listed(self, made: ast.expr, name: str, over: ast.expr, tests: list[ast.expr]) -> list[Any]:
        found: list[Any] = []
        kept = self._names.get(name)
        for item in _items(await self._value(over)):
            self._names[name] = item
            if all([await self._value(test) for test in tests]):
                found.append(await self._value(made))
        self._names.pop(name, None) if kept is None else self._names.__setitem__(name, kept)
        return found

    async def _called(self, name: str, places: list[ast.expr], named: list[ast.keyword]) -> Any:
        given = tuple([await self._value(place) for place in places])
        words = {word.arg: await self._value(word.value) for word in named if word.arg}
        if name == "print":
            self.printed.append(_bounded(" ".join(str(each) for each in given)))
            return None
        if name in self._tools and self._call is not None:
            return await self._call(name, words, given)
        for each in (*given, *words.values()):
            _bounded(each)  # what is written out of a list may be far longer than the list
        if name not in FUNCTIONS:
            known = ", ".join(sorted(self._tools)) or ", ".join(sorted(FUNCTIONS))
            raise UsageError(f"there is no {name}; there are {known}")
        made = FUNCTIONS[name](*given, **words)
        self._room -= len(made) if isinstance(made, str | list) else 0
        if self._room < 0:
            raise UsageError(f"more than {_MOST_MADE:,} characters in all: use the tool python")
        return made

    def _named(self, name: str) -> Any:
        if name in self._names:
            return self._names[name]
        if name in CONSTANTS:
            return CONSTANTS[name]
        known = ", ".join(self._names) or "none yet"
        raise UsageError(f"there is no result {name!r}; there are: {known}")


def binary(how: ast.operator, left: Any, right: Any) -> Any:
    """One operation, refused where its result would be too large to hold.

    Raises:
        UsageError: it would.
    """
    whole = isinstance(how, ast.Pow) and isinstance(left, int) and isinstance(right, int)
    if whole and right > 0 and left.bit_length() * right > _MOST_BITS:
        raise UsageError("the power is too large")
    if isinstance(how, ast.Mult):
        for one, other in ((left, right), (right, left)):
            if isinstance(one, str | list) and isinstance(other, int) and len(one) * other > MOST_LENGTH:
                raise UsageError("the product is too long")
    if isinstance(how, ast.Mod) and isinstance(left, str):
        raise UsageError("% on text is not understood: use an f-string")
    made = _BINARY[type(how)](left, right)
    if isinstance(made, int) and made.bit_length() > _MOST_BITS:
        raise UsageError("the number is too large")
    if isinstance(made, complex):
        raise UsageError("the result is not a real number")
    return _bounded(made)


def _parsed(source: str, mode: str) -> ast.AST:
    if len(source) > MOST_LENGTH:
        raise UsageError(f"longer than {MOST_LENGTH:,} characters")
    try:
        return ast.parse(source.strip(), mode=mode)
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        line = getattr(error, "lineno", None)
        why = getattr(error, "msg", None) or str(error)
        raise UsageError(f"{f'line {line}: ' if line and mode == 'exec' else ''}cannot be read: {why}") from error


def _bounded(made: Any) -> Any:
    if isinstance(made, str | list) and _weight(made, 10 * MOST_LENGTH) < 0:
        raise UsageError(f"more than {10 * MOST_LENGTH:,} characters")
    return made


def _weight(value: Any, left: int) -> int:
    """What is left of so many characters once a value is written out; below 0 where it does not fit."""
    if isinstance(value, str):
        return left - len(value)
    if isinstance(value, list | dict):
        for each in value if isinstance(value, list) else [*value, *value.values()]:
            left = _weight(each, left - 1)
            if left < 0:
                break
    return left - 1


def _items(over: Any) -> list[Any]:
    if not isinstance(over, list):
        raise UsageError("for goes over a list")
    return list(over)


def _free(name: str, tools: frozenset[str]) -> str:
    if name in tools or name in FUNCTIONS or name == "print":
        raise UsageError(f"{name} is the name of a tool or function: choose another")
    return name


def _digits(spec: str) -> Iterator[str]:
    return iter("".join(letter if letter.isdigit() else " " for letter in spec).split())
