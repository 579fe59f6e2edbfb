"""Reading an intent into a frame, reader by reader; what one has read no other reads."""

from __future__ import annotations

import re
from pathlib import Path

from silva.curate.value.scorer import scorers
from silva.elf.intent import conditions
from silva.elf.intent.frame import Frame
from silva.elf.intent.known import READ, Known
from silva.elf.intent.naming import of_names, of_shape
from silva.elf.intent.reading import NUMBER, Words, number, whole

_ENDING = "|".join(
    each.lstrip(".") for each in (*READ, ".html", ".md", ".pdb", ".fasta", ".fa", ".nc", ".edf", ".fif", ".smi", ".sdf")
)
_PATH = (
    rf"(?<![\w/])(?:[\w.~\-]*/)*[\w.\-]+\.(?:{_ENDING})\b|(?<![\w/.])(?:\.{{0,2}}/)?(?!\d+/\d)[\w\-.]+(?:/[\w\-.]+)+/?"
)
_FORMS = {
    "parquet": "parquet",
    "csv": "csv",
    "json": "json",
    "jsonl": "jsonl",
    "json lines": "jsonl",
    "jsonlines": "jsonl",
    "ndjson": "jsonl",
    "markdown": "markdown",
    "spreadsheet": "csv",
    "excel": "csv",
}
TREES = {
    "atif": "atif",
    "otel": "otel",
    "opentelemetry": "otel",
    "open telemetry": "otel",
    "sharegpt": "sharegpt",
    "adp": "adp",
    "inspect": "inspect",
    "openenv": "openenv",
    "verifiers": "verifiers",
    "messages format": "messages",
}
SAMPLES = ("trl-sft", "trl-grpo", "trl-dpo", "verl", "slime", "prime-rl")
_UNITS = (
    r"(?:rows?|records?|samples?|examples?|trajector(?:y|ies)|runs?|items?|entries|lines|conversations?|"
    r"attempts?|results?|episodes?|hits?|turns?|pairs?|ones?|of (?:them|those|these)|instances|datapoints|"
    r"data points|documents)"
)
_RISKS = {
    "pii": "pii",
    "personal data": "pii",
    "personal information": "pii",
    "privacy": "pii",
    "secrets": "secret",
    "api keys": "secret",
    "credentials": "secret",
    "passwords": "secret",
    "toxicity": "toxicity",
    "toxic": "toxicity",
    "bias": "bias",
    "harmful": "harmful",
    "prompt injection": "prompt_injection",
    "prompt injections": "prompt_injection",
    "injections": "prompt_injection",
    "injected instructions": "prompt_injection",
    "jailbreak": "jailbreak",
    "jailbreaks": "jailbreak",
    "jailbreak attempts": "jailbreak",
    "backdoor": "backdoor",
    "backdoors": "backdoor",
    "triggers": "backdoor",
    "poisoning": "backdoor",
    "poisoned": "backdoor",
    "sycophancy": "sycophancy",
    "label flips": "label_flipping",
    "flipped labels": "label_flipping",
    "label flipping": "label_flipping",
    "contradictions": "self_contradiction",
    "factual errors": "factual",
    "factual inconsistencies": "factual",
    "hallucinations": "factual",
    "instruction mismatch": "instruction_mismatch",
    "wrong answers": "instruction_mismatch",
    "mislabelled": "label_flipping",
    "secret": "secret",
}
_SCORERS = {
    "dataelf": "default",
    "fused": "fused",
    "ifd": "ifd",
    "perplexity": "ppl",
    "ppl": "ppl",
    "norm loss": "norm_loss",
    "norm_loss": "norm_loss",
    "deita": "deita_q",
    "deita quality": "deita_q",
    "deita_q": "deita_q",
    "deita_c": "deita_c",
    "deita complexity": "deita_c",
    "deberta": "deberta",
    "fineweb": "fineweb_edu",
    "fineweb-edu": "fineweb_edu",
    "ask_llm": "ask_llm",
    "ask-llm": "ask_llm",
    "ask llm": "ask_llm",
}
_PARTS = ("train", "dev", "validation", "valid", "val", "test", "eval", "heldout", "held-out", "holdout")


def framed(intent: str, known: Known, now: float) -> Frame:
    """Read an intent."""
    frame = Frame(said=intent)
    words = Words(re.sub(r"[?!.]+\s*$", "", intent))
    _sql(words, frame)
    _import(words, frame)
    _output(words, frame)
    _files(words, frame)
    _budgets(words, frame)
    _codes(words, frame)
    frame.where += conditions.of_times(words, now)
    frame.rows += conditions.of_rows(words)
    _factors(words, frame)
    _parts(words, frame)
    frame.where += conditions.of_columns(words)
    _counts(words, frame)
    of_names(words, frame, known)
    frame.where += conditions.of_outcome(words, frame.notes)
    named = {name: name for name in scorers() if "_" in name}  # as `silva data scorers` writes them
    for word, name in sorted((_SCORERS | named).items(), key=lambda each: -len(each[0])):
        if (
            words.take(rf"\b(?:with |by |using )?(?:the )?{re.escape(word)}\b(?: scor(?:er|es?|ing))?")
            and name not in frame.scorers
        ):
            frame.scorers.append(name)
    for word, name in sorted(_RISKS.items(), key=lambda each: -len(each[0])):
        if re.search(rf"\b{re.escape(word)}\b", words.said, re.IGNORECASE) and name not in frame.risks:
            frame.risks.append(name)
    for match in words.all(r"\"([^\"]+)\"|“([^”]+)”|(?<!\w)'([^']+)'(?!\w)|`([^`]+)`"):
        frame.quoted.append(next(filter(None, match.groups())))
    _forms(words, frame)
    of_shape(words, frame)
    frame.left = words.left
    return frame


def _sql(words: Words, frame: Frame) -> None:
    match = words.take(r"[\"'`]?\b(select\s+(?:.|\n)+?\s+from\s+(?:.|\n)+|with\s+\w+\s+as\s*\((?:.|\n)+)$")
    if match and re.match(
        r"select\s+[\w*\"'(,. )]+\s+from\s+(nodes|trajectories|tasks|runs|supervisions|blobs)\b|with\s",
        match[1],
        re.IGNORECASE,
    ):
        frame.sql = match[1].strip().rstrip("\"'`;")
    elif match:
        words.left = words.left[: match.start()] + match.group() + words.left[match.end() :]


_SAVES = r"(?:save|write|store|export|dump|put|output)"
_CALLED = rf"(?:a |the )?(?:(?:new )?file\s+)?(?:called |named )?[\"'`]?({_PATH})[\"'`]?"


def _output(words: Words, frame: Frame) -> None:
    """The file that is to be written: behind `to`, `into`, `as`; behind `in` only where something is saved in it."""
    match = words.take(
        rf"\b(?:(?:and )?{_SAVES}\s+(?:(?:it|them|this|that|all|the \w+)\s+)?)(?:to|into|in|as|under|at)\s+{_CALLED}"
    )
    said = bool(match)
    match = match or words.take(rf"(?<!compared )(?<!similar )(?<!compare )\b(?:to|into|as)\s+{_CALLED}")
    match = match or words.take(rf"(?:->|=>|➜)\s*({_PATH})")
    if match:
        frame.output = match[1]
        ending = Path(match[1]).suffix.lstrip(".").lower()
        frame.form = {"md": "markdown"}.get(ending, ending if ending in ("jsonl", "json", "csv", "parquet") else "")
        if said:
            words.left = words.left[: match.start()] + "write" + words.left[match.start() + 5 :]


def _import(words: Words, frame: Frame) -> None:
    if re.search(r"\b(import|ingest|load|bring|take|read)", words.said, re.IGNORECASE):
        match = words.take(
            r"\b(?:as|into|in) (?:a |the )?(?:new )?run (?:called |named )?[\"'`]?([A-Za-z][\w.\-]*)[\"'`]?"
        )
        frame.into = match[1] if match else ""


def _files(words: Words, frame: Frame) -> None:
    for match in words.all(rf"[\"'`]?({_PATH})[\"'`]?"):
        frame.files.append(match[1])


def _budgets(words: Words, frame: Frame) -> None:
    within = (
        r"(?:within|in (?:under|at most|less than|no more than)|in|taking at most|for at most|at most|no more "
        r"than|max(?:imum)?(?: of)?|up to|under|spend(?:ing)? (?:at most|no more than|up to)|budget(?: of)?|"
        r"below|cap(?:ped)? at|limit of)"
    )
    match = words.take(rf"\b{within}\s+({NUMBER}|an?)\s*(seconds?|secs?|s|minutes?|mins?|hours?|h)\b(?!\s+ago)")
    if match:
        unit = match[2].lower()[0]
        times = 1.0 if match[1].lower() in ("a", "an") else number(match[1])
        frame.seconds = times * {"s": 1, "m": 60, "h": 3600}[unit]
    match = words.take(rf"\b{within}\s+(?:\$\s*({NUMBER})|({NUMBER})\s*(?:\$|usd|dollars?|us dollars|cents?))")
    if match:
        frame.usd = number(match[1] or match[2]) / (100 if "cent" in match.group().lower() else 1)
    match = words.take(rf"\b{within}\s+({NUMBER})\s+tokens\b")
    if match:
        frame.tokens = whole(match[1])
    match = words.take(rf"\b{within}\s+({NUMBER})\s*(mb|mib|gb|gib|megabytes?|gigabytes?)\b(?:\s+of (?:memory|ram))?")
    if match:
        frame.memory = int(number(match[1]) * (1 << (30 if match[2].lower()[0] == "g" else 20)))
    match = words.take(r"\b(?:with |using )?(?:the )?seed\s*(?:=|of|is)?\s*(\d+)\b")
    if match:
        frame.seed = int(match[1])


def _codes(words: Words, frame: Frame) -> None:
    match = words.take(
        r"\b(?:EC(?:[\s:-]+number)?|enzyme commission(?: number)?)[\s:#-]*(\d+\.\d+\.\d+\.(?:\d+|-))"
    ) or words.take(r"(?<![\d.])(\d+\.\d+\.\d+\.(?:\d+|-))(?![\d.])")
    if match:
        frame.codes["ec"] = match[1]
    match = words.take(r"\b([OPQ][0-9][A-Z0-9]{3}[0-9]|[A-NR-Z][0-9](?:[A-Z][A-Z0-9]{2}[0-9]){1,2})\b", flags=0)
    if match:
        frame.codes["accession"] = match[1]
    match = words.take(r"\b([ACDEFGHIKLMNPQRSTVWY]{10,})\b", flags=0)
    if match:
        frame.codes["sequence"] = match[1]


def _factors(words: Words, frame: Frame) -> None:
    match = words.take(
        rf"\b(?:by (?:a )?factor(?: of)? ({NUMBER})|({NUMBER})\s*(?:x|×|times)(?!\w)(?: as (?:often|much|"
        rf"many|heavily))?|(twice as|double|triple)\b(?: as)?(?: (?:often|much|many|heavily))?)"
    )
    if match:
        frame.factor = number(next(filter(None, match.groups())))
    match = words.take(rf"\b(?:with )?(?:a )?(?:margin|gap)(?:\s*(?:=|of|above|over|at least|is))*\s*({NUMBER})")
    if match:
        frame.margin = number(match[1])
    for match in words.all(rf"\bratios?\s*(?:of )?({NUMBER})\s*(?::|to)\s*({NUMBER})") or words.all(
        r"(?<![\d.:/])(\d+(?:\.\d+)?)\s*:\s*(\d+(?:\.\d+)?)(?![\d:])"
    ):
        frame.ratios = [number(match[1]), number(match[2])]


def _parts(words: Words, frame: Frame) -> None:
    name = "|".join(_PARTS)
    given = words.all(rf"\b({name})\s*[=:]\s*(\d?\.\d+|\d+\s?%)") or words.all(
        rf"(\d+(?:\.\d+)?\s?%)\s*(?:for |as |of the tasks for |goes to |to )?(?:the )?({name})(?:ing|ation|"
        rf"ing set| set)?\b"
    )
    if len(given) >= 2:
        for match in given:
            one, other = match[1].lower(), match[2].lower()
            part, share = (one, other) if re.match("[a-z]", one) else (other, one)
            frame.shares[_part(part)] = number(share.rstrip("% ")) / (100 if "%" in share else 1)
        return
    match = words.take(r"(?<![\d.])(\d{2})\s*[/:\-]\s*(\d{1,2})(?:\s*[/:\-]\s*(\d{1,2}))?(?![\d.])\s?%?")
    if match:
        shares = [int(each) / 100 for each in match.groups() if each]
        if abs(sum(shares) - 1) < 1e-6:
            named = [_part(each.lower()) for each in re.findall(rf"\b({name})\b", words.said, re.IGNORECASE)]
            named = list(dict.fromkeys(named))
            default = ["train", "test"] if len(shares) == 2 else ["train", "dev", "test"]
            frame.shares = dict(zip(named if len(named) == len(shares) else default, shares, strict=True))
    elif not frame.shares and re.search(r"\b(split|divide|partition)", words.said, re.IGNORECASE):
        named = [_part(each.lower()) for each in re.findall(rf"\b({name})\b", words.said, re.IGNORECASE)]
        named = list(dict.fromkeys(named))
        if len(named) == 2:
            frame.shares = {named[0]: 0.8, named[1]: 0.2}
            frame.notes.append(f"the split is 80 % {named[0]} and 20 % {named[1]}: no shares were said")
    words.all(rf"\b(?:{name})(?=\s*(?:,|and|/|-)\s*(?:{name})\b)")


def _part(name: str) -> str:
    return {"validation": "dev", "valid": "dev", "val": "dev", "eval": "test", "held-out": "heldout"}.get(name, name)


def _counts(words: Words, frame: Frame) -> None:
    extreme = re.search(
        rf"\b({NUMBER})\s+(?=(?:longest|shortest|largest|biggest|smallest)\b)", words.left, re.IGNORECASE
    )
    if extreme:
        words.blank(*extreme.span())
        frame.count = whole(extreme[1])
        return
    best = words.take(
        rf"\b(?:the |only |just |me the )*(?:(?:best|top|highest[- ]\w+|most \w+|finest)[- ]({NUMBER})|"
        rf"({NUMBER})\s+(?:best|highest[- ]\w+|most (?:valuable|useful|informative|diverse)|finest|"
        rf"top))(?:\s+(?:of )?(?:the )?{_UNITS})?"
    )
    if best:
        frame.count, frame.best = whole(best[1] or best[2]), True
        return
    drawn = words.take(
        rf"\b(?:a )?(?:random(?:ly)?(?: (?:sample|selection|subset|set|draw|chosen|drawn))?(?: of)?|"
        rf"sample(?: of)?|draw)\s+({NUMBER})\b(?:\s+(?:random\s+)?{_UNITS})?(?:\s+at random|\s+randomly)?"
    )
    drawn = drawn or words.take(
        rf"\b({NUMBER})\s+(?:random(?:ly)?(?: (?:chosen|drawn|selected|picked))?)(?:\s+{_UNITS})?"
    )
    drawn = drawn or words.take(rf"\b({NUMBER})\s+(?:{_UNITS})?(?=\s*(?:\w+\s+){{0,6}}?(?:at random|randomly)\b)")
    if drawn:
        words.all(r"\b(?:at random|randomly)\b")
        frame.count, frame.drawn = whole(drawn[1]), True
        return
    most = (
        r"(?:at most|no more than|not more than|up to|max(?:imum)?(?: of)?|limit(?:ed)?(?: it| them)?(?: to)?|"
        r"first|only|just|latest|last|the first|take|keep|cap(?:ped)?(?: it| them)? at|fewer than)"
    )
    match = words.take(
        rf"\b{most}[\s:=]+(?:the )?(?:first )?({NUMBER})\b(?!\s*(?:turns|steps|words|characters|%|seconds|"
        rf"minutes|hours|days|weeks|tokens|dollars))(?:\s+(?:\w+\s+)?{_UNITS})?"
    )
    match = match or words.take(
        rf"\b({NUMBER})\s+(?:(?!of\b|and\b|to\b|or\b)[a-z\-]+\s+){{0,4}}?(?:rows|records|samples|examples|"
        rf"trajectories|items|entries|lines|conversations|"
        rf"attempts|hits|results|episodes)\b(?!\s+(?:or|and) more)(?:\s+(?:at most|max|maximum|only|or "
        rf"fewer|or less))?"
    )
    if match:
        try:
            frame.count = whole(match[1])
        except ValueError:
            frame.count = 0


def _forms(words: Words, frame: Frame) -> None:
    for said, name in sorted(TREES.items(), key=lambda each: -len(each[0])):
        if words.take(rf"\b(?:as|to|into|in)?\s*(?:an? |the )?{re.escape(said)}\b(?: format| files?)?"):
            frame.tree_form = name
    for name in SAMPLES:
        pattern = re.escape(name).replace(r"\-", r"[\s\-_]?")
        if words.take(rf"\b(?:as|to|into|in|for)?\s*(?:an? |the )?{pattern}\b(?: format| files?| samples?)?"):
            frame.sample_form = name
    kind = re.search(r"\b(sft|grpo|dpo)\b", words.said, re.IGNORECASE)
    if kind and not frame.sample_form and words.take(r"\b(?:for|in|as|with)?\s*(?:the )?trl\b"):
        frame.sample_form = f"trl-{kind[1].lower()}"
    for said, name in sorted(_FORMS.items(), key=lambda each: -len(each[0])):
        match = words.take(
            rf"\b(?:as|to|into|in|to an?)\s+(?:an? |the )?{said}\b(?: format| files?| table)?|\b{said}\s+(?"
            rf":files?|format|table)\b|\b{said}\b"
        )
        if match and not frame.form:
            frame.form = name
