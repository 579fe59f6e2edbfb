"""The commands an agent finds in the sandbox: mail, chat, calendar, crontab, pkg. Plain clients of real protocols.

mail ─ SMTP, POP3 · calendar ─ CalDAV · chat, crontab, pkg ─ HTTP          (run by the sandbox's own Python)
"""

import argparse
import email
import io
import json
import poplib
import re
import smtplib
import sys
import urllib.error
import urllib.request
import zipfile
from email import policy
from email.message import EmailMessage
from pathlib import Path

PORTS = json.loads(Path("/opt/desk/ports.json").read_text())
ME = "robin@corp.example"
WORK = "http://calendar.corp.example/robin/work/"


def web(method, url, body=None, **headers):
    """What a server answers."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({"http": f"http://127.0.0.1:{PORTS['web']}"}))
    request = urllib.request.Request(url, None if body is None else body.encode(), headers, method=method)
    try:
        with opener.open(request, timeout=30) as reply:
            return reply.read()
    except urllib.error.HTTPError as error:
        sys.exit(f"error: {error.read().decode(errors='replace').strip() or error}")
    except OSError as error:
        sys.exit(f"error: the service does not answer: {error}")


def mailbox():
    """The mailbox, opened."""
    box = poplib.POP3("127.0.0.1", PORTS["pop"], timeout=30)
    box.user(ME)
    box.pass_("robin")
    return box


def mail(words):
    """mail list | read N | delete N | send --to ADDRESS --subject WORDS [--attach FILE] [TEXT]"""
    parser = argparse.ArgumentParser(prog="mail", description=mail.__doc__)
    doing = parser.add_subparsers(dest="what", required=True)
    doing.add_parser("list")
    for name in ("read", "delete"):
        doing.add_parser(name).add_argument("number", type=int)
    send = doing.add_parser("send")
    send.add_argument("--to", action="append", required=True)
    send.add_argument("--subject", required=True)
    send.add_argument("--attach", action="append", default=[])
    send.add_argument("text", nargs="?", help="read from standard input when left out")
    given = parser.parse_args(words)
    if given.what == "send":
        message = EmailMessage()
        message["From"], message["To"], message["Subject"] = ME, ", ".join(given.to), given.subject
        message.set_content(sys.stdin.read() if given.text is None else given.text)
        for name in given.attach:
            content = Path(name).read_bytes()
            message.add_attachment(content, maintype="application", subtype="octet-stream", filename=Path(name).name)
        with smtplib.SMTP("127.0.0.1", PORTS["smtp"], timeout=30) as server:
            server.send_message(message)
        print(f"sent to {', '.join(given.to)}")
        return
    box = mailbox()
    if given.what == "delete":
        box.dele(given.number)
        print(f"deleted {given.number}")
    for line in box.list()[1] if given.what == "list" else [str(given.number).encode()] if given.what == "read" else []:
        number = int(line.split()[0])
        raw = b"\r\n".join(box.retr(number)[1])
        message = email.message_from_bytes(raw, policy=policy.default)
        if given.what == "list":
            print(f"{number}\t{message['From']}\t{message['Subject']}")
        else:
            body = message.get_body(("plain", "html"))
            print(*(f"{name}: {message[name]}" for name in ("From", "To", "Date", "Subject")), "", sep="\n")
            print(body.get_content() if body else "")
    box.quit()


def chat(words):
    """chat channels | read CHANNEL | send CHANNEL TEXT"""
    match words:
        case ["channels"]:
            print("\n".join(json.loads(web("GET", "http://chat.corp.example/"))))
        case ["read", name]:
            for said in json.loads(web("GET", f"http://chat.corp.example/{name.lstrip('#')}")):
                print(f"{said['by']}: {said['text']}")
        case ["send", name, text]:
            print(web("POST", f"http://chat.corp.example/{name.lstrip('#')}", text).decode().strip())
        case _:
            sys.exit(f"usage: {chat.__doc__}")


def calendar(words):
    """calendar list | delete UID | add --title T --start 20260302T100000Z --end E [--location L] [--notes N] [--invite A]"""  # noqa: E501
    parser = argparse.ArgumentParser(prog="calendar", description=calendar.__doc__)
    doing = parser.add_subparsers(dest="what", required=True)
    doing.add_parser("list")
    doing.add_parser("delete").add_argument("uid")
    add = doing.add_parser("add")
    for name in ("title", "start", "end"):
        add.add_argument(f"--{name}", required=True)
    for name in ("location", "notes", "uid"):
        add.add_argument(f"--{name}", default="")
    add.add_argument("--invite", action="append", default=[])
    given = parser.parse_args(words)
    if given.what == "list":
        text = web("GET", WORK).decode().replace("\r\n ", "").replace("\r\n", "\n")
        for block in sorted(re.findall(r"BEGIN:VEVENT\n(.*?)END:VEVENT", text, re.DOTALL)):
            kept = [line for line in block.split("\n") if line and not line.startswith("DTSTAMP")]
            print("\n".join(kept).replace("\\n", "\n  ").replace("\\,", ",").replace("\\;", ";"), end="\n\n")
    elif given.what == "delete":
        web("DELETE", f"{WORK}{given.uid}.ics")
        print(f"deleted {given.uid}")
    else:
        uid = given.uid or re.sub(r"[^a-z0-9]+", "-", f"{given.title}-{given.start}".lower())
        fields = {"UID": uid, "DTSTAMP": "20260301T000000Z", "DTSTART": given.start, "DTEND": given.end}
        for name, value in (("SUMMARY", given.title), ("LOCATION", given.location), ("DESCRIPTION", given.notes)):
            if value:
                fields[name] = value.replace("\\", "\\\\").replace("\n", "\\n").replace(",", "\\,").replace(";", "\\;")
        lines = [
            "BEGIN:VCALENDAR",
            "VERSION:2.0",
            "PRODID:desk",
            "BEGIN:VEVENT",
            *(f"{k}:{v}" for k, v in fields.items()),
        ]
        lines += [f"ATTENDEE:mailto:{each}" for each in given.invite]
        text = "\r\n".join([*lines, "END:VEVENT", "END:VCALENDAR", ""])
        web("PUT", f"{WORK}{uid}.ics", text, **{"Content-Type": "text/calendar"})
        print(f"added {uid}")


def crontab(words):
    """crontab -l | -r | FILE (or - for standard input)"""
    match words:
        case ["-l"]:
            print(web("GET", "http://cron.corp.example/").decode().strip())
        case ["-r"]:
            web("PUT", "http://cron.corp.example/", "")
        case [name]:
            text = sys.stdin.read() if name == "-" else Path(name).read_text()
            web("PUT", "http://cron.corp.example/", text)
        case _:
            sys.exit(f"usage: {crontab.__doc__}")


def pkg(words):
    """pkg search [WORD] | install NAME[==VERSION] [FOLDER]    (into ./vendor by default)"""
    match words:
        case ["search", *rest]:
            for name, summary in json.loads(web("GET", "http://packages.corp.example/search")).items():
                if not rest or rest[0].lower() in f"{name} {summary}".lower():
                    print(f"{name}\t{summary}")
        case ["install", wanted, *rest]:
            name, _, version = wanted.partition("==")
            page = web("GET", f"http://packages.corp.example/simple/{name}/").decode()
            wheels = [
                each for each in re.findall(r'href="(/files/[^"]+)"', page) if not version or f"-{version}-" in each
            ]
            if not wheels:
                sys.exit(f"error: there is no {wanted}")
            place = Path(rest[0] if rest else "vendor")
            with zipfile.ZipFile(io.BytesIO(web("GET", f"http://packages.corp.example{wheels[-1]}"))) as archive:
                archive.extractall(place)
                print(f"installed {wheels[-1].split('/')[-1]} into {place}: {' '.join(archive.namelist())}")
        case _:
            sys.exit(f"usage: {pkg.__doc__}")


if __name__ == "__main__":
    {"mail": mail, "chat": chat, "calendar": calendar, "crontab": crontab, "pkg": pkg}[sys.argv[1]](sys.argv[2:])
