"""The names a listener answers to. A page of a stranger's site can have its own name resolve to this machine (DNS
rebinding) and then reads what a loopback server answers as if it were that site's; the name in `Host` gives it away.

    request's Host ─▶ Hosts.known ─▶ loopback names · the host it was told to listen on · SILVA_HOSTS ─▶ else refused

Every server of Silva's asks this before it looks at anything else of a request, its token included.
"""

from __future__ import annotations

import ipaddress
import os
import re
import socket

VARIABLE = "SILVA_HOSTS"
"""The environment variable with further names, between commas: those of a proxy in front, of a service."""

REFUSAL = (
    "this server does not answer to the name in the request's Host: use the address it printed, or have "
    f"{VARIABLE} name it where the server starts"
)
_NAME = re.compile(r"(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<name>[A-Za-z0-9._-]+))(?::[0-9]{1,5})?")
_MOST = 256


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a server bound to `host`."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class Hosts:
    """The names of one listener.

    Args:
        host: what it was told to listen on: a name or an address.
        bound: the address it is bound to, where that is another.
    """

    def __init__(self, host: str, bound: str = "") -> None:
        named = [host, *os.environ.get(VARIABLE, "").split(",")]
        self._names = {name.strip().strip("[]").rstrip(".").lower() for name in named} - {""}
        self._open = not is_loopback(bound or host)
        if self._open:
            self._names.add(socket.gethostname().lower())
        self._seen: dict[bytes, bool] = {}

    def known(self, header: bytes) -> bool:
        """Whether a `Host` header names this listener, its port aside."""
        found = self._seen.get(header)
        if found is None:
            if len(self._seen) >= _MOST:
                self._seen.clear()
            found = self._seen[header] = self._answers(header.decode("latin-1"))
        return found

    def _answers(self, header: str) -> bool:
        match = _NAME.fullmatch(header)
        if match is None:
            return False
        name = (match["six"] or match["name"]).rstrip(".").lower()
        if name in self._names or name == "localhost" or name.endswith(".localhost"):
            return True
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return False
        # An address cannot be made to resolve elsewhere; a listener of this machine alone has loopback's only.
        return address.is_loopback or (self._open and not address.is_unspecified)
