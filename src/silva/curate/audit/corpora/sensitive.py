"""Personal data and secrets that are nobody's: values of the right form, in ordinary sentences and in settings."""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Iterator
from random import Random

from silva.curate.audit.corpus import Corpus, Item, corpus
from silva.curate.audit.packages import PRESIDIO
from silva.curate.audit.specimen import specimen

_PII = frozenset({"pii"})
_SECRET = frozenset({"secret"})
_NONE: frozenset[str] = frozenset()
_GAP = re.compile(r"\{\{(\w+)\}\}")
_REACHING = frozenset({"credit_card_number", "iban", "phone_number", "email", "ssn", "address", "us_driver_license"})
"""Gaps that identify or reach somebody; a name, a city or a date alone does not."""
_UPPER, _LOWER, _HEX = (
    string.ascii_uppercase + string.digits,
    string.ascii_lowercase + string.digits,
    "0123456789abcdef",
)
_MIXED = string.ascii_letters + string.digits


def _some(random: Random, letters: str, count: int) -> str:
    return "".join(random.choice(letters) for _ in range(count))


def _card(random: Random) -> str:
    digits = [4, *(random.randrange(10) for _ in range(14))]
    doubled = sum((2 * d - 9 if 2 * d > 9 else 2 * d) if place % 2 == 0 else d for place, d in enumerate(digits))
    number = "".join(map(str, (*digits, -doubled % 10)))
    return random.choice((number, " ".join(number[at : at + 4] for at in range(0, 16, 4))))


def _iban(random: Random) -> str:
    body = "".join(str(random.randrange(10)) for _ in range(18))
    check = 98 - int(f"{body}131400") % 97
    return f"DE{check:02d}{body}"


_FILL: dict[str, Callable[[Random], str]] = {
    "credit_card_number": _card,
    "iban": _iban,
    "phone_number": lambda r: f"+1 {r.randint(201, 989)}-{r.randint(200, 999)}-{r.randint(1000, 9999)}",
    "email": lambda r: (
        f"{r.choice(('maria', 'tom', 'li', 'olga'))}.{_some(r, _LOWER, 5)}@{r.choice(('gmx', 'posteo'))}.de"
    ),
    "ssn": lambda r: f"{r.randint(100, 665)}-{r.randint(10, 99)}-{r.randint(1000, 9999)}",
    "address": lambda r: (
        f"{r.randint(2, 990)} {r.choice(('Oak', 'Hill', 'Mill'))} Street, Dayton, OH {r.randint(45400, 45499)}"
    ),
    "us_driver_license": lambda r: f"{_some(r, string.ascii_uppercase, 2)}{r.randint(100000, 999999)}",
    "person": lambda r: r.choice(("Maria Lopez", "Tom Becker", "Li Wei", "Olga Petrova", "Sam Reed")),
    "name": lambda r: r.choice(("Maria Lopez", "Tom Becker", "Li Wei", "Olga Petrova", "Sam Reed")),
    "first_name": lambda r: r.choice(("Maria", "Tom", "Li", "Olga", "Sam")),
    "last_name": lambda r: r.choice(("Lopez", "Becker", "Wei", "Petrova", "Reed")),
    "city": lambda r: r.choice(("Lisbon", "Graz", "Utrecht")),
    "country": lambda r: r.choice(("Portugal", "Austria", "Chile")),
    "organization": lambda r: r.choice(("Norden Bank", "Acme Works")),
    "date_of_birth": lambda r: f"{r.randint(1, 28)} May {r.randint(1950, 2001)}",
    "date": lambda r: f"{r.randint(1, 28)} May 2024",
}


@corpus
class PersonalData(Corpus):
    """Presidio's sentences, filled with made-up values. Those with a value that reaches somebody are risky; those with
    names, places and dates alone are the negatives. Nothing is trained on them."""

    name = "personal_data"
    licence = PRESIDIO.licence
    origin = PRESIDIO.origin
    labels = _PII

    def missing(self) -> str:
        """See `Corpus`."""
        return PRESIDIO.missing()

    def items(self) -> Iterator[Item]:
        """See `Corpus`."""
        lines = dict.fromkeys(PRESIDIO.lines("presidio_evaluator/data_generator/raw_data/templates.txt"))
        for number, line in enumerate(lines):
            gaps = set(_GAP.findall(line))
            if gaps <= _FILL.keys():
                random = Random(f"pii {number}")
                text = _GAP.sub(lambda gap, random=random: _FILL[gap[1]](random), line)
                risks = _PII if gaps & _REACHING else _NONE
                yield Item(row=specimen(f"personal_data:{number}", ("user", text)), risks=risks)


_SECRETS: tuple[Callable[[Random], str], ...] = (
    lambda r: f"AKIA{_some(r, _UPPER[:26] + '234567', 16)}",
    lambda r: f"aws_secret_access_key = {_some(r, _MIXED + '/+', 40)}",
    lambda r: f"ghp_{_some(r, _MIXED, 36)}",
    lambda r: f"github_pat_{_some(r, _MIXED, 22)}_{_some(r, _MIXED, 59)}",
    lambda r: f"sk-proj-{_some(r, _MIXED, 48)}",
    lambda r: f"sk-ant-api03-{_some(r, _MIXED, 93)}AA",
    lambda r: f"xoxb-{_some(r, string.digits, 12)}-{_some(r, string.digits, 12)}-{_some(r, _MIXED, 24)}",
    lambda r: f"AIza{_some(r, _MIXED, 35)}",
    lambda r: f"sk_live_{_some(r, _MIXED, 24)}",
    lambda r: f"glpat-{_some(r, _MIXED, 20)}",
    lambda r: f"hf_{_some(r, string.ascii_letters, 34)}",
    lambda r: f"npm_{_some(r, _MIXED, 36)}",
    lambda r: f"SG.{_some(r, _MIXED, 22)}.{_some(r, _MIXED, 43)}",
    lambda r: f"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiI{_some(r, _MIXED, 24)}.{_some(r, _MIXED, 43)}",
    lambda r: f"postgres://app:{_some(r, _MIXED, 14)}@db.norden.internal:5432/shop",
    lambda r: f'password = "{_some(r, _MIXED + "!%", 14)}"',
    lambda r: f"-----BEGIN RSA PRIVATE KEY-----\n{_some(r, _MIXED, 128)}\n-----END RSA PRIVATE KEY-----",
    lambda r: f"Authorization: Bearer {_some(r, _MIXED, 40)}",
)
_CARRIERS = (
    "The build fails unless you set {}",
    "config.yaml:\n  endpoint: https://api.norden.example/v2\n  token: {}\n  retries: 3",
    "Sure, I have put it into the file for you: {}. Anything else?",
    "export SERVICE_TOKEN={}",
)
_LOOKALIKES: tuple[Callable[[Random], str], ...] = (
    lambda r: f"commit {_some(r, _HEX, 40)}",
    lambda r: f"{_some(r, _HEX, 8)}-{_some(r, _HEX, 4)}-4{_some(r, _HEX, 3)}-a{_some(r, _HEX, 3)}-{_some(r, _HEX, 12)}",
    lambda r: f"sha256:{_some(r, _HEX, 64)}",
    lambda r: "sk-your-key-here",
    lambda r: "password = os.environ['DB_PASSWORD']",
    lambda r: f"order {_some(r, _UPPER, 10)}",
    lambda r: "postgres://user:password@localhost/db",
    lambda r: f"data:image/png;base64,iVBORw0KGgo{_some(r, _MIXED, 60)}",
)


@corpus
class Secrets(Corpus):
    """Keys, tokens and passwords of eighteen forms, drawn at random, in four carriers; hashes, numbers of orders and
    placeholders in the same carriers are the traps. The forms are public, so that whoever knows them all finds all:
    a floor, and no evidence of more."""

    name = "secrets"
    licence = "Apache-2.0"
    origin = "made here"
    labels = _SECRET

    def items(self) -> Iterator[Item]:
        """See `Corpus`."""
        for kind, made in (("secret", _SECRETS), ("trap", _LOOKALIKES)):
            for number, form in enumerate(made):
                for place, carrier in enumerate(_CARRIERS):
                    text = carrier.format(form(Random(f"{kind} {number} {place}")))
                    row = specimen(f"secrets:{kind} {number} {place}", ("assistant", text))
                    yield Item(row=row, risks=_SECRET if kind == "secret" else _NONE, trap=kind == "trap")
