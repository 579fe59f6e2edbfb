"""The services of one episode, on this machine's loopback, and their state as the checker reads it.

    Office(services) ─▶ start ─▶ ports (doors of the sandbox) ─▶ state() ─▶ stop

The agent reaches the ports and nothing behind them: the state is this process's own.
"""

from __future__ import annotations

import asyncio
import re
import shutil
import tempfile
from pathlib import Path

from silva.envs.gyms.openclaw.post import Post
from silva.envs.gyms.openclaw.web import COLLECTION, Web
from silva.errors import SilvaError, UsageError
from silva.tree import Json

_KNOWN = {"mail", "chat", "calendar", "pages", "packages", "cron"}
_FIELD = re.compile(r"^([A-Z-]+)[^:\n]*:(.*)$", re.MULTILINE)


class Office:
    """Mail, chat, calendar, web, packages and cron for one episode."""

    def __init__(self, services: Json) -> None:
        unknown = sorted(set(services) - _KNOWN)
        if unknown:
            raise UsageError(f"services: there is no service {unknown[0]!r}; there are {', '.join(sorted(_KNOWN))}")
        self._folder = Path(tempfile.mkdtemp(prefix="silva-office-"))
        self._events: list[Json] = list(services.get("calendar") or ())
        self.post = Post(services.get("mail") or [])
        self.web = Web(services, self._folder)

    async def start(self) -> None:
        """Begin to serve."""
        await self.post.start()
        await asyncio.to_thread(self._open)

    def _open(self) -> None:
        self.web.asked("MKCALENDAR", COLLECTION)
        for event in self._events:
            self.web.asked("PUT", f"{COLLECTION}{event.get('uid', '')}.ics", written(event).encode())
        self.web.start()

    @property
    def ports(self) -> dict[str, int]:
        """Where each is, by name."""
        return {"web": self.web.port, "smtp": self.post.smtp, "pop": self.post.pop}

    def check(self) -> None:
        """Are all services there?

        Raises:
            SilvaError: one is dead; the line names it.
        """
        dead = [name for name, there in (("mail", self.post.serving), ("web", self.web.serving)) if not there]
        if dead:
            raise SilvaError(
                f"openclaw: the {dead[0]} service is dead: what the agent did cannot be told, play it again"
            )

    async def state(self) -> Json:
        """What the services hold: `sent`, `inbox`, `chat`, `cron`, `posts`, `visits`, `fetched`, `events`."""
        text = await asyncio.to_thread(self.web.asked, "GET", COLLECTION)
        return {**self.post.state(), **self.web.state(), "events": events(text.decode("utf-8", "replace"))}

    async def stop(self) -> None:
        """Serve no longer."""
        await self.post.stop()
        await asyncio.to_thread(self.web.stop)
        await asyncio.to_thread(shutil.rmtree, self._folder, True)


def written(event: Json) -> str:
    """An event of a task as iCalendar.

    Raises:
        UsageError: something of it is missing.
    """
    try:
        lines = ["BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//silva//openclaw//EN", "BEGIN:VEVENT"]
        lines += [
            f"UID:{event['uid']}",
            "DTSTAMP:20260301T000000Z",
            f"DTSTART:{event['start']}",
            f"DTEND:{event['end']}",
        ]
        lines += [f"SUMMARY:{_escaped(event['title'])}"]
    except KeyError as error:
        raise UsageError(f"services.calendar: an event has uid, title, start and end: {error} is missing") from error
    lines += [f"LOCATION:{_escaped(event['location'])}"] if event.get("location") else []
    lines += [f"DESCRIPTION:{_escaped(event['notes'])}"] if event.get("notes") else []
    lines += [f"ATTENDEE:mailto:{each}" for each in event.get("attendees") or ()]
    return "\r\n".join([*lines, "END:VEVENT", "END:VCALENDAR", ""])


def events(text: str) -> list[Json]:
    """The events of a calendar, by the beginning."""
    text = text.replace("\r\n", "\n").replace("\n ", "").replace("\n\t", "")
    found: list[Json] = []
    for block in re.findall(r"BEGIN:VEVENT\n(.*?)END:VEVENT", text, re.DOTALL):
        fields: dict[str, list[str]] = {}
        for name, value in _FIELD.findall(block):
            fields.setdefault(name, []).append(value.replace("\\n", "\n").replace("\\,", ",").replace("\\;", ";"))
        one = {name: values[0] for name, values in fields.items()}
        found.append(
            {
                "uid": one.get("UID", ""),
                "title": one.get("SUMMARY", ""),
                "start": one.get("DTSTART", ""),
                "end": one.get("DTEND", ""),
                "location": one.get("LOCATION", ""),
                "notes": one.get("DESCRIPTION", ""),
                "attendees": [each.removeprefix("mailto:").lower() for each in fields.get("ATTENDEE", [])],
            }
        )
    return sorted(found, key=lambda event: (event["start"], event["uid"]))


def _escaped(text: object) -> str:
    return str(text).replace("\\", "\\\\").replace("\n", "\\n").replace(",", "\\,").replace(";", "\\;")
