"""The command line every experiment has, and its seeds, each in a process of its own.

    python benchmarks/learning/sft.py --env babyai --policy local --seeds 0 1 2

A seed works in `FOLDER/NAME-ENV-POLICY-SEED` and leaves `rows.json` there; one that is there is not run again, one that was
cut off goes on, as long as its recipe (`recipe.txt` there) is the same. Two run
side by side on one core each with `--parallel 2`. Every seed's rows (each held-out task, before and after) are kept in
`benchmarks/results/learning/seeds`; `--kept` takes them from there instead of running those seeds, so that seeds may be
run on several machines or days. `--recipe opd_counts=[700]` changes values of the recipe; such a run has results of its own,
under the name that `--named` gives it.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
from recipes import RECIPES, changed
from settings import SETTINGS, Setting
from student import Student, tiny
from table import RESULTS, Row, hand_in, together

from silva.train.config import BUNDLED

if TYPE_CHECKING:
    from experiment import Experiment

Run: TypeAlias = Callable[["Seed"], list[Row]]

PREPARED = "prepared"
"""Where a seed's number stands otherwise: what is made once for all seeds."""
PREPARED_BY = 11
"""Its seed."""


class Seed:
    """What a seed's run is given: an experiment, the student it begins with, the policy's name, and where lies what was
    prepared for all seeds."""

    def __init__(self, folder: Path, env: str, policy: str, seed: int, threads: int | None, prepared: Path) -> None:
        from experiment import Experiment

        self.setting: Setting = SETTINGS[env]
        self.env, self.policy, self.number, self.prepared = env, policy, seed, prepared
        self.experiment = Experiment(folder, self.setting, seed, threads)
        self.cores = threads or 1
        self.tiny = policy == "tiny"

    def of_one_thread(self) -> Experiment:
        """Its experiment, computed in one thread: cores are for arms side by side, and a seed of a tiny policy comes to the
        same on however many."""
        one = copy(self.experiment)
        one.threads = 1
        return one

    @cached_property
    def student(self) -> Student:
        """The policy it begins with."""
        if self.tiny:
            return tiny(self.experiment.folder, self.experiment.heard(), self.number)
        return Student(name="base", base=BUNDLED)

    @cached_property
    def begun(self) -> Student:
        """The policy after SFT on some of the expert's episodes, from which GRPO and DPO go on."""
        recipe = RECIPES[self.policy, self.env]
        samples = self.experiment.expert("expert", recipe.begin_tasks, self.student)
        return self.experiment.fit("sft", self.student, samples, {"name": "sft"}, **recipe.begin)


def main(
    name: str,
    doc: str | None,
    run: Run,
    more: Callable[[list[Row]], dict[str, Any]] = lambda rows: {},
    prepare: Run | None = None,
) -> int:
    """Run the seeds asked for, print the table, write the JSON.

    Args:
        name: of the experiment and its results file.
        doc: what `--help` says.
        run: one seed.
        more: what is said of all rows besides the comparisons. Its `holds`, where it has one, is whether the claim
            holds; else all gains must be above 0.
        prepare: what all seeds need, made once in a folder of its own with the seed `PREPARED_BY`; its rows are not used.
    """
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env", choices=sorted(SETTINGS), default="babyai")
    parser.add_argument("--policy", choices=("local", "tiny"), default="local", help="local: the bundled model")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--parallel", type=int, default=1, help="seeds at once, each on its share of the cores")
    parser.add_argument("--folder", type=Path, default=None, help="work here and leave it there; goes on from it")
    parser.add_argument("--no-keep", action="store_true", help="print only; write nothing into benchmarks/results")
    parser.add_argument(
        "--kept", action="store_true", help="run only the seeds whose rows are not in results/learning/seeds"
    )
    parser.add_argument("--recipe", nargs="+", default=[], metavar="NAME=JSON", help="other values of the recipe")
    parser.add_argument("--named", default=name, help=f"what its results are called (default: {name})")
    parser.add_argument("--one", default=None, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if (given.policy, given.env) not in RECIPES:
        known = ", ".join(f"--env {env} --policy {policy}" for policy, env in RECIPES)
        parser.error(f"no recipe for --env {given.env} --policy {given.policy}; there are {known}")
    if given.recipe and given.named == name and not given.no_keep:
        parser.error("another recipe has other results: name them with --named, or keep none with --no-keep")
    name = given.named
    try:
        RECIPES[given.policy, given.env] = changed(RECIPES[given.policy, given.env], given.recipe)
    except (ValueError, msgspec.ValidationError) as error:
        parser.error(f"--recipe {error}")
    root: Path = given.folder or Path(tempfile.mkdtemp(prefix="silva-learning-"))
    if given.one is not None:
        prepared = _place(root, name, given, PREPARED)
        if given.one == PREPARED and prepare is not None:
            return _one(prepare, prepared, given, PREPARED_BY, prepared)
        return _one(run, _place(root, name, given, given.one), given, int(given.one), prepared)
    if given.kept:
        for seed in given.seeds:
            _bring(_kept(name, given, seed), _place(root, name, given, seed) / "rows.json")
    if prepare is not None and _left(name, root, given, given.seeds):
        _all(name, root, given, [PREPARED])
    _all(name, root, given, given.seeds)
    rows = [
        Row(**row)
        for seed in given.seeds
        for row in json.loads((_place(root, name, given, seed) / "rows.json").read_text())
    ]
    pairs = list(dict.fromkeys((row.left, row.right) for row in rows))
    comparisons = [together([row for row in rows if (row.left, row.right) == pair]) for pair in pairs]
    if not given.no_keep:
        for seed in given.seeds:
            _bring(_place(root, name, given, seed) / "rows.json", _kept(name, given, seed))
    command = f"{Path(sys.argv[0]).name} --env {given.env} --policy {given.policy}"
    command += f" --seeds {' '.join(map(str, given.seeds))}"
    command += f" --named {name} --recipe {shlex.join(given.recipe)}" if given.recipe else ""
    body = {"command": command, "comparisons": comparisons, **more(rows)}
    hand_in(name, given.env, given.policy, body, keep=not given.no_keep)
    if given.folder is None:
        shutil.rmtree(root, ignore_errors=True)
    return 0 if body.get("holds", all(each["low"] > 0 for each in comparisons)) else 1


def _place(root: Path, name: str, given: Any, seed: int | str) -> Path:
    return root / f"{name}-{given.env.replace('/', '-')}-{given.policy}-{seed}"


def _kept(name: str, given: Any, seed: int) -> Path:
    return RESULTS / "seeds" / f"{_place(Path(), name, given, seed).name}.json"


def _bring(source: Path, target: Path) -> None:
    if source.is_file():
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)


def _one(run: Run, folder: Path, given: Any, number: int, prepared: Path) -> int:
    mark = folder / "recipe.txt"
    recipe = repr(RECIPES[given.policy, given.env])
    if not mark.is_file() or mark.read_text(encoding="utf-8") != recipe:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        mark.write_text(recipe, encoding="utf-8")
    threads = max(1, (os.cpu_count() or 1) // given.parallel)
    rows = run(Seed(folder, given.env, given.policy, number, threads, prepared))
    (folder / "rows.json").write_text(json.dumps([asdict(row) for row in rows]), encoding="utf-8")
    return 0


def _left(name: str, root: Path, given: Any, seeds: Sequence[int | str]) -> list[int | str]:
    return [seed for seed in seeds if not (_place(root, name, given, seed) / "rows.json").is_file()]


def _all(name: str, root: Path, given: Any, seeds: Sequence[int | str]) -> None:
    left = _left(name, root, given, seeds)
    root.mkdir(parents=True, exist_ok=True)
    under_way: list[tuple[int | str, subprocess.Popen[bytes]]] = []
    environment = os.environ | {"OMP_NUM_THREADS": str(max(1, (os.cpu_count() or 1) // given.parallel))}
    while left or under_way:
        while left and len(under_way) < given.parallel:
            seed = left.pop(0)
            command = [sys.executable, sys.argv[0], "--env", given.env, "--policy", given.policy]
            command += ["--folder", str(root), "--one", str(seed), "--parallel", str(given.parallel), "--named", name]
            command += ["--recipe", *given.recipe] if given.recipe else []
            command += ["--no-keep"] if given.no_keep else []
            with _place(root, name, given, seed).with_suffix(".log").open("wb") as log:
                under_way.append((seed, subprocess.Popen(command, stdout=log, stderr=log, env=environment)))
        time.sleep(0.5)
        for each in list(under_way):
            seed, process = each
            if process.poll() is None:
                continue
            under_way.remove(each)
            print(f"{name} {given.env} {given.policy} seed {seed}: ended with {process.returncode}", flush=True)
            if process.returncode:
                for _, other in under_way:
                    other.terminate()
                log = _place(root, name, given, seed).with_suffix(".log")
                raise SystemExit(f"seed {seed}: {log.read_text(errors='replace')[-3000:]}")
