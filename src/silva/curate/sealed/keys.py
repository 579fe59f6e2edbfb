"""The key of a sealed set: in an environment variable, never on a command line or in a file of Silva's.

SILVA_SEAL_KEY (32 bytes, base64) ─▶ a key that encrypts the rows · a key that signs approvals and releases
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import secrets
from types import ModuleType

from silva.errors import MissingError, UsageError

VARIABLE = "SILVA_SEAL_KEY"
_SIZE = 32


def sodium() -> ModuleType:
    """libsodium's bindings.

    Raises:
        MissingError: they are not installed.
    """
    try:
        from nacl import bindings
    except ImportError as error:
        raise MissingError("sealed sets need: pip install 'silva[seal]'") from error
    return bindings


def drawn() -> str:
    """A new key, as the variable holds it."""
    return base64.b64encode(secrets.token_bytes(_SIZE)).decode()


class Keys:
    """What follows from one key: `rows` encrypts, `public` (hex) is what signatures are checked with.

    Raises:
        UsageError: the variable is not set, or holds no key.
    """

    def __init__(self, variable: str = VARIABLE) -> None:
        given = os.environ.get(variable, "")
        if not given:
            raise UsageError(
                f"${variable} is not set: put the key of the sealed set there (`silva lake seal --new-key`)"
            )
        try:
            key = base64.b64decode(given, validate=True)
        except binascii.Error:
            key = b""
        if len(key) != _SIZE:
            raise UsageError(f"${variable} holds no key: it is {_SIZE} bytes in base64 (`silva lake seal --new-key`)")
        self.rows = _derived(key, b"rows")
        public, self._secret = sodium().crypto_sign_seed_keypair(_derived(key, b"signatures"))
        self.public: str = public.hex()

    def sign(self, message: bytes) -> bytes:
        """The Ed25519 signature of a message."""
        return sodium().crypto_sign(message, self._secret)[: sodium().crypto_sign_BYTES]


def verified(message: bytes, signature: bytes, public: str) -> bool:
    """Whether who holds the key that belongs to `public` (hex) signed the message."""
    from nacl.exceptions import BadSignatureError

    try:
        sodium().crypto_sign_open(signature + message, bytes.fromhex(public))
    except (BadSignatureError, ValueError, TypeError):
        return False
    return True


def _derived(key: bytes, purpose: bytes) -> bytes:
    return hashlib.blake2b(key=key, person=purpose[:16], digest_size=_SIZE).digest()
