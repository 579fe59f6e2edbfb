"""Concepts: one word for all the words that mean the same, however they are bent or mistyped.

"De-duplicate the trajectries" ─▶ [duplicate, trajectory]
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

PHRASES = {
    "get rid of": "remove",
    "kick out": "remove",
    "appears twice": "duplicate",
    "appear twice": "duplicate",
    "more than once": "duplicate",
    "occur twice": "duplicate",
    "two times": "duplicate",
    "what is in": "describe",
    "what's in": "describe",
    "what is inside": "describe",
    "hand me": "",
    "does the lake contain": "lake describe",
    "does the lake hold": "lake describe",
    "throw away": "remove",
    "throw out": "remove",
    "take out": "remove",
    "leave out": "remove",
    "weed out": "remove",
    "filter out": "remove",
    "how many": "howmany",
    "number of": "howmany",
    "share of": "howmany",
    "what share": "howmany",
    "fraction of": "howmany",
    "proportion of": "howmany",
    "percentage of": "howmany",
    "what percentage": "howmany",
    "how often": "howmany",
    "side by side": "compare",
    "difference between": "compare",
    "differ from": "compare",
    "data set": "dataset",
    "data sets": "dataset",
    "red team": "redteam",
    "red teaming": "redteam",
    "red-team": "redteam",
    "prompt injection": "injection",
    "prompt injections": "injection",
    "api key": "secret",
    "api keys": "secret",
    "access keys": "secret",
    "personal data": "pii",
    "personal information": "pii",
    "sum up": "summarise",
    "tell me about": "summarise",
    "give me": "",
    "let me see": "list",
    "show me": "list",
    "tell me": "",
    "look for": "search",
    "looks like": "describe",
    "look like": "describe",
    "goes wrong": "fail",
    "went wrong": "fail",
    "go wrong": "fail",
    "how did": "howdid",
    "how does": "howdid",
    "how do": "howdid",
    "how well": "howdid",
    "how good": "howdid",
    "near duplicates": "nearduplicate duplicate",
    "near duplicate": "nearduplicate duplicate",
    "near-duplicates": "nearduplicate duplicate",
    "near-duplicate": "nearduplicate duplicate",
    "open up": "list",
    "bring in": "import",
    "take in": "import",
    "read in": "import",
    "break down": "per",
    "broken down": "per",
    "group by": "per",
    "grouped by": "per",
    "web page": "html",
    "one page": "html",
    "held out": "heldout",
    "held-out": "heldout",
    "hold out": "heldout",
    "not worth learning": "mask",
    "worth learning": "mask",
    "preference pairs": "preference pair",
    "in common": "overlap",
    "high value": "valuable",
    "high-value": "valuable",
    "high quality": "valuable",
    "high-quality": "valuable",
    "label flipping": "labelflip",
    "label flips": "labelflip",
    "flipped labels": "labelflip",
    "train test": "train test split",
    "agent memory": "skill",
    "agent skills": "skill",
    "lessons learned": "skill",
    "hugging face": "huggingface",
}
"""Several words with one meaning; the longest are read first."""

SYNONYMS = {
    "trajectory": "trajectories attempt attempts episode episodes rollout rollouts traces trace walks transcript "
    "transcripts conversations conversation",
    "row": "rows record records example examples item items entry entries instances instance lines line datapoints",
    "sample": "samples sampling sampled",
    "run": "runs",
    "dataset": "datasets sets set corpus",
    "remove": "removes removing removed drop drops dropping delete deleting deleted discard exclude excluding "
    "eliminate strip "
    "without purge omit skip kick chuck ditch prune toss",
    "keep": "keeps keeping retain only",
    "duplicate": "duplicates duplicated duplication dedup dedupe deduped deduplicate deduplicated deduplication "
    "deduping "
    "de-duplicate de-dup dups dupes identical repeated repeats repetitions uniq unique distinct",
    "filter": "filters filtering filtered restrict narrow",
    "audit": "audits auditing audited vet vetting scan scanning screen screening inspect inspecting examine inspection "
    "analyse analyze security",
    "check": "checks checking checked verify verifying test whether validate",
    "risk": "risks risky danger dangers dangerous unsafe hazards",
    "safety": "safe",
    "toxic": "toxicity offensive hateful insults",
    "bias": "biased biases",
    "pii": "privacy private emails names phone",
    "harmful": "harm harms",
    "backdoor": "backdoors trigger triggers poisoned poisoning poison",
    "labelflip": "mislabelled mislabeled",
    "contradiction": "contradictions contradictory contradict",
    "sycophancy": "sycophantic",
    "jailbreak": "jailbreaks jailbreaking",
    "injection": "injections injected",
    "list": "lists listing show shows display print see view enumerate look browse",
    "howmany": "count counts counting counted tally",
    "average": "averages mean avg averaged",
    "score": "scores scoring scored grade grades grading rating ratings assess evaluate value values valuation",
    "rate": "rates",
    "best": "top highest finest greatest",
    "worst": "lowest poorest weakest",
    "select": "selects selecting selected selection pick picks picking choose choosing chosen subset subselect "
    "cherry-pick",
    "write": "writes writing save saves saving saved store stores dump dumps export exports exporting exported output "
    "convert converts converting put",
    "file": "files",
    "compare": "compares comparing compared comparison versus vs against difference differences differ better",
    "summarise": "summarises summarize summarizing summarising summary summaries overview recap results result figures "
    "figure performance metrics performed perform",
    "report": "reports reporting",
    "describe": "describes describing description profile profiling statistics statistic stats distribution "
    "distributions "
    "histogram characterise characterize",
    "split": "splits splitting divide divides partition partitions",
    "mix": "mixes mixing blend blends combine combining merge merging mixture",
    "upsample": "upsampling oversample oversampling overweight upweight boost boosting weigh",
    "leak": "leaks leakage leaking contamination share shares",
    "overlap": "overlaps overlapping shared contamination contaminated",
    "mask": "masks masking masked",
    "pair": "pairs paired pairwise",
    "preference": "preferences dpo preferred",
    "skill": "skills lesson lessons playbook playbooks know-how",
    "extract": "extracts extracting extraction distil distill distils distilling derive derives induce mine learn",
    "attack": "attacks attacked attacking attackers attacker adversarial",
    "detect": "detects detecting detected detector detectors detection",
    "fail": "fails failed failing failure failures broke broken crash crashed crashes error errors errored",
    "why": "cause causes reason reasons caused because explain",
    "search": "searches searching find finds grep locate where mention mentions mentioning mentioned containing "
    "contain contains",
    "lake": "lakes database",
    "healthy": "health intact corrupt corrupted damaged damage sound broken-lake doctor",
    "html": "webpage page",
    "redact": "redacts redacting redacted anonymise anonymize anonymised censor scrub scrubbing hide hiding blank",
    "secret": "secrets credential credentials password passwords keys",
    "release": "releases releasing released publishable datacard croissant huggingface",
    "enzyme": "enzymes enzymatic",
    "protein": "proteins peptide peptides",
    "molecule": "molecules molecular smiles compound compounds chemical",
    "eeg": "electroencephalogram brainwaves brain",
    "climate": "netcdf",
    "import": "imports importing ingest ingesting",
    "sort": "sorts sorting sorted order ordered rank ranks ranked ranking",
    "longest": "lengthiest biggest largest",
    "shortest": "smallest",
    "random": "randomly",
    "clean": "cleans cleaning cleaned cleanse sanitise sanitize cleanup",
    "judge": "judges judging judged judgement rules raters",
    "agree": "agrees agreement agreements consistent kappa",
    "turn": "turns step steps message messages action actions",
    "environment": "environments env envs gym gyms",
    "dialogue": "dialogues dialog dialogs multi-turn",
    "per": "by each every",
    "train": "training trained trains",
    "strategy": "strategies",
    "diverse": "diversity varied representative cover coverage",
    "valuable": "useful worthwhile valuable",
    "quality": "qualities",
    "success": "succeed succeeded successes successful solved",
    "text": "texts words word",
    "page": "pages",
    "use": "using used via",
    "turn-into": "turned",
}
_CONCEPT = {word: concept for concept, words in SYNONYMS.items() for word in (concept, *words.split())}

_STOP = """
give gives giving many several few together which number a an the of in on to for from with and or then also
please can could would will you i we my our us me it its they them their this that these those is are was were
be been have has had do does did there here what who whom when as at into out over about after before while
during so just now want need like get got make made let lets go all any some every both either next first
finally lastly afterwards everything something anything if not no data content contents new one ones thing
things kind kinds way how much more most than less least up down off say says said used being done should must
may might shall who's what's i'd i'll we'd id ill hey hi hello thanks thank kindly ok okay hereof thereof whole
entire full complete current existing available given following above below such same other others else only
very really quick quickly simple simply final finished end ended time it's don't dont cant can't onto upon
within between among per-row via across there's let's but yet still too itself themselves result' based
according respect regard regarding concerning terms type types 
generate generates hand stuff ignore ignores ignoring
retrieve retrieves retrieving fetch fetches obtain pull load open return provide compute calculate
perform produce create build prepare apply me's
"""
STOP = frozenset(_STOP.split())

_WORD = re.compile(r"[A-Za-z][A-Za-z'’\-]*[A-Za-z]|[A-Za-z]")


class Concept(NamedTuple):
    """A concept at a place of the words: `start` and `stop` in characters, the `word` as it was said, and whether it
    begins a clause (`leads`), as a verb that gives an order does."""

    name: str
    word: str
    start: int
    stop: int
    leads: bool = False
    known: bool = True


def concepts(text: str, extra: Iterable[str] = ()) -> list[Concept]:
    """The concepts of words, in order; words that mean nothing here are left out.

    Args:
        text: the words. What was read out of them already stands as spaces.
        extra: further words that are known (of tools' own phrases).
    """
    found: list[Concept] = []
    lower = text.lower().replace("’", "'")
    taken = [False] * len(lower)
    for phrase in sorted(PHRASES, key=len, reverse=True):
        for match in re.finditer(rf"\b{re.escape(phrase)}\b", lower):
            if not any(taken[match.start() : match.end()]):
                taken[match.start() : match.end()] = [True] * (match.end() - match.start())
                for name in PHRASES[phrase].split():
                    found.append(Concept(name, match.group(), match.start(), match.end(), _leads(lower, match.start())))
    known = frozenset(extra)
    for match in _WORD.finditer(lower):
        if any(taken[match.start() : match.end()]):
            continue
        word = match.group()
        if word in STOP and word not in known:
            continue
        name = concept(word, known)
        if name is None and any(len(each) >= 5 and near(word, each) for each in STOP):
            continue  # "plese"
        found.append(
            Concept(
                name or stem(word), word, match.start(), match.end(), _leads(lower, match.start()), name is not None
            )
        )
    return sorted(found, key=lambda each: each.start)


def concept(word: str, extra: frozenset[str] = frozenset()) -> str | None:
    """The concept of one word; None where it is not known, even as a typing error of one that is."""
    if word in _CONCEPT:
        return _CONCEPT[word]
    if word in extra or stem(word) in extra:
        return word if word in extra else stem(word)
    plain = word.replace("-", "")
    if plain in _CONCEPT:
        return _CONCEPT[plain]
    if stem(word) in _CONCEPT:
        return _CONCEPT[stem(word)]
    return _mended(word, extra)


def phrase_concepts(phrase: str) -> frozenset[str]:
    """The concepts of a tool's phrase."""
    return frozenset(each.name for each in concepts(phrase, phrase.lower().split()))


def stem(word: str) -> str:
    """A word without its English endings, roughly."""
    for ending, short in (("ies", "y"), ("ing", ""), ("ed", ""), ("es", ""), ("s", "")):
        if word.endswith(ending) and len(word) - len(ending) >= 4:
            return word[: -len(ending)] + short
    return word


def near(word: str, other: str) -> bool:
    """Whether two words are one typing error apart (two, where they are long); their first letters are equal, unless
    the first two are swapped."""
    most = 2 if len(word) >= 8 else 1
    if abs(len(word) - len(other)) > most or len(word) < 4:
        return False
    if word[0] != other[0] and word[:2] != other[1::-1]:
        return False
    return _distance(word, other, most) <= most


@lru_cache(maxsize=4096)
def _mended(word: str, extra: frozenset[str]) -> str | None:
    if len(word) < 5 or word in STOP:
        return None
    close = [known for known in (*_CONCEPT, *extra) if len(known) >= 4 and near(word, known)]
    if not close:
        return None
    best = min(close, key=lambda known: (_distance(word, known, 3), abs(len(known) - len(word)), known))
    return _CONCEPT.get(best, best)


def _distance(one: str, other: str, most: int) -> int:
    """Letters to put in, take out, change or swap with their neighbour."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        before, last, row = row, before, [i]
        for j, b in enumerate(other, 1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (a != b))
            if i > 1 and j > 1 and a == other[j - 2] and one[i - 2] == b:
                cost = min(cost, last[j - 2] + 1)
            row.append(cost)
        if min(row) > most:
            return most + 1
    return row[-1]


def _leads(text: str, start: int) -> bool:
    """Whether a word stands where an order begins: first, or behind `and`, `then`, a comma, `please`, `to`."""
    before = text[:start].rstrip()
    return (
        not before
        or before[-1] in ",;.:!?—–"
        or bool(re.search(r"\b(?:and|then|please|also|finally|afterwards|next|you|to|let's|just)$", before))
    )
