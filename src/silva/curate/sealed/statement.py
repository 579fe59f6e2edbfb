"""The statement that goes with a release: which program or question, on which data, by which gate, at what cost.

An in-toto statement in a DSSE envelope, signed with Ed25519 by the key of the sealed set; anybody who has the public
key checks it.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from typing import Any

from silva.curate.sealed.keys import Keys, verified
from silva.errors import UsageError

STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "urn:silva:sealed-release:1"
PAYLOAD = "application/vnd.in-toto+json"


def signed(reply: bytes, data: str, predicate: dict[str, Any], keys: Keys) -> bytes:
    """The envelope for a reply.

    Args:
        reply: what was given to who asked.
        data: sha256 of the sealed rows.
        predicate: question, gate, costs.
        keys: sign it.
    """
    statement = {
        "_type": STATEMENT,
        "subject": [{"name": "release.json", "digest": {"sha256": hashlib.sha256(reply).hexdigest()}}],
        "predicateType": PREDICATE,
        "predicate": {"data": {"sha256": data}, **predicate},
    }
    payload = json.dumps(statement, sort_keys=True).encode()
    signature = base64.b64encode(keys.sign(_pae(payload))).decode()
    envelope = {
        "payloadType": PAYLOAD,
        "payload": base64.b64encode(payload).decode(),
        "signatures": [{"keyid": keys.public, "sig": signature}],
    }
    return json.dumps(envelope).encode() + b"\n"


def checked(envelope: bytes, reply: bytes, public: str) -> dict[str, Any]:
    """The statement of an envelope.

    Raises:
        UsageError: it is none, is not signed by that key, or speaks of another release.
    """
    try:
        found = json.loads(envelope)
        payload = base64.b64decode(found["payload"], validate=True)
        signature = base64.b64decode(found["signatures"][0]["sig"], validate=True)
        statement = json.loads(payload)
        subject = statement["subject"][0]["digest"]["sha256"]
    except (ValueError, KeyError, IndexError, TypeError, binascii.Error) as error:
        raise UsageError("the statement is no signed in-toto statement") from error
    if found.get("payloadType") != PAYLOAD or not verified(_pae(payload), signature, public):
        raise UsageError("the statement is not signed by that key")
    if subject != hashlib.sha256(reply).hexdigest():
        raise UsageError("the statement speaks of another release")
    return statement


def _pae(payload: bytes) -> bytes:
    """DSSE's encoding of what is signed."""
    kind = PAYLOAD.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)
