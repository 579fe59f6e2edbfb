"""Operations on walks that a curation may call. It stands beside the curation in the sandbox and knows no Silva.

    from operators import *

    def curate(raw):
        walks = known_successes(raw)
        walks = without_repeats(walks)
        return output(sft=imitate(walks), rl=practise(walks), memory=remember(walks))

A walk is a dict: `id`, `task`, `env`, `words` (what was asked), `success` (True, False, None: nobody said), `ended`,
`turns`: each with `n`, `says`, `calls` ([name, arguments]), `saw`, `faults` (rules that found fault with it). A walk
that was changed keeps its turns' numbers; a turn with `loss: False` stays as context. All are general: none knows an
environment, a task or an answer. Everything is deterministic; ties are broken by what stands first in the corpus.
"""

import json
import re

QUOTED = re.compile(r'"([^"\n]{1,80})"|`([^`\n]{1,80})`')


def actions(walk):
    """What was done in a walk, as one text."""
    return json.dumps([[turn["says"], turn["calls"]] for turn in walk["turns"]], sort_keys=True)


def names(text):
    """What a text puts in quotation marks, in order, each once."""
    return list(dict.fromkeys(one or other for one, other in QUOTED.findall(text)))


def tools(walk):
    """The tools that a walk calls, in order, each once."""
    return tuple(dict.fromkeys(call[0] for turn in walk["turns"] for call in turn["calls"]))


# Filters: fewer walks


def known_successes(walks):
    """Walks that somebody said were successes."""
    return [walk for walk in walks if walk["success"] is True]


def without_failures(walks):
    """Walks that nobody said were failures."""
    return [walk for walk in walks if walk["success"] is not False]


def that_ended(walks):
    """Walks that came to their own end, not to a limit."""
    return [walk for walk in walks if walk["ended"]]


def without_repeats(walks):
    """One of several walks that ask and do the same."""
    seen = set()
    kept = []
    for walk in walks:
        key = (walk["words"], actions(walk))
        if key not in seen:
            seen.add(key)
            kept.append(walk)
    return kept


def grounded(walks):
    """Walks that are not about something else: one that is filed under another task than the one it carried out lacks a
    name that its task puts in quotation marks, and names what other tasks do, in a call or in what was seen. A walk
    that came upon nobody's name, since there was nothing to be done, is kept."""
    known = {name for walk in walks for name in names(walk["words"])}
    kept = []
    for walk in walks:
        said = "\n".join(turn["saw"] + json.dumps(turn["calls"], ensure_ascii=False) for turn in walk["turns"])
        mine = names(walk["words"])
        if all(name in said for name in mine) or not any(name in said for name in known.difference(mine)):
            kept.append(walk)
    return kept


def at_most_turns(walks, most=12):
    """Walks of no more turns than `most`."""
    return [walk for walk in walks if len(walk["turns"]) <= most]


def best_of_task(walks, most=1):
    """Of each task the `most` walks that need the fewest turns."""
    by_task = {}
    for place, walk in enumerate(walks):
        by_task.setdefault(walk["task"], []).append((len(walk["turns"]), place))
    chosen = {place for several in by_task.values() for _, place in sorted(several)[:most]}
    return [walk for place, walk in enumerate(walks) if place in chosen]


def at_most_walks(walks, most=200):
    """At most so many walks, the kinds of walks (by the tools they call) in turn, the shortest of each first."""
    kinds = {}
    for place, walk in enumerate(walks):
        kinds.setdefault(tools(walk), []).append((len(walk["turns"]), place))
    queues = [sorted(several) for _, several in sorted(kinds.items())]
    chosen = []
    while len(chosen) < most and any(queues):
        for queue in queues:
            if queue and len(chosen) < most:
                chosen.append(queue.pop(0)[1])
    return [walks[place] for place in sorted(chosen)]


# Refinement: the same walks, with clearer turns


def changed(walk, turns):
    """A walk with other turns."""
    return {**walk, "turns": turns}


def without_loops(walks):
    """Walks without what led back to where they were: turns between two equal observations are left out."""
    made = []
    for walk in walks:
        kept = []
        for turn in walk["turns"]:
            again = next((at for at, each in enumerate(kept) if each["saw"] and each["saw"] == turn["saw"]), None)
            if again is not None:
                kept = kept[: again + 1]
            else:
                kept.append(turn)
        made.append(changed(walk, kept))
    return [walk for walk in made if walk["turns"]]


def without_errors(walks):
    """Walks without the turns that were answered by an error."""
    made = [
        changed(walk, [turn for turn in walk["turns"] if "error-observation" not in turn["faults"]]) for walk in walks
    ]
    return [walk for walk in made if walk["turns"]]


def no_loss_on_faults(walks):
    """Turns that a rule found fault with stay as context and are not imitated."""
    return [
        changed(walk, [{**turn, "loss": turn.get("loss", True) and not turn["faults"]} for turn in walk["turns"]])
        for walk in walks
    ]


def first_turns(walks, most=12):
    """The first `most` turns of each walk."""
    return [changed(walk, walk["turns"][:most]) for walk in walks]


def cut_after_last_new(walks):
    """Walks up to the last turn that showed something new, and the turn that ends them."""
    made = []
    for walk in walks:
        seen = set()
        last = 0
        for at, turn in enumerate(walk["turns"]):
            if turn["saw"] not in seen:
                seen.add(turn["saw"])
                last = at
        kept = [turn for at, turn in enumerate(walk["turns"]) if at <= last or at == len(walk["turns"]) - 1]
        made.append(changed(walk, kept))
    return made


# Augmentation: more of what is there


def in_hindsight(walks):
    """Besides the walks, those that failed, each up to where it brought something else about, asked for that: an
    environment that can tell lists what was brought about in `achieved` ([words, turn])."""
    made = list(walks)
    for walk in walks:
        if walk["success"] is not True:
            for words, number in walk.get("achieved", [])[:1]:
                turns = [turn for turn in walk["turns"] if turn["n"] <= number]
                made.append({**walk, "words": words, "success": True, "turns": turns})
    return made


def more_of_rare(walks, most=4):
    """Each kind of walk (by the tools it calls) as often as the commonest kind, at most `most` times."""
    counts = {}
    for walk in walks:
        counts[tools(walk)] = counts.get(tools(walk), 0) + 1
    top = max(counts.values(), default=0)
    made = []
    for walk in walks:
        made.extend([walk] * max(1, min(most, top // counts[tools(walk)])))
    return made


def more_of_long(walks, times=2):
    """Walks of more turns than the middle one, `times` times."""
    middle = sorted(len(walk["turns"]) for walk in walks)[len(walks) // 2] if walks else 0
    return [each for walk in walks for each in [walk] * (times if len(walk["turns"]) > middle else 1)]


# What becomes of walks


def imitate(walks):
    """Rows for supervised training: the turns of each walk, those without `loss: False` imitated."""
    rows = []
    for walk in walks:
        loss = [turn["n"] for turn in walk["turns"] if turn.get("loss", True)]
        if loss:
            row = {"walk": walk["id"], "turns": [turn["n"] for turn in walk["turns"]], "loss": loss}
            rows.append({**row, "words": walk["words"]})
    return rows


def practise(walks, most=32):
    """Tasks to practise by reinforcement: first those that were both failed and solved, then the shortest solved
    ones."""
    by_task = {}
    for walk in walks:
        by_task.setdefault(walk["task"], []).append(walk)
    ranked = sorted(
        (len({walk["success"] for walk in several}) < 2, min(len(walk["turns"]) for walk in several), place, task)
        for place, (task, several) in enumerate(by_task.items())
    )
    chosen = [task for *_, task in ranked[:most]]
    shortest = {task: min(by_task[task], key=lambda walk: len(walk["turns"])) for task in chosen}
    return [{"task": task, "walk": shortest[task]["id"]} for task in chosen]


def remember(walks, most=64, least=2):
    """Texts to be given to tasks that are alike: for each name that tasks put in quotation marks, the calls that most
    of its solved walks share and that solved walks of other names do not."""
    solved = [walk for walk in walks if walk["success"] is True]
    done = {
        walk["id"]: {
            json.dumps(call, sort_keys=True) for turn in walk["turns"] if not turn["faults"] for call in turn["calls"]
        }
        for walk in solved
    }
    by_name = {}
    for walk in solved:
        for name in names(walk["words"]):
            by_name.setdefault(name, []).append(walk)
    made = []
    for name in sorted(by_name):
        mine = by_name[name]
        others = [walk for walk in solved if name not in names(walk["words"])]
        if len(mine) < least or not others:
            continue
        shares = []
        for each in sorted(set().union(*(done[walk["id"]] for walk in mine))):
            here = sum(each in done[walk["id"]] for walk in mine) / len(mine)
            there = sum(each in done[walk["id"]] for walk in others) / len(others)
            shares.append((here - there, here, each))
        told = [json.loads(each) for gap, here, each in sorted(shares, reverse=True)[:1] if gap > 0.3 and here > 0.6]
        if told:
            calls = "; ".join(call[0] + " " + json.dumps(call[1], sort_keys=True) for call in told)
            made.append(
                {
                    "when": 'Tasks about "' + name + '"',
                    "text": 'With "' + name + '" this has led to success: ' + calls,
                    "says": name if re.fullmatch(r"\w+", name) else "",
                    "walks": [walk["id"] for walk in mine],
                }
            )
    return made[:most]


def output(sft=(), rl=(), memory=()):
    """What a curation returns."""
    return {"sft": list(sft), "rl": list(rl), "memory": list(memory)}
