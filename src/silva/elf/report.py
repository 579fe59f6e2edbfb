"""The report of a job: what was asked, done, and came of it. Markdown, and one HTML page that opens offline.

Words of an artefact are from strangers: Markdown escapes them (`artefact.grid`), the page is made of that Markdown
with HTML switched off, holds no script and forbids all.
"""

from __future__ import annotations

from html import escape
from pathlib import Path

from markdown_it import MarkdownIt

from silva import __version__
from silva.elf.plan import drawn
from silva.elf.running.job import Job
from silva.elf.running.ledger import Event, Ledger
from silva.elf.running.runner import Done, Runner
from silva.lake.durable import refusals, write_whole
from silva.report.wording import dollars, number, seconds
from silva.report.write import save

_PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<style>body{{font:16px/1.5 system-ui,sans-serif;max-width:62rem;margin:2rem auto;padding:0 1rem;color:#1b1f1d}}
table{{border-collapse:collapse;margin:1rem 0;display:block;overflow-x:auto}}
td,th{{border:1px solid #ccd3cf;padding:.25rem .6rem;text-align:left;vertical-align:top}}
th{{background:#eef3f0}}code,pre{{background:#f4f6f5;padding:.1rem .3rem;overflow-x:auto}}
pre{{padding:.8rem}}
@media(prefers-color-scheme:dark){{body{{background:#161a18;color:#e4e9e6}}th,code,pre{{background:#222826}}td,th{{border-color:#3a433f}}}}</style>
<main>{body}</main></html>
"""


def written(job: Job, done: Done, runner: Runner) -> tuple[Path, Path]:
    """Write the report of a job that is done; its two files.

    Raises:
        StoreError: a result cannot be read, or the disk refuses.
    """
    text = markdown(job, done, runner)
    path, page = job.folder / "report.md", job.folder / "report.html"
    with refusals(f"report {path}"):
        write_whole(path, text.encode())
    save(html(text, job.plan.intent or job.id), page)
    return path, page


def markdown(job: Job, done: Done, runner: Runner) -> str:
    """The report of a job as Markdown."""
    events = Ledger(job.folder).ended()
    lines = [f"# {_plain(job.plan.intent) or 'A plan without an intent'}", ""]
    lines += [f"Job `{job.id}`, planned by {job.plan.planner or 'hand'}; took {seconds(done.seconds)}", ""]
    if done.tokens or done.usd:
        lines += [f"Models: {number(done.tokens)} tokens, {dollars(done.usd)}.", ""]
    lines += [f"- {_plain(note)}" for note in job.plan.notes]
    for name, result in done.results.items():
        artefact = runner.artefact(result)
        step = job.plan.step(name)
        lines += ["", f"## {step.tool}", "", artefact.shown() or f"{len(artefact)} {artefact.noun}.", ""]
        lines += [f"- {_plain(note)}" for note in artefact.notes]
    lines += ["", "## What was done", "", "| step | tool | gave | took | |", "|---|---|---|---|---|"]
    lines += [_row(step.id, step.tool, events[step.id]) for step in job.plan.steps]
    lines += [
        "",
        "## The plan",
        "",
        "```",
        drawn(job.plan).replace("```", "'''"),
        "```",
        "",
        f"Silva {__version__}",
        "",
    ]
    return "\n".join(lines)


def html(text: str, title: str) -> str:
    """Markdown as one page; HTML in it stays text."""
    body = MarkdownIt("commonmark", {"html": False}).enable("table").render(text)
    return _PAGE.format(title=escape(title), body=body)


def _row(name: str, tool: str, event: Event) -> str:
    took = "kept from before" if event.kept else seconds(event.seconds)
    return f"| {name} | {tool} | {event.count} {event.kind} | {took} | {_plain(event.why)} |"


def _plain(text: str) -> str:
    return "".join(f"\\{each}" if each in "|\\`*_<[]#" else each for each in " ".join(text.split()))
