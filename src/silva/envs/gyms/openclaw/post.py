"""A mail server: SMTP takes what is sent (aiosmtpd), POP3 gives what is in the one mailbox.

    mail in the sandbox ─ SMTP ─▶ Post.sent            Post.inbox ─ POP3 ─▶ mail in the sandbox

What is sent to the mailbox's own address arrives in it. Nothing leaves this process.
"""

from __future__ import annotations

import asyncio
from email import message_from_bytes, policy
from email.message import EmailMessage
from email.utils import getaddresses
from typing import Any

from aiosmtpd.smtp import SMTP, Envelope, Session

from silva.errors import UsageError
from silva.tree import Json

ADDRESS = "robin@corp.example"
"""Whose mailbox it is."""
_MOST_MAIL = 1 << 20
_MOST_MAILS = 200


class Post:
    """One mailbox, and all that was sent."""

    def __init__(self, inbox: list[Json]) -> None:
        self.inbox: list[bytes] = [_written(mail) for mail in inbox]
        self.sent: list[bytes] = []
        self._servers: list[asyncio.Server] = []
        self.smtp = self.pop = 0

    async def start(self) -> None:
        """Listen; `smtp` and `pop` are the ports."""
        loop = asyncio.get_running_loop()
        taking = await loop.create_server(
            lambda: SMTP(
                self, data_size_limit=_MOST_MAIL, enable_SMTPUTF8=True, loop=loop, hostname="mail.corp.example"
            ),
            "127.0.0.1",
            0,
        )
        giving = await asyncio.start_server(self._give, "127.0.0.1", 0)
        self._servers = [taking, giving]
        self.smtp, self.pop = (server.sockets[0].getsockname()[1] for server in self._servers)

    async def stop(self) -> None:
        """Listen no longer."""
        for server in self._servers:
            server.close()
        self._servers = []

    @property
    def serving(self) -> bool:
        """Whether both servers listen."""
        return len(self._servers) == 2 and all(server.is_serving() for server in self._servers)

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:
        """A mail was sent."""
        content = envelope.content if isinstance(envelope.content, bytes) else str(envelope.content or "").encode()
        if len(self.sent) >= _MOST_MAILS:
            return "452 too many mails"
        # The envelope says who gets it, whatever the headers say.
        self.sent.append(b"X-Envelope-To: " + ", ".join(envelope.rcpt_tos).encode() + b"\r\n" + content)
        if ADDRESS in (each.lower() for each in envelope.rcpt_tos):
            self.inbox.append(content)
        return "250 OK"

    def state(self) -> Json:
        """What was sent and what is in the mailbox, read."""
        return {"sent": [_read(mail) for mail in self.sent], "inbox": [_read(mail) for mail in self.inbox]}

    async def _give(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._talk(reader, writer)
        except (ConnectionError, ValueError, asyncio.IncompleteReadError):
            pass  # it hung up, or sent what is no line
        finally:
            writer.close()

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        gone: set[int] = set()
        mails = list(self.inbox)

        def ok(text: str = "") -> None:
            writer.write(f"+OK {text}\r\n".encode())

        def listed(lines: list[str]) -> None:
            ok()
            writer.write("".join(f"{line}\r\n" for line in lines).encode() + b".\r\n")

        ok("ready")
        while line := await reader.readline():
            word, _, rest = line.decode("latin-1").strip().partition(" ")
            first = rest.split(" ")[0]
            number = int(first) - 1 if first.isdigit() else -1
            there = 0 <= number < len(mails) and number not in gone
            left = [(place, mail) for place, mail in enumerate(mails) if place not in gone]
            match word.upper():
                case "USER" | "PASS" | "NOOP":
                    ok()
                case "CAPA":
                    listed(["USER", "UIDL", "TOP"])
                case "STAT":
                    ok(f"{len(left)} {sum(len(mail) for _, mail in left)}")
                case "LIST" if not rest:
                    listed([f"{place + 1} {len(mail)}" for place, mail in left])
                case "UIDL" if not rest:
                    listed([f"{place + 1} m{place + 1}" for place, _ in left])
                case "RETR" | "TOP" if there:
                    ok()
                    body = mails[number].replace(b"\r\n", b"\n").split(b"\n")
                    writer.write(b"".join((b"." if each.startswith(b".") else b"") + each + b"\r\n" for each in body))
                    writer.write(b".\r\n")
                case "DELE" if there:
                    gone.add(number)
                    ok("deleted")
                case "RSET":
                    gone.clear()
                    ok()
                case "QUIT":
                    self.inbox = [mail for mail in self.inbox if all(mail is not mails[place] for place in gone)]
                    ok("bye")
                    await writer.drain()
                    return
                case _:
                    writer.write(b"-ERR no such command, or no such mail\r\n")
            await writer.drain()


def _written(mail: Json) -> bytes:
    message = EmailMessage(policy=policy.SMTP)
    try:
        message["From"], message["To"] = str(mail["from"]), str(mail.get("to", ADDRESS))
        message["Subject"] = str(mail["subject"])
        message["Date"] = str(mail.get("date", "Mon, 02 Mar 2026 08:00:00 +0000"))
        message.set_content(str(mail["text"]))
    except (KeyError, ValueError, AttributeError) as error:
        raise UsageError(f"services.mail: a mail has from, subject and text: {error}") from error
    return message.as_bytes()


def _read(raw: bytes) -> Json:
    message = message_from_bytes(raw, policy=policy.default)
    assert isinstance(message, EmailMessage)
    told = [address for _, address in getaddresses(message.get_all("X-Envelope-To", []) or message.get_all("To", []))]
    attached: dict[str, str] = {}
    text = ""
    for part in message.walk():
        if part.is_multipart():
            continue
        content: Any = part.get_payload(decode=True) or b""
        words = content.decode("utf-8", "replace")
        if part.get_filename():
            attached[str(part.get_filename())] = words
        else:
            text += words
    subject, sender = str(message.get("Subject", "")), str(message.get("From", ""))
    return {
        "from": sender,
        "to": [each.lower() for each in told],
        "subject": subject,
        "text": text,
        "attached": attached,
    }
