"""Quantities and facts in pictures, in the corpus and in logs: counted, read by OCR, looked up, programmed."""

from __future__ import annotations

from itertools import pairwise
from random import Random

from silva.envs.gyms.files.grammar.quantity import Quantity
from silva.envs.gyms.files.grammar.seeds import Theme
from silva.envs.gyms.files.palette import PALETTE, SHAPES
from silva.envs.gyms.files.tools.searching import articles
from silva.tree import Json

_COLOURS = tuple(name for name in PALETTE if name not in ("white", "black", "gray", "brown"))


def things_of(random: Random) -> list[Json]:
    spots = [(x, y) for x in range(60, 660, 110) for y in range(60, 440, 110)]
    random.shuffle(spots)
    shapes, colours = random.sample(SHAPES, 3), random.sample(_COLOURS, 3)
    return [
        {
            "shape": random.choice(shapes),
            "colour": random.choice(colours),
            "at": [spot[0] + random.randint(-8, 8), spot[1] + random.randint(-8, 8)],
            "size": random.randint(24, 42),
        }
        for spot in spots[: random.randint(8, 15)]
    ]


def counted(random: Random, theme: Theme, tag: str) -> Quantity:
    """How many things of a kind are in a drawn scene."""
    things = things_of(random)
    one = random.choice(things)
    form = random.choice(("{colour} {shape}", "{colour} things", "{shape}"))
    what = form.format(**one).removesuffix(" things")
    words = what.split()
    value = sum(all(word in (each["shape"], each["colour"]) for word in words) for each in things)
    path = f"scene{tag}.png"
    named = f"{what} things" if "things" in form else f"{what}es" if what.endswith("s") else f"{what}s"
    return Quantity(
        pattern="counted",
        words=f"the number of {named} in {path}",
        files={path: {"kind": "scene", "size": [700, 480], "things": things}},
        calls=(("count", {"path": path, "what": what}),),
        found="@1",
        value=value,
    )


def outermost(random: Random, theme: Theme, tag: str) -> Quantity:
    """The colour of the thing furthest to one side: a text."""
    things = things_of(random)
    side = random.choice(("left", "right"))
    value = sorted(things, key=lambda each: each["at"][0] + (-1 if side == "left" else 1) * each["size"])
    best = value[0] if side == "left" else value[-1]
    path = f"scene{tag}.png"
    last = (
        "@1[0]['colour']"
        if side == "left"
        else "[t['colour'] for t in @1 if t['box'][2] == max([s['box'][2] for s in @1])][0]"
    )
    return Quantity(
        pattern="outermost",
        words=f"the colour of the thing that reaches furthest to the {side} in {path}",
        files={path: {"kind": "scene", "size": [700, 480], "things": things}},
        calls=(("locate", {"path": path}),),
        found=last,
        value=best["colour"],
        wrong=tuple(sorted({each["colour"] for each in things} - {best["colour"]})),
    )


def price(random: Random, theme: Theme, tag: str) -> Quantity:
    """A price on a sign, by OCR."""
    goods = random.sample(theme.goods, 4)
    prices = {good: random.randint(11, 99) + random.randint(1, 9) / 10 + random.randint(1, 9) / 100 for good in goods}
    good = random.choice(goods)
    path = f"sign{tag}.png"
    lines = [f"Prices in {random.choice(theme.places)}", *([name, f"{value:.2f}"] for name, value in prices.items())]
    key = good.replace(" ", "")
    return Quantity(
        pattern="price",
        words=f"the price of {good} on the sign in {path}",
        files={path: {"kind": "sign", "lines": lines}},
        calls=(("ocr", {"path": path}),),
        found=f"[numbers(l['text'])[-1] for l in @1 if {key!r} in without_spaces(l['text'])][0]",
        value=round(prices[good], 2),
    )


def almanac(random: Random, theme: Theme, tag: str) -> Quantity:
    """A number that the corpus knows of a place."""
    place = random.choice(theme.places)
    text = dict(articles())[place]
    words = text.replace(",", "").split()
    index, what, unit = random.choice(
        (
            (0, "number of inhabitants", ""),
            (1, "height above the sea, in metres,", "m"),
            (2, "distance to the nearest railway station, in kilometres,", "km"),
        )
    )
    found = [float(word) for word in words if word.isdigit()][index]
    return Quantity(
        pattern="almanac",
        words=f"the {what} of {place} according to the almanac",
        files={},
        calls=(("search", {"query": f"{place} town inhabitants", "most": 1}),),
        found=f"numbers(@1[0]['text'])[{index}]",
        value=found,
        unit=unit,
    )


def logged(random: Random, theme: Theme, tag: str) -> Quantity:
    """Something of a log file that takes a program: the median, or the longest run."""
    values = [random.randint(10, 99) for _ in range(random.randint(31, 61) | 1)]
    lines = [
        f"{8 + number // 6:02d}:{number % 6}0 {random.choice(theme.places)} reads {value}"
        for number, value in enumerate(values)
    ]
    path = f"log{tag}.txt"
    if random.random() < 0.5:
        words, value = "the median of the readings", sorted(values)[len(values) // 2]
        code = "import statistics\nresult = statistics.median(found)"
    else:
        words, best, run = "the length of the longest run of readings that rise", 1, 1
        for before, after in pairwise(values):
            run = run + 1 if after > before else 1
            best = max(best, run)
        value = best
        code = (
            "best = run = 1\nfor a, b in zip(found, found[1:]):\n    run = run + 1 if b > a else 1\n"
            "    best = max(best, run)\nresult = best"
        )
    read = f"found = [int(line.split()[-1]) for line in open({path!r}) if line.strip()]\n"
    return Quantity(
        pattern="logged",
        words=f"{words} in {path}",
        files={path: {"kind": "txt", "text": "\n".join(lines) + "\n"}},
        calls=(("python", {"code": read + code}),),
        found="@1",
        value=value,
    )
