"""What a viewer says to a VNC server, message by message: so that looking can be let through, and acting left out.

    bytes ─▶ Watcher ─▶ version · security · share ─▶ messages, whole ─▶ those that act left out ─▶ bytes

Message types and lengths are those of RFC 6143, and of the extensions noVNC uses (fences, continuous updates, extended
key events, desktop size). Anything else ends the connection: a message of unknown length cannot be told from the next.
"""

from __future__ import annotations

_HANDSHAKE = (12, 1, 1)
"""Bytes of the viewer's version, of the security type it chooses, and of whether it shares."""
_LENGTHS = {0: 20, 3: 10, 4: 8, 5: 6, 150: 10, 255: 12}
_ACTS = {4, 5, 6, 251, 255}
"""Keys, pointer, clipboard, the desktop's size, extended keys."""
_MOST = 1 << 20


class Watcher:
    """One viewer's side of a connection. `typing`: whether what acts is let through."""

    def __init__(self, typing: bool) -> None:
        self._typing = typing
        self._held = bytearray()
        self._greeting = list(_HANDSHAKE)

    def passed(self, data: bytes) -> bytes:
        """What of the bytes so far may go on to the server.

        Raises:
            ValueError: a message that is not known, or too long.
        """
        self._held += data
        out = bytearray()
        while self._held:
            length = self._greeting[0] if self._greeting else self._length()
            if length is None or len(self._held) < length:
                break
            message = self._held[:length]
            del self._held[:length]
            if self._greeting:
                self._greeting.pop(0)
                out += message
            elif self._typing or message[0] not in _ACTS:
                out += message
        return bytes(out)

    def _length(self) -> int | None:
        """Bytes of the message that begins here; None where too little is there to tell."""
        kind, held = self._held[0], self._held
        if kind in _LENGTHS:
            return _LENGTHS[kind]
        if kind == 2:  # encodings
            return None if len(held) < 4 else 4 + 4 * int.from_bytes(held[2:4], "big")
        if kind == 6:  # clipboard; a negative length says that it is an extended one
            if len(held) < 8:
                return None
            length = 8 + abs(int.from_bytes(held[4:8], "big", signed=True))
        elif kind == 248:  # fence
            return None if len(held) < 9 else 9 + held[8]
        elif kind == 251:  # desktop size
            return None if len(held) < 8 else 8 + 16 * held[6]
        else:
            raise ValueError(f"message type {kind} is not known")
        if length > _MOST:
            raise ValueError("a message is too long")
        return length
