"""Charts by matplotlib. What a chart shows stands in the PNG beside the picture, so that it can be checked."""

from __future__ import annotations

import io
import json
from typing import Any

from silva.envs.gyms.files.tools.instrument import Bench
from silva.errors import UsageError

_KEY = "silva-plot"
KINDS = ("bar", "line", "pie")


def plot(bench: Bench, kind: str, labels: list[str], values: list[float], to: str, title: str = "") -> str:
    """Draw a chart (bar, line or pie) of values with their labels into a new PNG file `to`; gives its name."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from PIL.PngImagePlugin import PngInfo

    from silva.envs.gyms.files.tools.pictures import opened

    if kind not in KINDS:
        raise UsageError(f"plot: kind {kind[:20]!r}; there are {', '.join(KINDS)}")
    if not to.lower().endswith(".png"):
        raise UsageError(f"plot: to {to[:40]!r}: the new file is a PNG, such as chart.png")
    if len(labels) != len(values) or not 0 < len(labels) <= 60 or len({*labels}) != len(labels):
        raise UsageError(f"plot: {len(labels)} labels (each once) for {len(values)} values; 1 to 60 are drawn")
    if kind == "pie" and (min(values) < 0 or not sum(values) > 0):
        raise UsageError("plot: the parts of a pie are not negative")
    figure = Figure(figsize=(6.4, 4.0), dpi=80)
    axes = figure.add_subplot()
    if kind == "pie":
        axes.pie(values, labels=labels)
    elif kind == "bar":
        axes.bar(labels, values)
    else:
        axes.plot(labels, values, marker="o")
    axes.set_title(title[:100])
    out = io.BytesIO()
    FigureCanvasAgg(figure).print_png(out)
    told = PngInfo()
    told.add_text(_KEY, json.dumps({"kind": kind, "values": dict(zip(labels, values, strict=True))}))
    picture = io.BytesIO()
    opened(out.getvalue()).save(picture, "PNG", pnginfo=told)
    return bench.folder.write(to, picture.getvalue())


def plotted(content: bytes) -> tuple[str, dict[str, float]] | None:
    """What a chart made by `plot` shows: its kind and its values by label; None for any other picture."""
    from silva.envs.gyms.files.tools.pictures import opened

    said: Any = getattr(opened(content), "text", {}).get(_KEY)
    if said is None:
        return None
    told = json.loads(said)
    return str(told["kind"]), {str(name): float(value) for name, value in told["values"].items()}
