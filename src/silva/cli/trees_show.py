"""Trees on a terminal: a walk read from top to bottom, or the whole tree with its branches.

    nodes ─▶ one panel a message, coloured by role ─▶ outcome       nodes ─▶ chains folded, branches drawn ─▶ outcomes

What environments and models wrote is shown as text: nothing in it is taken for markup or for commands to the terminal.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text
from rich.tree import Tree as Drawing

from silva.rollout.guided_nodes import BACK
from silva.tree import (
    Author,
    ImagePart,
    Message,
    Node,
    OtherPart,
    Status,
    TextPart,
    ThinkingPart,
    Trajectory,
    Tree,
    roles_of,
)
from silva.tree.actions import visible
from silva.tree.role import ROLE, SPEAKER

_COLOURS = {"system": "magenta", "user": "cyan", "assistant": "green", "tool": "yellow"}
_SHORT = 72
CUT = 4_000
"""Characters of one part of a message that are shown unless all is asked for: its beginning and its end."""


def listing(trajectories: Iterable[Trajectory]) -> Table:
    """One line for each trajectory."""
    table = Table("id", "run", "task", "try", "status", "score", "turns", "tokens", "seconds", "why", box=None)
    for each in trajectories:
        outcome = each.outcome
        tokens = each.usage.prompt_tokens + each.usage.completion_tokens
        table.add_row(
            each.id[:12],
            plain(each.run_id),
            plain(each.task_id),
            each.slot,
            _status(each),
            "" if outcome.score is None else f"{outcome.score:.2f}",
            str(each.turns),
            f"{tokens:,}" if tokens else "",
            f"{each.seconds:.1f}",
            plain(outcome.failure.code if outcome.failure else ""),
        )
    return table


def walk(trajectory: Trajectory, nodes: Sequence[Node], *, full: bool = False) -> Group:
    """The trajectory's messages, then how it ended; of what is very long its beginning and its end, unless `full`."""
    shown: list[RenderableType] = [_head(trajectory)]
    for node in nodes:
        if node.tools is not None:
            names = ", ".join(tool.name for tool in node.tools) or "none"
            shown.append(plain(f"  tools in force: {names}", "dim"))
        shown.append(_panel(node, full))
    shown.append(outcome(trajectory))
    return Group(*shown)


def tree(grown: Tree, trajectories: Sequence[Trajectory]) -> Drawing:
    """The whole tree: one line for each message, a deeper level only where it branches."""
    ended: dict[str | None, list[Trajectory]] = {}
    for trajectory in trajectories:
        ended.setdefault(trajectory.leaf_id, []).append(trajectory)
    drawing = Drawing(plain(f"tree {grown.id[:12]}: {len(grown)} nodes, {len(grown.leaves)} leaves", "bold"))
    waiting = [(drawing, root) for root in reversed(grown.roots)]
    while waiting:
        place, node = waiting.pop()
        place.add(_line(node))
        for trajectory in ended.get(node.id, ()):
            place.add(outcome(trajectory, short=True))
        children = grown.children(node.id)
        if len(children) == 1:
            waiting.append((place, children[0]))
            continue
        branches = [
            (place.add(plain(f"branch {number}: {child.slot or child.author}", "bold")), child)
            for number, child in enumerate(children, 1)
        ]
        waiting.extend(reversed(branches))
    return drawing


def outcome(trajectory: Trajectory, short: bool = False) -> Text:
    """How it ended, in one line."""
    ended = trajectory.outcome
    line = Text("⇒ ").append_text(_status(trajectory))
    if ended.score is not None:
        line.append(f"  score {ended.score:g}")
    if ended.success is not None:
        line.append("  success" if ended.success else "  no success")
    if ended.safety is not None:
        line.append(f"  safety {ended.safety:g}")
    if ended.failure is not None:
        line.append_text(plain(f"  {ended.failure.code}: {' '.join(ended.failure.message.split())}", "red"))
    if short:
        return line.append(f"  ({trajectory.id[:12]}, try {trajectory.slot})", "dim")
    for name, value in sorted(ended.metrics.items()):
        line.append_text(plain(f"  {name} {value:g}", "dim"))
    usage = trajectory.usage
    line.append(f"\n  {trajectory.turns} turns, reward {trajectory.reward:g}", "dim")
    if usage.prompt_tokens or usage.completion_tokens:
        line.append(f", tokens {usage.prompt_tokens:,} in, {usage.completion_tokens:,} out", "dim")
    waited = f"model {usage.model_seconds:.2f} s, environment {usage.env_seconds:.2f} s"
    return line.append(f", waited for {waited}, silva {usage.silva_seconds:.2f} s", "dim")


def plain(text: str, style: str = "") -> Text:
    """Text as it is: characters that could drive the terminal, turn or hide text are shown by their number."""
    return Text(visible(text), style=style)


def console() -> Console:
    """The terminal; into a pipe or a file lines are not cut to its width."""
    made = Console(highlight=False)
    return made if made.is_terminal else Console(highlight=False, width=160)


def _head(trajectory: Trajectory) -> Text:
    started = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(trajectory.started)) if trajectory.started else ""
    who = " ".join(part for part in (trajectory.agent, trajectory.model, trajectory.policy_version) if part)
    line = plain(f"{trajectory.id}\n", "bold")
    facts = f"run {trajectory.run_id}  task {trajectory.task_id}  try {trajectory.slot}  seed {trajectory.seed}"
    line.append_text(plain(f"{facts}  {who}  {started}", "dim"))
    own = trajectory.attributes.get(ROLE)
    for name, known in roles_of(trajectory).items():
        score = "" if known.get("score") is None else f", score {known['score']:g}"
        here = " (this walk)" if name == own else ""
        text = f"\n  role {name}: {known.get('model', '')}, {known.get('turns', 0)} turns{score}{here}"
        line.append_text(plain(text, "bold" if here else "dim"))
    return line


def cut(text: str, full: bool = False) -> str:
    """A text, or, where it is longer than `CUT`, its beginning and its end and between them how much was left out."""
    if full or len(text) <= CUT:
        return text
    head, tail = text[: CUT * 3 // 4], text[-CUT // 4 :]
    left = len(text) - len(head) - len(tail)
    return f"{head}\n… {left:,} of {len(text):,} characters are left out here; --full shows them …\n{tail}"


def _panel(node: Node, full: bool) -> Panel:
    role = node.message.role
    own = node.author in (Author.POLICY, Author.ENVIRONMENT)
    speaker = node.attributes.get(SPEAKER)
    title = f"{role}, words of the {speaker}" if speaker else role if own else f"{role} by {node.author}"
    return panel(node.message, title, _facts(node), full=full)


def panel(message: Message, title: str, facts: str = "", *, full: bool = False) -> Panel:
    """One message, with what it is called and what is known of it; what is very long is cut unless `full`."""
    colour = _COLOURS[message.role]
    body = Text()
    for part in message.parts:
        if isinstance(part, ThinkingPart):
            body.append_text(plain(f"{cut(part.text, full)}\n", "italic dim"))
        elif isinstance(part, TextPart):
            body.append_text(plain(f"{cut(part.text, full)}\n"))
        elif isinstance(part, OtherPart):
            body.append_text(plain(f"{part.label}\n", "blue"))
        else:
            body.append_text(plain(f"[{_image(part)}]\n", "blue"))
    for call in message.tool_calls:
        body.append_text(plain(f"→ {call.name}", "bold")).append_text(plain(f"({cut(call.arguments, full)})"))
        body.append_text(plain(f"  {call.id}\n", "dim"))
    body.rstrip()
    if message.name:
        title += f" {message.name}"
    if message.tool_call_id:
        title += f" for {message.tool_call_id}"
    return Panel(
        body,
        title=plain(title, f"bold {colour}"),
        subtitle=plain(facts, "dim") if facts else None,
        title_align="left",
        subtitle_align="right",
        border_style=colour,
        padding=(0, 1),
    )


def _facts(node: Node) -> str:
    facts: list[str] = []
    if node.reward is not None:
        facts.append(f"reward {node.reward:g}")
    facts += [f"risk {risk.kind} {risk.severity:g}" for risk in node.risks]
    if node.finish_reason not in ("", "stop", "tool_calls"):
        facts.append(node.finish_reason)
    if node.tokens is not None:
        facts.append(f"{node.tokens.sampled} tokens sampled")
    if node.usage.model_seconds:
        facts.append(f"{node.usage.model_seconds:.2f} s")
    if node.snapshot_id:
        facts.append(f"snapshot {node.snapshot_id[:12]}")
    facts.append(node.id[:8])
    return ", ".join(facts)


def _line(node: Node) -> Text:
    message = node.message
    line = plain(f"{node.id[:8]} ", "dim").append_text(plain(message.role, _COLOURS[message.role]))
    if node.author not in (Author.POLICY, Author.ENVIRONMENT):
        line.append_text(plain(f" by {node.author}", "bold"))
    line.append_text(plain(f"  {_brief(message)}"))
    return line.append(f"  reward {node.reward:g}", "bold") if node.reward is not None else line


def _brief(message: Message) -> str:
    calls = " ".join(f"→ {call.name}({call.arguments})" for call in message.tool_calls)
    pictures = " ".join(f"[{_image(part)}]" for part in message.parts if isinstance(part, ImagePart))
    said = [message.text[: 4 * CUT], calls[: 4 * CUT], pictures]  # one line of it is shown
    text = " ".join(" ".join(said).split())
    return text if len(text) <= _SHORT else f"{text[: _SHORT - 1]}…"


def _image(part: ImagePart) -> str:
    size = f" {part.width}x{part.height}" if part.width and part.height else ""
    return f"image {part.hash[:12]}{size} {part.media_type}"


def _status(trajectory: Trajectory) -> Text:
    status = trajectory.outcome.status
    colour = {Status.COMPLETED: "green", Status.TRUNCATED: "yellow", Status.FAILED: "red"}[status]
    later = " (left)" if BACK in trajectory.attributes else " (retried)"
    return Text(f"{status}{later if trajectory.superseded else ''}", style=colour)
