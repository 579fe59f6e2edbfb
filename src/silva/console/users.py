"""Who may do what: one token for whoever started the console, or a file of people with a role each.

viewer   sees everything
guide    also speaks to runs, labels, saves data sets
admin    also reads the trail

# users.yaml: tokens are kept as sha256 in hex (silva console --hash asks for one and prints it)
ann: {role: admin, token: 9f86d081…}
ben: {role: viewer, token: 60303ae2…}
"""

from __future__ import annotations

import hashlib
import hmac
import re
from pathlib import Path

import msgspec
import yaml

from silva.errors import UsageError

ROLES = ("viewer", "guide", "admin")
_HASH = re.compile(r"[0-9a-f]{64}")
_NAME = re.compile(r"[^\x00-\x1f\x7f]{1,80}")


class User(msgspec.Struct, frozen=True, kw_only=True):
    """A person. `hash` is the sha256 of their token, in hex."""

    name: str
    role: str
    hash: str

    def may(self, role: str) -> bool:
        """Whether they may do what a role may."""
        return ROLES.index(self.role) >= ROLES.index(role)


class Users:
    """Those who may come in.

    Args:
        users: at least one.
    """

    def __init__(self, users: tuple[User, ...]) -> None:
        self._users = users

    def of(self, token: str) -> User | None:
        """Whose token it is; None where it is nobody's. Takes as long for a wrong one."""
        given = hashed(token)
        found = None
        for user in self._users:
            if hmac.compare_digest(user.hash, given):
                found = user
        return found


def hashed(token: str) -> str:
    """A token as the file keeps it."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def read_users(path: Path) -> Users:
    """Read a file of users.

    Raises:
        UsageError: it cannot be read, or a line of it is no user.
    """
    try:
        given = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise UsageError(f"users {path}: cannot be read ({' '.join(str(error).split())})") from error
    if not isinstance(given, dict) or not given:
        raise UsageError(f"users {path}: write one a line: NAME: {{role: viewer, token: SHA256}}")
    found: list[User] = []
    for name, fields in given.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise UsageError(f"users {path}: {str(name)[:40]!r} is no name")
        if not isinstance(fields, dict) or set(fields) != {"role", "token"}:
            raise UsageError(f"users {path}: {name} needs role and token, and nothing else")
        if fields["role"] not in ROLES:
            raise UsageError(f"users {path}: {name} has role {fields['role']!r}; roles are {', '.join(ROLES)}")
        if not isinstance(fields["token"], str) or not _HASH.fullmatch(fields["token"]):
            raise UsageError(
                f"users {path}: the token of {name} is to be its sha256 in hex, never itself; "
                "silva console --hash prints it"
            )
        found.append(User(name=name, role=fields["role"], hash=fields["token"]))
    if len({user.hash for user in found}) < len(found):
        raise UsageError(f"users {path}: two of them have the same token; give each their own")
    return Users(tuple(found))
