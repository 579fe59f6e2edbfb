"""What scores cost, whether they are found again, and whether choosing by them helps a training run.

the standard library's docstrings ─▶ pairs (what does X do? its first paragraph) ─▶ faults put in ─▶ `silva data score|select`
    ─▶ `silva train run`: a small policy from nothing, as many steps on what was chosen as on what was drawn ─▶ held-out nats

    python benchmarks/value.py              # all; about ten minutes on a machine that does nothing else
    python benchmarks/value.py --seeds 10

Two fifths of a pool are made worse on purpose (an answer of another question, one that is broken off, a copy), as pools from the web
are. What choosing gains is printed whatever it is: the bars are about cost and keeping alone.
"""

from __future__ import annotations

import importlib
import inspect
import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from report import Measurement, arguments, hand_in, load

MODULES = [
    "argparse",
    "ast",
    "asyncio",
    "base64",
    "bisect",
    "calendar",
    "collections",
    "concurrent.futures",
    "configparser",
    "contextlib",
    "copy",
    "csv",
    "datetime",
    "decimal",
    "difflib",
    "email.message",
    "enum",
    "fileinput",
    "fnmatch",
    "fractions",
    "functools",
    "getpass",
    "glob",
    "gzip",
    "hashlib",
    "heapq",
    "hmac",
    "html",
    "http.client",
    "http.cookies",
    "imaplib",
    "inspect",
    "io",
    "ipaddress",
    "itertools",
    "json",
    "logging",
    "lzma",
    "mailbox",
    "math",
    "mimetypes",
    "multiprocessing.pool",
    "netrc",
    "operator",
    "os",
    "os.path",
    "pathlib",
    "pickle",
    "platform",
    "pprint",
    "queue",
    "random",
    "re",
    "sched",
    "secrets",
    "selectors",
    "shelve",
    "shlex",
    "shutil",
    "signal",
    "smtplib",
    "socket",
    "sqlite3",
    "ssl",
    "statistics",
    "string",
    "struct",
    "subprocess",
    "tarfile",
    "tempfile",
    "textwrap",
    "threading",
    "time",
    "timeit",
    "tokenize",
    "traceback",
    "types",
    "typing",
    "unicodedata",
    "unittest",
    "urllib.parse",
    "urllib.request",
    "uuid",
    "wave",
    "weakref",
    "xml.dom.minidom",
    "xml.etree.ElementTree",
    "zipfile",
    "zlib",
]
LONGEST = 24
"""Words of an answer."""
POOL, HELD_OUT, KEPT = 120, 40, 40
BATCH, EPOCHS = 8, 20


def pairs() -> list[dict[str, str]]:
    """What the standard library says of its own functions and classes, each once, in a fixed order."""
    found: dict[str, str] = {}
    for name in MODULES:
        module = importlib.import_module(name)
        for word in sorted(vars(module)):
            value = getattr(module, word)
            if word.startswith("_") or not (inspect.isroutine(value) or inspect.isclass(value)):
                continue
            if getattr(value, "__module__", name) not in (name, f"_{name}", None):
                continue
            text = " ".join((inspect.getdoc(value) or "").split("\n\n")[0].split()[:LONGEST])
            if len(text.split()) >= 4 and text not in found.values():
                found[f"{name}.{word}"] = text
    kinds = {True: "What is {} for?", False: "What does {} do?"}
    rows = [
        {"question": kinds[each.rpartition(".")[2][:1].isupper()].format(each), "answer": text}
        for each, text in found.items()
    ]
    random.Random(0).shuffle(rows)
    return rows


def pool(rows: list[dict[str, str]], seed: int, size: int) -> list[dict[str, str]]:
    """A pool of which two fifths are made worse; `fault` is for the table alone."""
    draw = random.Random(seed)
    made = [{**each, "fault": ""} for each in draw.sample(rows, size)]
    worse = draw.sample(range(size), size * 2 // 5)
    for number, at in enumerate(worse):
        kind = ("other", "cut", "copy")[number % 3]
        other = made[draw.randrange(size)]
        words = made[at]["answer"].split()
        answer = {"other": other["answer"], "cut": " ".join(words[: max(2, len(words) // 3)]), "copy": other["answer"]}[
            kind
        ]
        question = other["question"] if kind == "copy" else made[at]["question"]
        made[at] = {"question": question, "answer": answer, "fault": kind}
    return made


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    """Rows as a file."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def silva(*words: str) -> tuple[dict[str, Any], float]:
    """What a command says, and the seconds it took."""
    began = time.perf_counter()
    made = subprocess.run(
        [sys.executable, "-m", "silva", *words, "--json"], capture_output=True, text=True, check=False
    )
    if made.returncode:
        raise SystemExit(f"silva {' '.join(words[:3])}: {made.stderr[-600:]}")
    return json.loads(made.stdout), time.perf_counter() - began


def samples(path: Path, rows: list[dict[str, Any]], tokenizer: Any) -> Path:
    """Rows as a file of samples of a tiny policy: loss on the answer and its end."""
    from silva.train.sample import Sample
    from silva.train.sample_file import write_samples

    end = tokenizer.token_to_id("<|end|>")
    made: list[Sample] = []
    for number, row in enumerate(rows):
        prompt = tokenizer.encode(f"{row['question']}\n", add_special_tokens=False).ids
        answer = [*tokenizer.encode(row["answer"], add_special_tokens=False).ids, end]
        ids = np.array([*prompt, *answer], np.int32)
        drawn = np.arange(len(ids)) >= len(prompt)
        zeros = np.zeros(len(ids), np.float32)
        made.append(
            Sample(
                ids=ids, mask=drawn, drawn=drawn, logprobs=zeros, advantages=zeros, weights=np.ones(len(ids), np.float32),
                task_id=f"{path.stem}-{number}", trajectory_id=f"{path.stem}-{number}", reward=1.0,
            )
        )  # fmt: skip
    write_samples(path, made, force=True)
    return path


def trained(folder: Path, train: Path, held_out: Path, tokenizer: Path, steps: int, seed: int) -> float:
    """Mean nats of a held-out token after so many steps from nothing."""
    config = {
        "output": str(folder),
        "policy": {"scratch": {"tokenizer": str(tokenizer), "width": 96, "layers": 3, "heads": 4, "inner": 256, "context": 256}, "method": "full"},
        "data": {"files": [str(train)], "held_out": [str(held_out)]},
        "optimiser": {"learning_rate": 3e-3, "schedule": "cosine", "warmup": 5},
        "steps": steps, "batch": BATCH, "seed": seed, "held_out_every": steps, "threads": 1,
        "checkpoints": {"every": steps, "weights": False},
    }  # fmt: skip
    from silva.train.config import TrainConfig
    from silva.train.launch import train as run

    ended = run(TrainConfig.model_validate(config))
    if ended.status != "finished":
        raise SystemExit(f"training ended: {ended.reason}")
    points = [json.loads(line) for line in (folder / "curves.jsonl").read_text().splitlines()]
    found = [value for point in points for key, value in _flat(point).items() if "held_out" in key and "loss" in key]
    return float(found[-1])


def _flat(point: dict[str, Any], before: str = "") -> dict[str, float]:
    made: dict[str, float] = {}
    for key, value in point.items():
        if isinstance(value, dict):
            made |= _flat(value, f"{before}{key}.")
        elif isinstance(value, int | float):
            made[f"{before}{key}"] = float(value)
    return made


def interval(values: list[float]) -> tuple[float, float, float]:
    """The mean and its 95 % interval over seeds (Student's t)."""
    from math import sqrt
    from statistics import fmean, stdev

    t = {2: 12.7, 3: 4.30, 4: 3.18, 5: 2.78, 6: 2.57, 7: 2.45, 8: 2.36, 9: 2.31, 10: 2.26}.get(len(values), 2.1)
    mean = fmean(values)
    half = t * stdev(values) / sqrt(len(values)) if len(values) > 1 else float("inf")
    return mean, mean - half, mean + half


def main() -> int:
    """Measure, print, write."""
    parser = arguments(__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    given = parser.parse_args()
    before, seeds = load(), 2 if given.quick else given.seeds
    size, kept, held = (30, 10, 10) if given.quick else (POOL, KEPT, HELD_OUT)
    rows = pairs()[: 60 if given.quick else 200]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        facts = costs(folder, rows[: 8 if given.quick else 32])
        arms = learn(folder, rows, seeds, size, kept, held)
    gains = {
        name: interval([each[name] - each["chosen"] for each in arms]) for name in ("drawn", "all, equal steps", "all")
    }
    table: list[dict[str, Any]] = [
        {
            "what": "IFD with the bundled model, samples a CPU-second",
            "value": facts["speed"],
            "low": None,
            "high": None,
        },
        {"what": "scoring again / the first time", "value": facts["again"], "low": None, "high": None},
        {
            "what": "the whole command again / the first time",
            "value": facts["command again"],
            "low": None,
            "high": None,
        },
        *(
            {"what": f"held-out nats saved by fused_local against {name}", "value": mean, "low": low, "high": high}
            for name, (mean, low, high) in gains.items()
        ),
    ]
    return hand_in(
        Measurement(
            name="value",
            question="What do scores cost, are they found again, and does choosing by them help?",
            bar="2 samples a CPU-second, 0.01 of the first time",
            ratio=facts["speed"],
            holds=facts["speed"] >= 2 and facts["again"] <= 0.01,
            rows=table,
            details={"costs": facts, "arms": arms, "pool": size, "kept": kept, "seeds": seeds},
            quick=given.quick,
        ),
        before,
    )


def costs(folder: Path, rows: list[dict[str, str]]) -> dict[str, float]:
    """What IFD costs, the first time and again."""
    from silva.curate.rows import read
    from silva.curate.value.sample import Samples
    from silva.curate.value.scoring import resolve, score

    file = write(folder / "cost.jsonl", rows)
    words = ("data", "score", str(file), "--scorer", "ifd", f"cache={folder / 'kept'}")
    first, took = silva(*words)
    second, again = silva(*words)
    scorers = resolve(["ifd"], {})
    score(Samples.of_rows(list(read(str(file)))[:2]), scorers, None)  # weights loaded
    began = time.process_time()
    made = score(Samples.of_rows(read(str(file))), scorers, None)["ifd"]
    return {
        "samples": made.asked,
        "speed": made.asked / (time.process_time() - began),
        "first seconds": first["scorers"][0]["seconds"],
        "again seconds": second["scorers"][0]["seconds"],
        "again": second["scorers"][0]["seconds"] / first["scorers"][0]["seconds"],
        "command again": again / took,
    }


def learn(
    folder: Path, rows: list[dict[str, str]], seeds: int, size: int, kept: int, held: int
) -> list[dict[str, Any]]:
    """Held-out nats of each arm, for each seed; one pool, scored once."""
    from silva.curate.rows import read
    from silva.curate.value.config import SelectConfig
    from silva.curate.value.sample import Samples
    from silva.curate.value.scoring import resolve, score
    from silva.curate.value.selection.selecting import select

    place, tokenizer = words_of(folder, rows[held:])
    test = samples(folder / "test.samples", rows[:held], tokenizer)
    whole = pool(rows[held:], 0, size)
    read_in = Samples.of_rows(read(str(write(folder / "pool.jsonl", whole))))
    worth = score(read_in, resolve(["fused_local"], {}), folder / "kept")["fused_local"].worth
    steps = EPOCHS * kept // BATCH
    found: list[dict[str, Any]] = []
    for seed in range(seeds):
        said: dict[str, Any] = {"seed": seed}
        files = {"all": whole}
        ways = {"chosen": {"method": "cluster"}, "drawn": {"method": "random", "duplicates": "none"}}
        for arm, way in ways.items():
            told = SelectConfig.model_validate({"by": "fused_local", "keep": kept, "seed": seed, **way})
            files[arm] = [whole[int(at)] for at in select(read_in, worth, told).kept]
            said[f"{arm}: faults"] = sum(bool(row["fault"]) for row in files[arm])
        for arm, chosen, count in (
            ("chosen", "chosen", steps),
            ("drawn", "drawn", steps),
            ("all, equal steps", "all", steps),
            ("all", "all", EPOCHS * size // BATCH),
        ):
            data = samples(folder / f"{seed}-{count}-{chosen}.samples", files[chosen], tokenizer)
            name = f"{seed}-{arm}".replace(", ", "-").replace(" ", "-")
            said[arm] = trained(folder / name, data, test, place, count, seed)
        print(said, flush=True)
        found.append(said)
    return found


def words_of(folder: Path, rows: list[dict[str, str]]) -> tuple[Path, Any]:
    """A tokenizer of the pool's words, and its folder."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    letters = pre_tokenizers.ByteLevel.alphabet()
    learner = trainers.BpeTrainer(vocab_size=768, special_tokens=["<|end|>"], initial_alphabet=letters)
    tokenizer.train_from_iterator((f"{row['question']}\n{row['answer']}" for row in rows), learner)
    place = folder / "tokenizer"
    place.mkdir()
    tokenizer.save(str(place / "tokenizer.json"))
    said = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|end|>", "pad_token": "<|end|>"}
    (place / "tokenizer_config.json").write_text(json.dumps(said))
    (place / "chat_template.jinja").write_text("{% for m in messages %}{{ m.content }}\n{% endfor %}")
    return place, tokenizer


if __name__ == "__main__":
    raise SystemExit(main())
