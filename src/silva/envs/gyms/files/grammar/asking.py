"""What is asked: quantities put together into a task of one of three levels, with its check and a solution.

    level 1   one quantity or fact                                        "What is …?"
    level 2   one or two, and a step with them                            convert, per cent, difference, equation
    level 3   two or three, or a file to be left                          table, chart, letter, cut, frame

A task's `data` holds `files` (descriptions), `check`, `solution` (calls, ending in `answer`) and `made` (its grammar).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from random import Random
from typing import Any

from silva.envs.gyms.files.grammar.ledgers import orders_of
from silva.envs.gyms.files.grammar.quantities import NUMBERS, TEXTS
from silva.envs.gyms.files.grammar.quantity import Make, Quantity
from silva.envs.gyms.files.grammar.seeds import Theme
from silva.envs.gyms.files.grammar.sights import things_of
from silva.tree import Json, Record, Task

Call = tuple[str, Json]


class Draft(Record, frozen=True, kw_only=True):
    """A question before it has a name: what a task's `data` and words are made of."""

    words: str
    files: dict[str, Json]
    calls: tuple[Call, ...]
    answer: str
    check: Json
    pattern: str

    @property
    def solution(self) -> list[Json]:
        """The calls, ending in the answer, as a task's `data` has them."""
        plan: list[Json] = [{"tool": tool, "arguments": arguments} for tool, arguments in self.calls]
        return [*plan, {"tool": "answer", "arguments": {"text": self.answer}}]

    def task(self, id: str, env: str, level: int, split: str, theme: str, tags: Sequence[str] = ()) -> Task:
        """The draft as a task."""
        made = {"pattern": self.pattern, "level": level, "theme": theme}
        data = {"files": self.files, "check": self.check, "solution": self.solution, "made": made}
        kinds = sorted({str(spec["kind"]) for spec in self.files.values()})
        found = (f"level{level}", *self.pattern.split("+"), *kinds, *tags)
        return Task(id=id, env=env, instruction=self.words, split=split, data=data, tags=tuple(dict.fromkeys(found)))


def simple(random: Random, q: Quantity) -> Draft:
    """Level 1: the quantity itself."""
    frame = random.choice(("What is {}?", "Find {}.", "Please tell me {}.", "I need {}."))
    one = _shifted(q, 0)
    if isinstance(q.value, str):
        check: Json = {"all": [[q.value]], "none": list(q.wrong)}
    else:
        check = {"all": [[_plain(q.value)]], "tolerance": q.sure, "numbers": 2}
    return Draft(
        words=frame.format(q.words), files=q.files, calls=one[0], answer=f"${one[1]}", check={"answer": check},
        pattern=q.pattern,
    )  # fmt: skip


def converted(random: Random, q: Quantity) -> Draft:
    """Level 2: a quantity in another unit."""
    to, factor = random.choice(_OTHER[q.unit])
    calls, found = _shifted(q, 0)
    last = f"r{len(calls) + 1}"
    name = to.replace("_", " ")
    return _numeric(
        words=f"Express {q.words} in {name}s; two decimals are enough.",
        quantities=(q,),
        calls=(*calls, ("convert_unit", {"value": f"${found}", "unit": q.unit, "to": to})),
        answer=f"$round({last}, 2)",
        value=float(q.value) * factor,
        pattern=f"convert+{q.pattern}",
        sure=max(0.011, abs(float(q.value) * factor) * 1e-4),
    )


def shared(random: Random, q: Quantity) -> Draft:
    """Level 2: a part of a quantity, or a quantity with a surcharge."""
    part = random.randint(3, 45)
    calls, found = _shifted(q, 0)
    if random.random() < 0.5:
        words, factor = f"How much is {part} % of {q.words}? Round to two decimals.", f"* {part} / 100"
        value = float(q.value) * part / 100
    else:
        words, factor = f"Add {part} % to {q.words}. What comes out, to two decimals?", f"* {100 + part} / 100"
        value = float(q.value) * (100 + part) / 100
    return _numeric(
        words=words,
        quantities=(q,),
        calls=(*calls, ("calculate", {"expression": f"round({found} {factor}, 2)"})),
        answer=f"$r{len(calls) + 1}",
        value=value,
        pattern=f"share+{q.pattern}",
        sure=0.011,
    )


def equation(random: Random, q: Quantity) -> Draft:
    """Level 2: an unknown that an equation with the quantity gives."""
    slope, offset = random.randint(2, 9), random.randint(1, 60)
    calls, found = _shifted(q, 0)
    return _numeric(
        words=f"A number x is such that {slope} times x plus {offset} is {q.words}. What is x, to two decimals?",
        quantities=(q,),
        calls=(*calls, ("solve", {"equations": f'$[f"{slope}*x + {offset} = {{{found}}}"]', "unknowns": ["x"]})),
        answer=f"$round(r{len(calls) + 1}[0]['x'], 2)",
        value=(float(q.value) - offset) / slope,
        pattern=f"equation+{q.pattern}",
        sure=0.011,
    )


def paired(random: Random, one: Quantity, other: Quantity) -> Draft:
    """Level 2: two quantities, one reckoning."""
    first, a = _shifted(one, 0)
    second, b = _shifted(other, len(first))
    words, sign, value = random.choice(
        (
            (
                "How much more is {0} than {1}? (Less than nothing where it is not.)",
                "-",
                float(one.value) - float(other.value),
            ),
            ("What is the sum of {0} and {1}?", "+", float(one.value) + float(other.value)),
            ("Multiply {0} by {1}.", "*", float(one.value) * float(other.value)),
        )
    )
    return _numeric(
        words=words.format(one.words, other.words),
        quantities=(one, other),
        calls=(*first, *second, ("calculate", {"expression": f"round({a} {sign} {b}, 2)"})),
        answer=f"$r{len(first) + len(second) + 1}",
        value=value,
        pattern=f"pair+{one.pattern}+{other.pattern}",
        sure=0.011,
    )


def tripled(random: Random, parts: Sequence[Quantity]) -> Draft:
    """Level 3: three quantities, in one reckoning."""
    calls: list[Call] = []
    names: list[str] = []
    for q in parts:
        more, found = _shifted(q, len(calls))
        calls += more
        names.append(found)
    one, two, three = (float(q.value) for q in parts)
    form, how, value = random.choice(
        (
            ("Add {0} and {1}, then take away {2}.", "{0} + {1} - {2}", one + two - three),
            (
                "What is the mean of {0}, {1} and {2}, to two decimals?",
                "({0} + {1} + {2}) / 3",
                (one + two + three) / 3,
            ),
            (
                "Which is the largest number: {0}, {1} or {2}? Give the number.",
                "max([{0}, {1}, {2}])",
                max(one, two, three),
            ),
        )
    )
    calls.append(("calculate", {"expression": f"round({how.format(*names)}, 2)"}))
    return _numeric(
        words=form.format(*(q.words for q in parts)),
        quantities=parts,
        calls=tuple(calls),
        answer=f"$r{len(calls)}",
        value=value,
        pattern="+".join(["triple", *(q.pattern for q in parts)]),
        sure=0.011,
    )


def summary(random: Random, theme: Theme, tag: str) -> Draft:
    """Level 3: a table of totals to be written, or a chart of them to be drawn."""
    rows = orders_of(random, theme)
    kind, column = random.choice(("place", "item", "day")), random.choice(("pieces", "amount"))
    sums: dict[str, float] = {}
    for row in rows[1:]:
        name = row[rows[0].index(kind)]
        sums[name] = round(sums.get(name, 0) + row[rows[0].index(column)], 2)
    source = f"orders{tag}.xlsx"
    files: dict[str, Json] = {source: {"kind": "xlsx", "sheets": {"orders": rows}}}
    sql = f"select {kind}, round(sum({column}), 2) from t group by {kind} order by {kind}"
    ask: Call = ("query_table", {"path": source, "sql": sql})
    ordered = sorted(sums.items())
    if random.random() < 0.5:
        to, shape = f"totals{tag}.{random.choice(('csv', 'xlsx'))}", "table"
        words = (
            f"Write {to}: a table with the columns {kind} and {column}, one row for each {kind} in {source} with its"
            f" total {column} (two decimals), sorted by {kind}. Then answer with the number of rows below the header."
        )
        write: Call = ("write_table", {"path": to, "rows": f"$[['{kind}', '{column}']] + r1"})
        check: Json = {"path": to, "rows": [[kind, column], *([name, value] for name, value in ordered)]}
    else:
        to, shape = f"totals{tag}.png", random.choice(("bar", "pie"))
        words = (
            f"Draw a {shape} chart of the total {column} (two decimals) of each {kind} in {source} and save it as {to}."
            f" Then answer with the number of {'bars' if shape == 'bar' else 'parts'}."
        )
        labels = {"labels": "$[row[0] for row in r1]", "values": "$[row[1] for row in r1]"}
        write = ("plot", {"kind": shape, **labels, "to": to})
        check = {"path": to, "plots": sums, "kind": shape}
    answer = {"all": [[str(len(sums))]], "most": 12}
    return Draft(
        words=words, files=files, calls=(ask, write), answer="$len(r1)", check={"answer": answer, "files": [check]},
        pattern=f"summary+{shape}",
    )  # fmt: skip


def letter(random: Random, one: Quantity, other: Quantity, theme: Theme, tag: str) -> Draft:
    """Level 3: a letter that tells two things."""
    first, a = _shifted(one, 0)
    second, b = _shifted(other, len(first))
    to, who = f"letter{tag}.docx", random.choice(theme.people)
    words = (
        f"Write the letter {to} with the title 'To {who}' which tells {one.words} and {other.words}."
        " Answer with the word done when it is written."
    )
    parts = f'$[f"It is {{{a}}}.", f"And {{{b}}}."]'
    calls: tuple[Call, ...] = (
        *first,
        *second,
        ("write_document", {"path": to, "title": f"To {who}", "paragraphs": parts}),
    )
    says = [who, *(q.value if isinstance(q.value, str) else _plain(q.value) for q in (one, other))]
    condition = {"path": to, "says": says, "tolerance": max(one.sure, other.sure)}
    return Draft(
        words=words,
        files={**one.files, **other.files},
        calls=calls,
        answer="done",
        check={"files": [condition]},  # a word that the question says would only make AnsAcc look better
        pattern=f"letter+{one.pattern}+{other.pattern}",
    )


def marked(random: Random, theme: Theme, tag: str) -> Draft:
    """Level 3: the one thing of its kind in a scene, cut out or framed."""
    things = things_of(random)
    kinds = [f"{each['colour']} {each['shape']}" for each in things]
    single = [each for each, kind in zip(things, kinds, strict=True) if kinds.count(kind) == 1]
    if not single:
        return marked(random, theme, tag)
    chosen = random.choice(single)
    what, path = f"{chosen['colour']} {chosen['shape']}", f"scene{tag}.png"
    x, y = chosen["at"]
    half = chosen["size"] / 2 if chosen["shape"] == "rectangle" else chosen["size"]
    box = [round(x - chosen["size"]), round(y - half), round(x + chosen["size"]), round(y + half)]
    files: dict[str, Json] = {path: {"kind": "scene", "size": [700, 480], "things": things}}
    find: Call = ("locate", {"path": path, "what": what})
    if random.random() < 0.5:
        to = f"part{tag}.png"
        words = (
            f"Cut the {what} out of {path} so that nothing else is in the new picture {to}; answer with its width in"
            " pixels."
        )
        edge = "$[r1[0]['box'][0] - 4, r1[0]['box'][1] - 4, r1[0]['box'][2] + 4, r1[0]['box'][3] + 4]"
        calls: tuple[Call, ...] = (
            find,
            ("crop", {"path": path, "box": edge, "to": to}),
            ("image_info", {"path": to}),
        )
        answer = "$r3['width']"
        width = box[2] - box[0]
        check: Json = {
            "answer": {"all": [[str(width + 9)]], "tolerance": 24},
            "files": [{"path": to, "shows": {what: 1}, "only": True}],
        }
        return Draft(words=words, files=files, calls=calls, answer=answer, check=check, pattern="cut")
    to, frame = (
        f"marked{tag}.png",
        random.choice([name for name in ("red", "blue", "purple") if name != chosen["colour"]]),
    )
    words = (
        f"Draw a {frame} frame around the {what} in {path}, save the picture as {to}, and answer with the left edge of"
        f" the {what}."
    )
    calls = (find, ("draw_box", {"path": path, "box": "$r1[0]['box']", "to": to, "colour": frame}))
    check = {
        "answer": {"all": [[str(box[0])]], "tolerance": 4},
        "files": [{"path": to, "box": box, "colour": frame}],
    }
    return Draft(words=words, files=files, calls=calls, answer="$r1[0]['box'][0]", check=check, pattern="frame")


def draft(random: Random, theme: Theme, level: int, names: Sequence[str] = ()) -> Draft:
    """A question of a level, drawn from the grammar; `names` says which quantities it is to be of."""
    chosen = list(names)
    # A file's name says whose it is: a question of one theme is then never word for word a question of another.
    tags = [f"_{theme.name}_{random.randint(10, 99)}{more}" for more in ("", "_b", "_c")]

    def pick(among: dict[str, Make], tag: str) -> Quantity:
        known = [name for name in chosen if name in among]
        name = known[0] if known else random.choice(sorted(among))
        if known:
            chosen.remove(name)
        return among[name](random, theme, tag)

    everything = {**NUMBERS, **TEXTS}
    if level == 1:
        return simple(random, pick(everything, tags[0]))
    if level == 2:
        q = pick(NUMBERS, tags[0])
        ways = ["share", "equation", "pair", *(["convert"] * 2 if q.unit else [])]
        match random.choice(ways):
            case "convert":
                return converted(random, q)
            case "share":
                return shared(random, q)
            case "equation":
                return equation(random, q)
        return paired(random, q, pick(NUMBERS, tags[1]))
    match random.choice(("triple", "summary", "letter", "marked")):
        case "summary":
            return summary(random, theme, tags[0])
        case "letter":
            return letter(random, pick(NUMBERS, tags[0]), pick(everything, tags[1]), theme, tags[0])
        case "marked":
            return marked(random, theme, tags[0])
    return tripled(random, [pick(NUMBERS, tag) for tag in tags])


_OTHER: dict[str, tuple[tuple[str, float], ...]] = {
    "kg": (("pound", 1 / 0.45359237), ("ounce", 1 / 0.028349523125), ("gram", 1000)),
    "t": (("pound", 1000 / 0.45359237), ("kilogram", 1000)),
    "m": (("yard", 1 / 0.9144), ("mile", 1 / 1609.344)),
    "km": (("mile", 1 / 1.609344), ("nautical_mile", 1 / 1.852)),
}


def _numeric(
    words: str,
    quantities: Sequence[Quantity],
    calls: tuple[Call, ...],
    answer: str,
    value: float,
    pattern: str,
    sure: float,
) -> Draft:
    files: dict[str, Json] = {}
    for q in quantities:
        files |= q.files
    check: Json = {"answer": {"all": [[_plain(value)]], "tolerance": sure, "numbers": 2}}
    return Draft(words=words, files=files, calls=calls, answer=answer, check=check, pattern=pattern)


def _shifted(q: Quantity, before: int) -> tuple[tuple[Call, ...], str]:
    """A quantity's calls and expression, with its results by the names they get after so many other calls."""

    def named(text: str) -> str:
        return re.sub(r"@(\d)", lambda found: f"r{before + int(found[1])}", text)

    def put(value: Any) -> Any:
        return named(value) if isinstance(value, str) else value

    calls = tuple((tool, {key: put(value) for key, value in arguments.items()}) for tool, arguments in q.calls)
    return calls, named(q.found)


def _plain(value: float) -> str:
    return str(int(value)) if float(value) == int(value) else str(round(float(value), 4))
