"""Puts measured figures into the benchmarks page, so that the page can never say what was not measured.

benchmarks/results/NAME.md (or NAME.json) ─▶ one section each ─▶ where the page says `<!-- figures -->`
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

MARK = "<!-- figures -->"
LEARNING = "<!-- learning -->"
ABSENT = "This checkout holds no measured figures: run `make bench` and build the site again."


def on_page_markdown(markdown: str, /, page: Any, config: Any, files: Any) -> str:
    """Replace the marks by what is in `benchmarks/results` (called by MkDocs for every page)."""
    results = Path(config.config_file_path).parent / "benchmarks" / "results"
    if LEARNING in markdown:
        markdown = markdown.replace(LEARNING, learning(results / "learning"))
    return markdown.replace(MARK, figures(results)) if MARK in markdown else markdown


def learning(folder: Path) -> str:
    """The experiments of `benchmarks/learning` as one table, a comparison a line, and the commands that made them."""
    lines: list[str] = []
    commands: list[str] = []
    for path in sorted(folder.glob("*.json")):
        for where, body in json.loads(path.read_text(encoding="utf-8")).items():
            policy, env = where.split(" in ", 1)
            lines += [_comparison(each, f"{path.stem}: {where}") for each in body["comparisons"]]
            commands.append(body.get("command", f"{path.stem}.py --env {env} --policy {policy}"))
    if not lines:
        return ABSENT
    head = ["experiment", "what", "held-out tasks", "before", "after", "gain [95 % interval]", "each seed"]
    table = "\n".join([f"| {' | '.join(head)} |", "|" + "---|" * len(head), *lines])
    seeded = [command if "--seeds" in command else f"{command} --seeds 0 1 2" for command in commands]
    block = "\n".join(f"$ python benchmarks/learning/{command}" for command in seeded)
    return f"{table}\n\nThe commands, in the same order:\n\n```console\n{block}\n```"


def _comparison(each: dict[str, Any], experiment: str) -> str:
    def points(share: float) -> str:
        return f"{100 * share:+.1f}"

    seeds = ", ".join(points(seed["after"] - seed["before"]) for seed in each["by_seed"])
    gain = f"{points(each['gain'])} [{points(each['low'])}, {points(each['high'])}]"
    cells = [
        experiment.replace("/", "/<wbr>").replace("_", "_<wbr>"),  # a long name may be broken there
        f"{each['left']} → {each['right']}",
        str(each["tasks"]),
    ]
    cells += [f"{100 * each['before']:.1f} %", f"{100 * each['after']:.1f} %", gain, seeds]
    return f"| {' | '.join(cells)} |"


def figures(folder: Path) -> str:
    """The results in a folder as Markdown; a `.md` beside a `.json` of the same name is its better telling."""
    texts = {path.stem: path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.md"))}
    for path in sorted(folder.glob("*.json")):
        if path.stem not in texts and not path.stem.endswith(".quick"):
            texts[path.stem] = section(path.stem, json.loads(path.read_text("utf-8")))
    return "\n\n".join(texts[name] for name in sorted(texts)) or ABSENT


def section(name: str, record: dict[str, Any]) -> str:
    """One result: its question, its bar and whether it holds, its table, and the command that made it."""
    if "bar" not in record:
        return f"## {name.replace('_', ' ')}\n\n{table(record)}"
    machine, versions = record["machine"], record["versions"]
    verdict = "holds" if record["holds"] else "**does not hold**"
    said = ", ".join(f"{package} {version}" for package, version in versions.items())
    command = record.get("command", f"python benchmarks/{name}.py")
    return "\n\n".join(
        (
            f"## {name.replace('_', ' ')}",
            f"{record['question']}.",
            _rows(record["rows"]),
            f"Bar: {record['bar']}. Measured {_cell(record['ratio'])}: {verdict}.",
            f"`{command}`, {record['date']}, {machine['cores']} cores, load {machine['load_before']} before; {said}.",
        )
    )


def _rows(rows: list[dict[str, Any]]) -> str:
    columns = list(rows[0])
    lines = [
        "| " + " | ".join(column.replace("_", " ") for column in columns) + " |",
        "|" + "---|" * len(columns),
        *("| " + " | ".join(_cell(row[column]) for column in columns) + " |" for row in rows),
    ]
    return "\n".join(lines)


def table(value: Any) -> str:
    """Plain JSON as a Markdown table of paths and values."""
    rows = "\n".join(f"| {path} | {_cell(item)} |" for path, item in _flat(value, ""))
    return f"| what | value |\n|---|---|\n{rows}\n"


def _flat(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for name, item in value.items():
            yield from _flat(item, f"{path} · {name}" if path else str(name))
    elif isinstance(value, list) and any(isinstance(item, dict | list) for item in value):
        for place, item in enumerate(value):
            yield from _flat(item, f"{path} {place + 1}")
    else:
        yield path, value


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return text.replace("|", "\\|").replace("\n", " ")
