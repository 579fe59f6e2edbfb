"""Extraction: skills from contrasts by rules alone, without a model.

    contrasts of a task ─▶ what the better attempt did there, without what is particular to the task: its *shape*
    tasks of an environment ─▶ a word of a task that tells which shape was right (a rule of one condition, as PRISM and
      1R induce them: the word that most tasks of one shape share, and few of another) ─▶ one skill for each such word

In actions, a value that the task says becomes `(from the task)`, one that was seen before it `(seen before)`. Where one
shape was right in every task, no word is needed. Where several were and no word tells which, nobody can say when each
holds, so there is no skill.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from silva.curate.skills.contrast import Contrast, Step
from silva.rollout.skills.skill import LONGEST_BODY, LONGEST_DESCRIPTION, LONGEST_NAME, Skill
from silva.tree import digest

BY = "extraction"
PURE = 0.5
"""The least share of the tasks with a word that is of its shape: the best of a few attempts may hold a detour."""
_STEPS = 6
"""Steps of a walk that a skill tells."""
_EXAMPLES = 4
"""Tasks that a description names."""
WARNINGS = 2
"""Worse steps that a skill warns of."""
_TASK, _SEEN, _SAID = 160, 200, 200
_WORD = re.compile(r"\w+")


def extract(contrasts: Iterable[Contrast], support: int = 1, warnings: int = WARNINGS) -> list[Skill]:
    """The skills that contrasts teach, those with most evidence first.

    Args:
        contrasts: of any number of tasks.
        support: the least number of tasks that agree on a skill.
        warnings: the most worse steps that a skill warns of.
    """
    envs: defaultdict[str, dict[str, list[Contrast]]] = defaultdict(dict)
    for each in sorted(contrasts, key=lambda each: -len(each.better)):  # where they part first tells most
        envs[each.env].setdefault(each.task_id, []).append(each)
    made = [skill for tasks in envs.values() for skill in _of_env(tasks, support, warnings)]
    return sorted(made, key=lambda skill: (-skill.evidence, skill.name))


def _of_env(tasks: Mapping[str, list[Contrast]], support: int, warnings: int) -> list[Skill]:
    shapes = {task: _shape(group[0].better, group[0]) for task, group in tasks.items()}
    made: list[Skill] = []
    left = set(tasks)
    if len(set(shapes.values())) > 1:
        words = {task: frozenset(_WORD.findall(group[0].task)) for task, group in tasks.items()}
        while (rule := _rule(left, words, shapes, max(support, 2))) is not None:
            word, shape = rule
            covered = {task for task in left if word in words[task]}
            agreed = sorted(task for task in covered if shapes[task] == shape)
            made.append(_skill([tasks[task] for task in agreed], word, warnings))
            left -= covered
    if len(set(shapes.values())) == 1 and len(left) >= support:
        made.append(_skill([tasks[task] for task in sorted(left)], "", warnings))
    return made


def _rule(
    left: set[str], words: Mapping[str, frozenset[str]], shapes: Mapping[str, str], support: int
) -> tuple[str, str] | None:
    """The word that tells the shape of most of the tasks that are left, and that shape. How well it tells is counted
    over all tasks; a word that all of them say tells nothing."""
    holders: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for task, said_in in words.items():
        for word in said_in:
            holders[word][shapes[task]] += 1
    best: tuple[int, float, str, str] | None = None
    for word, counts in sorted(holders.items()):
        if counts.total() == len(words):
            continue
        (shape, agreed), *_ = sorted(counts.items(), key=lambda each: (-each[1], each[0]))
        pure = agreed / counts.total()
        covers = sum(word in words[task] and shapes[task] == shape for task in left)
        if covers and agreed >= support and pure >= PURE and (best is None or (covers, pure) > best[:2]):
            best = (covers, pure, word, shape)
    return None if best is None else (best[2], best[3])


def _skill(tasks: Sequence[list[Contrast]], word: str, warnings: int) -> Skill:
    group = [each for of_task in tasks for each in of_task]
    first = min((of_task[0] for of_task in tasks), key=lambda each: (len(each.better), each.task_id))
    asked = [of_task[0].task for of_task in tasks]
    unsafe = any(each.kind == "avoid" for each in group)
    common = _common(asked)
    condition = f"The task says “{word}”, like" if word else "The task is like"
    lines = ["## When", "", f"{condition}: {common}"]
    if first.seen.strip():
        lines += ["", f"You have just been told something like: {_short(first.seen, _SEEN)}"]
    lines += ["", "## Do", ""]
    lines += [f"{n}. {said(step, first)}" for n, step in enumerate(first.better[:_STEPS], 1)]
    if len(first.better) > _STEPS:
        lines.append(f"{_STEPS + 1}. Go on in this way; it took {len(first.better)} steps from here.")
    warned = _warnings(group)[:warnings]
    if warned:
        lines += ["", "## Avoid", "", *warned]
    sources = dict.fromkeys(name for each in group[: 2 * _EXAMPLES] for name in (each.better_id, each.worse_id))
    return Skill(
        name=_name(first.env, word, common),
        description=f"Helps with tasks of {first.env} such as: {common}"[:LONGEST_DESCRIPTION],
        body="\n".join(lines)[:LONGEST_BODY],
        kind="avoid" if unsafe else "do",
        envs=(first.env,),
        says=word,
        by=BY,
        sources=tuple(sources),
        tasks=tuple(dict.fromkeys(each.task_id for each in group)),
        evidence=len(tasks),
    )


def _warnings(group: Sequence[Contrast]) -> list[str]:
    """What the worse attempts did where they parted, the most frequent first."""
    counts: Counter[tuple[bool, str, str]] = Counter()
    for each in group:
        if each.worse:
            answer = _short(each.worse[0].answer, _SAID)
            counts[each.kind == "avoid", said(each.worse[0], each), answer] += 1
    ranked = sorted(counts.items(), key=lambda each: (not each[0][0], -each[1], each[0][1]))
    told: dict[str, str] = {}
    for (unsafe, step, answer), _ in ranked:
        ended = "unsafe" if unsafe else "worse"
        told.setdefault(
            step, f"- {step} Attempts that did ended {ended}.{f' They were told: {answer}' if answer else ''}"
        )
    return list(told.values())


def _common(texts: Sequence[str]) -> str:
    """What tasks have in common, the rest left out as `…`; of tasks that have little in common, some of them."""
    tokens = [re.findall(r"\w+|[^\w\s]", text[:2000]) for text in texts]
    shared = frozenset.intersection(*map(frozenset, tokens))
    words = [token for token in tokens[0] if _WORD.fullmatch(token)]
    if len(texts) == 1 or 3 * sum(word in shared for word in words) < len(words):
        return " | ".join(dict.fromkeys(_short(text, _TASK) for text in texts[:_EXAMPLES]))
    found = re.sub(r"\w+", lambda match: match[0] if match[0] in shared else "…", texts[0][:2000])
    return _short(re.sub(r"…(\W*…)+", "…", found), 2 * _TASK)


def said(step: Step, contrast: Contrast) -> str:
    """What a step did, in a line, without what is particular to its task."""
    message = step.action.message
    calls = [f"call `{call.name}`{_arguments(call.arguments, contrast)}" for call in message.tool_calls]
    if calls:
        return f"{', then '.join(calls)[:1].upper()}{', then '.join(calls)[1:]}."
    return f"Say: {_short(_general(message.text, contrast), _SAID)}"


def _arguments(text: str, contrast: Contrast) -> str:
    try:
        values: Any = json.loads(text)
    except ValueError:
        return f" with `{_short(text, 80)}`"
    if not isinstance(values, dict) or not values:
        return ""
    told = (f"{key} {_value(value, contrast)}" for key, value in values.items())  # pyright: ignore[reportUnknownVariableType]
    return f" with {', '.join(told)}"


def _value(value: Any, contrast: Contrast) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if len(text) >= 2 and text.lower() in contrast.task.lower():
        return "(from the task)"
    if len(text) >= 3 and text in contrast.seen:
        return "(seen before)"
    return f"`{_short(text, 80)}`"


def _general(text: str, contrast: Contrast) -> str:
    """A text in which the task's own numbers and quoted names are taken out."""
    particular = {word for word in re.findall(r"\d[\d.,]*|\"[^\"]+\"", contrast.task)}
    return re.sub(r"\d[\d.,]*|\"[^\"]+\"", lambda m: "(from the task)" if m[0] in particular else m[0], text)


def _shape(steps: Sequence[Step], contrast: Contrast) -> str:
    """What steps have in common with others of their kind: their tools and what fills their arguments."""
    return "\n".join(said(step, contrast) for step in steps[:_STEPS])


def _name(env: str, word: str, common: str) -> str:
    """A name that says the environment and the word, and that stays when more is learnt about the same tasks."""
    words = re.findall(r"[a-z0-9]+", f"{env} {word or 'tasks'}".lower())
    mark = digest("skill", env, word or common)[:6]
    return f"{'-'.join(words)[: LONGEST_NAME - 8].rstrip('-')}-{mark}"


def _short(text: str, most: int) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= most else f"{flat[: most - 1]}…"
