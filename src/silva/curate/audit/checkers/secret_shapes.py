"""Secrets by the formats that their issuers give them, and what tells a placeholder from one.

    text ─▶ hint ─▶ pattern ─▶ placeholder? ─▶ checksum ─▶ Shape, span, strength

A format with a checksum that holds is certain; one with a fixed prefix nearly so; an assignment to a word like
`password` counts only where what is assigned looks drawn by chance.
"""

from __future__ import annotations

import base64
import json
import math
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple

_BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


class Shape(NamedTuple):
    """A format. Every match contains one of `hints` (in lower case; tested first, being cheap); group 1, where there
    is one, is the secret itself. `holds` looks at it once more: 0 says it is none, else how strong the sign is."""

    name: str
    hints: tuple[str, ...]
    pattern: re.Pattern[str]
    holds: Callable[[str], float] = lambda _: 0.95


class Secret(NamedTuple):
    """A secret in a text."""

    name: str
    start: int
    stop: int
    strength: float


def secrets_in(text: str) -> Iterator[Secret]:
    """The secrets of a text, in the order of the formats; of overlapping ones the first format's."""
    lower = text.lower()
    taken: list[tuple[int, int]] = []
    for shape in SHAPES:
        if not any(hint in lower for hint in shape.hints):
            continue
        for match in shape.pattern.finditer(text):
            start, stop = match.span(1 if shape.pattern.groups else 0)
            value = text[start:stop]
            if any(start < end and begin < stop for begin, end in taken) or is_placeholder(value):
                continue
            strength = shape.holds(value)
            if strength:
                taken.append((start, stop))
                yield Secret(shape.name, start, stop, strength)


_FILLED = re.compile(
    r"example|placeholder|your[_\-. ]?|dummy|redacted|change[_\-]?me|insert|replace|sample|fake|foobar|deadbeef|"
    r"(.)\1{5,}|x{4,}|\*{3,}|\.\.\.|…|<[^>]*>|\$\{|\{\{|%\(|"
    r"0123456|1234567|abcdefg|qwerty|lorem",
    re.IGNORECASE,
)
_KNOWN = frozenset(
    {
        # What documentation of JWT and of Stripe shows everywhere.
        "SflKxwRJSMeKKF2QT4fwpMeJf36POk6yJV_adQssw5c",
        "sk_test_4eC39HqLyjWDarjtT1zdp7dc",
    }
)


def is_placeholder(value: str) -> bool:
    """Whether a value stands for a secret instead of being one: EXAMPLE, xxxx, 1234567, ${NAME}, few letters."""
    if _FILLED.search(value) or any(known in value for known in _KNOWN):
        return True
    body = value.rsplit("_", 1)[-1] if len(value) < 200 else value
    return len(body) >= 16 and len(set(body)) < 6


def entropy(value: str) -> float:
    """Shannon's entropy of the characters, in bits each."""
    counts = Counter(value)
    return -sum(count / len(value) * math.log2(count / len(value)) for count in counts.values()) if value else 0.0


def _github(value: str) -> float:
    """GitHub's tokens end in the CRC-32 of the 30 characters before, in base 62."""
    body, told = value[-36:-6], value[-6:]
    number, digits = zlib.crc32(body.encode()), ""
    for _ in range(6):
        number, rest = divmod(number, 62)
        digits = _BASE62[rest] + digits
    return 1.0 if digits == told else 0.9


def _jwt(value: str) -> float:
    try:
        head = value.split(".")[0]
        said = json.loads(base64.urlsafe_b64decode(head + "=" * (-len(head) % 4)))
    except (ValueError, RecursionError):
        return 0.0
    return 0.9 if isinstance(said, dict) and "alg" in said else 0.0


def _drawn(value: str) -> float:
    """Whether a value looks drawn by chance: letters and digits mixed, nothing of a word or a path."""
    if re.fullmatch(r"[a-z]+([_\-.][a-z]+)*|[A-Z_]+|[A-Z]?[a-z]+(?:[A-Z][a-z]+)*|\d+|[\w.]+\([^)]*\)?", value):
        return 0.0
    kinds = sum(bool(re.search(kind, value)) for kind in (r"[a-z]", r"[A-Z]", r"\d", r"[^\w]"))
    if kinds < 2 or not re.search(r"\d", value):
        return 0.0
    return 0.8 if entropy(value) >= 3.0 else 0.0


def _password(value: str) -> float:
    """A password that is written out: shorter than a key, but with a digit or a mark among its letters."""
    if len(value) < 6 or not re.search(r"[A-Za-z]", value) or not re.search(r"[\d!@#$%^&*?]", value):
        return 0.0
    if re.fullmatch(r"[a-z]+\.[a-z_.]+|[\w.]+\(.*|os\.\w+.*|process\.env.*|[A-Z_]+", value):
        return 0.0
    return 0.75 if entropy(value) >= 2.5 else 0.0


def _credentials(value: str) -> float:
    user, _, word = value.partition(":")
    if word.lower() in {"password", "pass", "pwd", "secret", "token", user.lower()} or len(word) < 5:
        return 0.0
    return 0.9


def _shape(
    name: str, hints: str, pattern: str, holds: Callable[[str], float] = lambda _: 0.95, flags: int = 0
) -> Shape:
    return Shape(name, tuple(hints.split()), re.compile(pattern, flags), holds)


_END = r"(?![A-Za-z0-9])"
_NAMED = r"[\w.\-\[\]'\"]{0,40}"
_IS = r"[\"'\]]{0,2}\s{0,3}(?:=>|:=|=|:|\bis\b)\s{0,3}[\"'`]?"

SHAPES: tuple[Shape, ...] = (
    _shape(
        "private key",
        "private",
        r"-----BEGIN (?:[A-Z]+ )*PRIVATE KEY(?: BLOCK)?-----"
        r"[\s\S]{40,20000}?-----END (?:[A-Z]+ )*PRIVATE KEY(?: BLOCK)?-----",
    ),
    _shape("age key", "age-secret", r"\bAGE-SECRET-KEY-1[0-9A-Z]{58}" + _END),
    _shape("GitHub token", "ghp_ gho_ ghu_ ghs_ ghr_", r"\bgh[pousr]_[A-Za-z0-9]{36}" + _END, _github),
    _shape("GitHub token", "github_pat_", r"\bgithub_pat_[A-Za-z0-9]{22}_[A-Za-z0-9]{59}" + _END),
    _shape("GitLab token", "glpat- gldt- glrt-", r"\bgl(?:pat|dt|rt|soat|cbt)-[\w\-]{20,}" + _END),
    _shape("Anthropic key", "sk-ant-", r"\bsk-ant-[\w\-]{24,}"),
    _shape("OpenAI key", "sk-", r"\bsk-(?:proj-|svcacct-|admin-|or-v1-|None-)?[A-Za-z0-9][\w\-]{30,}", _drawn),
    _shape("Hugging Face token", "hf_", r"\bhf_[A-Za-z]{34,}" + _END),
    _shape("Hugging Face token", "hf_", r"\bhf_[A-Za-z0-9]{30,}" + _END, _drawn),
    _shape("AWS key id", "akia asia abia acca", r"\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}" + _END),
    _shape(
        "AWS secret key",
        "aws secret_access secretaccess",
        r"(?i:aws|secret_?access)"
        + _NAMED
        + r"(?i:key|secret)"
        + _NAMED
        + _IS
        + r"([A-Za-z0-9/+]{40})(?![A-Za-z0-9/+=])",
        _drawn,
    ),
    _shape("Google key", "aiza", r"\bAIza[\w\-]{35}" + _END),
    _shape("Google OAuth token", "ya29.", r"\bya29\.[\w\-]{30,}"),
    _shape("Google OAuth secret", "gocspx-", r"\bGOCSPX-[\w\-]{28}" + _END),
    _shape("Slack token", "xox", r"\bxox[abeoprs]-[\dA-Za-z\-]{10,250}", _drawn),
    _shape(
        "Slack webhook", "hooks.slack", r"hooks\.slack\.com/services/(T[A-Z0-9]{6,}/B[A-Z0-9]{6,}/[A-Za-z0-9]{18,})"
    ),
    _shape("Discord webhook", "discord", r"discord(?:app)?\.com/api/webhooks/(\d{17,20}/[\w\-]{60,})"),
    _shape("Discord token", ".", r"\b[MNO][A-Za-z\d]{23,27}\.[\w\-]{6}\.[\w\-]{27,40}" + _END),
    _shape(
        "Stripe key",
        "sk_live_ rk_live_ sk_test_ whsec_",
        r"\b(?:sk|rk)_(?:live|test)_[A-Za-z0-9]{20,}|\bwhsec_[A-Za-z0-9]{30,}",
    ),
    _shape("SendGrid key", "sg.", r"\bSG\.[\w\-]{20,24}\.[\w\-]{39,50}" + _END),
    _shape("Mailgun key", "key-", r"\bkey-[0-9a-f]{32}" + _END),
    _shape("Mailchimp key", "-us", r"\b[0-9a-f]{32}-us\d{1,2}" + _END),
    _shape("Twilio key", "sk", r"\bSK[0-9a-f]{32}" + _END),
    _shape("Twilio account", "ac", r"\bAC[0-9a-f]{32}" + _END, lambda _: 0.8),
    _shape("npm token", "npm_", r"\bnpm_[A-Za-z0-9]{36}" + _END),
    _shape("PyPI token", "pypi-", r"\bpypi-AgE[\w\-]{50,}"),
    _shape("RubyGems key", "rubygems_", r"\brubygems_[0-9a-f]{48}" + _END),
    _shape("Docker token", "dckr_pat_", r"\bdckr_pat_[\w\-]{27,}" + _END),
    _shape("DigitalOcean token", "dop_v1_ doo_v1_ dor_v1_", r"\bdo[opr]_v1_[0-9a-f]{64}" + _END),
    _shape("Shopify token", "shp", r"\bshp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}" + _END),
    _shape("Square token", "sq0 eaaa", r"\bsq0(?:atp|csp|idp)-[\w\-]{22,43}" + _END + r"|\bEAAA[\w\-]{60}" + _END),
    _shape("Telegram token", ":aa", r"\b\d{8,10}:AA[\w\-]{33}" + _END),
    _shape("Databricks token", "dapi", r"\bdapi[0-9a-f]{32}(?:-\d)?" + _END),
    _shape("New Relic key", "nrak- nral", r"\bNRAK-[A-Z0-9]{27}" + _END),
    _shape("Atlassian token", "atatt", r"\bATATT3[\w\-=]{100,}"),
    _shape("Linear key", "lin_api_", r"\blin_api_[A-Za-z0-9]{40}" + _END),
    _shape("Notion token", "ntn_ secret_", r"\b(?:ntn_[A-Za-z0-9]{40,}|secret_[A-Za-z0-9]{43})" + _END),
    _shape("Postman key", "pmak-", r"\bPMAK-[0-9a-f]{24}-[0-9a-f]{34}" + _END),
    _shape(
        "Grafana token", "glsa_ glc_", r"\bglsa_[A-Za-z0-9]{32}_[0-9a-fA-F]{8}" + _END + r"|\bglc_[A-Za-z0-9+/=]{32,}"
    ),
    _shape("Vault token", "hvs. hvb.", r"\bhv[sb]\.[\w\-]{24,}"),
    _shape(
        "Doppler token", "dp.pt. dp.st.", r"\bdp\.(?:pt|st|ct|sa|scim|audit)\.(?:[\w\-]+\.)?[A-Za-z0-9]{40,44}" + _END
    ),
    _shape("Fly token", "fo1_ fm2_", r"\bfo1_[\w\-]{43}" + _END + r"|\bfm2_[A-Za-z0-9+/=]{100,}"),
    _shape("Sentry token", "sntrys_", r"\bsntrys_[A-Za-z0-9+/=_\-]{60,}"),
    _shape("Replicate token", "r8_", r"\br8_[A-Za-z0-9]{37}" + _END),
    _shape("Groq key", "gsk_", r"\bgsk_[A-Za-z0-9]{52}" + _END),
    _shape("Perplexity key", "pplx-", r"\bpplx-[A-Za-z0-9]{48}" + _END),
    _shape("Airtable token", "pat", r"\bpat[A-Za-z0-9]{14}\.[0-9a-f]{64}" + _END),
    _shape("Figma token", "figd_", r"\bfigd_[\w\-]{40,}"),
    _shape("Azure storage key", "accountkey", r"(?i:AccountKey)=([A-Za-z0-9+/]{86}==)"),
    _shape("JWT", "eyj", r"\beyJ[\w\-]{10,}\.eyJ[\w\-]{10,}\.[\w\-]{20,}", _jwt),
    _shape(
        "credentials in a URL",
        "://",
        r"\b[a-z][a-z0-9+.\-]{1,20}://([^\s:/@\"'<>]{1,60}:[^\s:/@\"'<>]{3,100})@",
        _credentials,
    ),
    _shape("bearer token", "bearer", r"(?i:\bbearer)\s+([A-Za-z0-9._~+/\-]{20,}=*)", _drawn),
    _shape(
        "assigned key",
        "key token secret credential auth",
        r"(?i:api[_\- ]?key|access[_\- ]?key|secret[_\- ]?key|auth[_\- ]?token|access[_\- ]?token|client[_\- ]?secret|"
        r"private[_\- ]?key|api[_\- ]?token|\bsecret\b|\btoken\b|credential)"
        + _NAMED
        + _IS
        + r"([A-Za-z0-9_./+~\-]{16,200}=*)",
        _drawn,
    ),
    _shape(
        "password",
        "passw passphrase pwd",
        r"(?i:passw(?:or)?d|passphrase|\bpwd)" + r"[\w.\-\[\]]{0,20}" + _IS + r"([^\s\"'`,;<>(){}\[\]]{6,80})",
        _password,
    ),
)
"""The formats, the most certain first."""
