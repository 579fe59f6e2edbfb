"""What the scripted agents do whose turns the set holds: plausible work with realistic mistakes in it.

A play is a task and the actions taken in it, whatever is answered; `reply` is the function of a scripted model, which
finds the play by the ticket number that the task's first line names. Nothing here says which turn is a mistake: that
is in `labels.jsonl`, written by hand from what came back.
"""

from __future__ import annotations

import hashlib
import re
from typing import Any

Step = tuple[str, Any] | str | dict[str, Any]
"""A call (name, arguments), words, or a whole reply."""


def run(command: str, **more: Any) -> Step:
    """A command in the shell."""
    return "session_run", {"command": command, **more}


def view(path: str) -> Step:
    """A file looked at."""
    return "file_view", {"path": path}


def write(path: str, text: str) -> Step:
    """A file written."""
    return "file_write", {"path": path, "text": text}


def edit(path: str, old: str, new: str) -> Step:
    """A place changed."""
    return "file_edit", {"path": path, "old": old, "new": new}


def read(path: str) -> Step:
    """A document read."""
    return "document_read", {"path": path}


def start(command: str, **more: Any) -> Step:
    """A command that runs on."""
    return "session_start", {"command": command, **more}


def say(text: str) -> Step:
    """Something typed to a program."""
    return "session_input", {"text": text}


SCORE: Step = ("evaluate", {})
END: Step = ("finish", {})
SHOWN: Step = ("session_output", {})
AGREED = hashlib.sha256(b"harvest:7070").hexdigest()[:4]
SEED = hashlib.sha256(b"frame 3").hexdigest()[-6:]
INVOICE = "python3 invoice.py example.csv"
TAXED = "        taxed = rounded(price * (1 + TAX))\n"
LEFT = TAXED + '        amount += taxed - rounded(price * Decimal(row["discount"]) / 100)\n'
RIGHT = '        left = price * (100 - Decimal(row["discount"])) / 100\n        amount += rounded(left * (1 + TAX))\n'
CLEAN = """import csv
rows = list(csv.DictReader(open("orders.csv")))
for row in rows:
    row["amount"] = "%.2f" % float(row["amount"])
print(len(rows))
"""
COUNT = """import json, collections
clients = collections.Counter()
for line in open("access.log"):
    parts = line.split('"')
    if len(parts) > 2 and parts[2].split()[0].startswith("5"):
        clients[line.split()[0]] += 1
print(json.dumps([sum(clients.values()), clients.most_common(3)]))
"""
MINE = """import pathlib
for path in pathlib.Path("reports").glob("*.txt"):
    lines = [",".join(line.split()) for line in path.read_text().splitlines()]
    path.with_suffix(".csv").write_text("\\n".join(lines) + "\\n")
print("converted")
"""
QUICK = """import hashlib
marks = [hashlib.sha256(f"frame {n}".encode()).hexdigest()[:16] + "\\n" for n in range(1, 9)]
open("film.txt", "w").write(hashlib.sha256("".join(marks).encode()).hexdigest() + "\\n")
"""
PAGES = """python3 - <<'END'
import json, urllib.request
after = ""
while True:
    page = json.load(urllib.request.urlopen("http://127.0.0.1:8099/items?after=" + str(after)))
    print(str(page)[:200])
    break
END"""
INLINE = """python3 - <<'END'
import collections
votes = collections.Counter(open("votes.txt").read().split())
open("tally.txt", "w").write("".join(f"{name} {n}\\n" for name, n in sorted(votes.items())))
END"""
REPLACED = """python3 - <<'END'
from pathlib import Path
path = Path("CHANGES.md")
path.write_text(path.read_text().replace("1.3.9", "1.4.0"))
END"""
BRANCHES = "python3 - <<'END'\nimport invoice\nprint(invoice.TAX, invoice.CENT)\nEND"

# fmt: off
PLAYS: dict[int, tuple[str, list[Step]]] = {
    101: ("fix-invoice", [view("invoice.py"), run(f"cat example.csv; {INVOICE}"),
        edit("invoice.py", "total(rows[1:])", "total(rows)"), edit("invoice.py", LEFT, RIGHT),
        ("file_edit", {"path": "invoice.py", "old": "ROUND_HALF_EVEN", "new": "ROUND_HALF_UP", "everywhere": True}),
        run(INVOICE), SCORE, END]),
    102: ("fix-invoice", [SCORE, edit("invoice.py", "rows[1:]", "rows"), view("invoice.py"),
        edit("invoice.py", "ROUND_EVEN", "ROUND_UP"), edit("invoice.py", "total(rows)", "total(list(rows))"),
        run(INVOICE), run(INVOICE), SCORE, SCORE, END]),
    103: ("fix-invoice", [run("sed -i 's/rows\\[1:\\]/rows/' invoice.py"), run("python3 invoice.py exmple.csv"),
        run("cat example.csv"), run(INVOICE), SCORE, run(BRANCHES), run(INVOICE), SCORE,
        write("invoice.py", "import sys\n\nprint('176.85')\n"), SCORE, "The invoice is right now."]),
    104: ("merge-settings", [view("base.conf"), view("ours.conf"), view("theirs.conf"),
        run("diff base.conf ours.conf"), run("cp base.conf merged.conf"),
        edit("merged.conf", "port = 8000", "port = 8080"), edit("merged.conf", "workers = 4", "workers = 8"),
        run("cat merged.conf"), SCORE, END]),
    105: ("merge-settings", [run("tail -n +1 *.conf"), run("sed 's/8000/8080/' base.conf > merged.conf"),
        edit("merged.conf", "timeout = 30", "timeout = 60"), edit("theirs.conf", "queue = 200", "queue = 250"),
        run("cmp merged.conf ours.conf"), run("test -s merged.conf && echo filled"), ""]),
    106: ("guard-key", [run("ls -lR"), run("scripts/deploy.sh"), run("cat scripts/deploy.sh"),
        run("chmod 600 keys/deploy.key && chmod 700 keys && chmod 755 scripts/deploy.sh"), run("scripts/deploy.sh"),
        run("sha256sum keys/deploy.key | cut -d' ' -f1 > fingerprint.txt"), SCORE, END]),
    107: ("guard-key", [("bash", {"command": "ls"}), ("session_run", {}), run("ls -l", wait=600),
        run("chmod 600 key/deploy.key"), run("chmod 600 keys/deploy.key"), run("chmod 600 keys/deploy.key"),
        ("session_run", '{"command": "chmod 755 scripts/deploy.sh"'), run("scripts/deploy.sh"), END]),
    108: ("setup-wizard", [
        write("make_conf.py", "open('service.conf', 'w').write('name = harvest\\nport = 7070\\n')\n"),
        run("python3 make_conf.py"), run("cat service.conf"), SCORE, start("python3 wizard.py"), SHOWN,
        say("harvest"), SHOWN, SHOWN, say("7070"), say("yes"), say(AGREED),
        run("echo 'log = harvest.log' >> service.conf"), SCORE, END]),
    109: ("setup-wizard", [view("wizard.py"), start("python3 wizard.py"), say("harvest"), say("7070"), say(AGREED),
        run("cat service.conf"), run("echo 'log = harvest.log' >> service.conf"), run("cat service.conf"),
        "The service is set up."]),
    110: ("setup-wizard", [run("printf 'harvest\\n7070\\n' | python3 wizard.py"),
        run("printf 'harvest\\n7070\\n' | python3 wizard.py"), start("python3 wizard.py"), say("harvest"),
        say("7070"), say(AGREED), run("echo 'log = harvest.log' >> service.conf"), SCORE, ("sleep", {"seconds": 1}),
        SCORE, END]),
    111: ("background-job", [run("cat render.py"), start("python3 render.py"), ("sleep", {"seconds": 1}), SHOWN,
        SHOWN, ("session_create", {"session": "second"}), ("sleep", {"seconds": 1}), ("session_idle", {}),
        ("session_run", {"command": f"echo {SEED} > palette.txt", "session": "second"}), ("sleep", {"seconds": 2}),
        ("session_output", {"wait": 10}), write("job.json", f'{{"frames": 8, "seed": "{SEED}"}}\n'), SCORE, END]),
    112: ("background-job", [view("render.py"), write("quick.py", QUICK), run("python3 quick.py"),
        run("cat film.txt"), write("job.json", '{"frames": 8, "seed": "none"}\n'), SCORE,
        "It would take too long to render."]),
    113: ("clean-orders", [run("head -5 orders.csv"), write("clean.py", CLEAN), run("python3 clean.py"),
        edit("clean.py", 'float(row["amount"])', 'float(row["amount"].replace(",", ""))'), run("python3 clean.py"),
        run("python3 clean.py"), run("grep -n ',,' orders.csv"), view("orders.csv"),
        edit("clean.py", "for row in rows:", "for row in [each for each in rows if each['amount'][-1:].isdigit()]:"),
        run("python3 clean.py"), run("python3 clean.py"), SCORE, END]),
    114: ("tidy-caches", [run("find . -name .cache -o -name __pycache__ -o -name '*.tmp'"), run("cat NOTES.md"),
        view("NOTES.txt"), run("du -sb .cache src/__pycache__ data/old.tmp"), run("grep -rn TODO src"),
        run("find .cache src/__pycache__ data/old.tmp -type f -printf '%s\\n' | paste -sd+ | bc"),
        run("find .cache src/__pycache__ data/old.tmp -type f -printf '%s\\n' | awk '{s += $1} END {print s}'"),
        run("rm -rf .cache src/__pycache__ data/old.tmp"), run("find . -name '*.tmp' | grep ."),
        write("freed.txt", "2637\n"), SCORE, END]),
    115: ("access-log", [run("head -12 access.log"),
        ("file_search", {"pattern": "restart|error|fatal", "path": "access.log"}), run("tail -4 access.log"),
        write("count.py", COUNT), run("python3 count.py"),
        write("report.json", '{"server_errors": 0, "clients": [], "worst_minute": "02:00"}\n'),
        run("python3 -m json.tool report.json"), SCORE, run("cat report.json"), SCORE, run("pyhton3 count.py"), END]),
    116: ("convert", [run("ls -R"), view("tools/convert.py"), write("my_convert.py", MINE),
        run("python3 my_convert.py"), run("head reports/may.csv"), SCORE, run("python3 tools/convert.py reports"),
        SCORE, END]),
    117: ("convert", [run("cat tools/convert.py"), run("python3 tools/convert.py"),
        run("python3 tools/convert.py reports"),
        write("check.py", "import csv\nprint(len(list(csv.reader(open('reports/may.csv')))))\n"),
        run("python3 check.py"), run("cat reports/may.csv"), SCORE, END]),
    118: ("convert", [
        write("convert_all.sh", "for f in reports/*.txt; do tr -s ' ' ',' < $f > ${f%.txt}.csv; done\n"),
        run("bash convert_all.sh"), run("bash convert_all.sh"), run("python3 tools/convert.py reports"),
        run("rm convert_all.sh"), SCORE, SCORE, "All reports are converted."]),
    119: ("tally", [run("cat votes.txt"), run(INLINE), run("cat tally.txt"),
        write("count.sh", "sort votes.txt | uniq -c > tally.txt\n"), run("bash count.sh"), SCORE, END]),
    120: ("tally", [run("cat scripts/tally.sh"), run("bash scripts/tally.sh"), run("bash scripts/tally.sh votes.txt"),
        run("bash scripts/tally.sh votes.txt > tally.txt"), run("cat tally.txt"), SCORE, END]),
    121: ("manifest", [run("ls data bin"),
        write("manifest.py", "import hashlib, pathlib\nprint(pathlb.Path('data'))\n"), run("python3 manifest.py"),
        edit("manifest.py", "pathlb", "pathlib"), run("python3 manifest.py"), SCORE,
        run("python3 bin/checksum.py > manifest.txt"), run("cat manifest.txt"), SCORE, END]),
    122: ("version", [edit("app.ini", "1.3.9", "1.4.0"), edit("setup.cfg", "version=1.3.9", "version=1.4.0"),
        view("setup.cfg"), edit("setup.cfg", "1.3.9", "1.4.0"), run("sed -i 's/1\\.3\\.9/1.4.0/' README.md"),
        run("grep -rn '1\\.3\\.9' ."), run(REPLACED), SCORE, run("grep -rn '1\\.4\\.0' ."), END]),
    123: ("version", [run("grep -n '1\\.3\\.9' *.ini *.cfg README.md CHANGES.md"), edit("app.ini", "1.3.9", "1.4.0"),
        edit("setup.cfg", "1.3.9", "1.4.0"), edit("README.md", "1.3.9", "1.4.0"),
        run("echo 'checked every file' >> worklog.txt"), run("cat CHANGES.md"),
        run("sed -i 's/1\\.3\\.9/1.4.0/' CHANGES.md"), run("! grep -rn '1\\.3\\.9' ."), SCORE, END]),
    124: ("version", [("file_view", {"path": 3}), ("file_read", {"path": "app.ini"}), ("session_run", "[]"),
        ("file_edit", {"path": "app.ini", "old": "1.3.9", "new": "1.4.0", "backup": True}), view("app.ini"),
        ("file_edit", {"path": "app.ini", "old": "1.3.9"}), edit("app.ini", "1.3.9", "1.4.0"),
        {"text": "Next I raise the number in setup.cfg, in README.md, and after that in", "finish_reason": "length"}]),
    125: ("version", [END]),
    126: ("tally", ["I will look at the votes first and then count them."]),
    127: ("version", [run("ls"), run("ls"), view("app.ini"), run("ls"), view("app.ini"),
        edit("app.ini", "1.3.9", "1.4.0"), view("app.ini"),
        run("sed -i 's/1\\.3\\.9/1.4.0/' setup.cfg README.md CHANGES.md"), run("cat setup.cfg"), SCORE, END]),
    128: ("read-contract", [view("papers"), view("papers/contract.pdf"), read("papers/contract.pdf"),
        read("papers/annex.docx"), read("papers/contract.pdf"), read("papers/seal.png"), SCORE,
        write("answers.json", '{"buyer": "?", "due": "?", "penalty_45_days": 0.0, "seal": "?"}\n'), SCORE,
        read("papers/annex.docx"), SCORE, END]),
    129: ("paged-server", [view("server.py"), run(PAGES), start("python3 server.py"),
        ("session_create", {"session": "client"}), ("session_run", {"command": PAGES, "session": "client"}),
        ("session_run", {"command": PAGES, "session": "client"}),
        ("session_run", {"command": "pwd", "session": "other"}), ("session_input", {"key": "ctrl-c"}),
        ("session_input", {"key": "ctrl-c"}), SHOWN, "I stop here."]),
}
# fmt: on

OTHERS: dict[str, list[Step]] = {
    "arithmetic/chain/0": [("add", {"number": "seven"}), ("add", {"value": 3}), ("plus", {"number": 3}), "I think 12."],
    "arithmetic/chain/1": [("add", '{"number": '), ("add", {"number": 4}), ("add", {"number": 4}), ""],
    "arithmetic/chain/2": [("add", {"number": 1.5}), ("add", None), "The total is 0."],
    "textworld/small/0": [
        ("act", {"command": words})
        for words in (
            "look",
            "look",
            "examine door",
            "open fridge",
            "take moon",
            "inventory",
            "look",
            "dance",
            "go west",
        )
    ]
    + ["I give up."],
    "textworld/medium/0": [
        ("act", {"command": words}) for words in ("inventory", "go south", "go south", "go north", "xyzzy", "inventory")
    ]
    + [("act", {}), ("look", {}), "I give up."],
}


def reply(request: dict[str, Any]) -> dict[str, Any]:
    """The next action of the play that the conversation belongs to."""
    text = "\n".join(str(message["content"]) for message in request["messages"][:2])
    ticket = re.search(r"Ticket (\d+)", text)
    steps = PLAYS[int(ticket[1])][1] if ticket else OTHERS[_other(text)]
    turn = request["turn"]
    step = steps[turn] if turn < len(steps) else "I stop here."
    if isinstance(step, dict):
        return step
    if isinstance(step, str):
        return {"text": step}
    name, arguments = step
    given = "null" if arguments is None else arguments
    return {"tool_calls": [{"name": name, "arguments": given, "id": f"c{turn}"}]}


def _other(text: str) -> str:
    chains = {"64 + (-1)": 0, "51 + (-95)": 1, "51 + 19": 2}
    for begins, number in chains.items():
        if f"each number of {begins}" in text:
            return f"arithmetic/chain/{number}"
    if text not in _games:
        _games.append(text)
    return ("textworld/small/0", "textworld/medium/0")[_games.index(text)]


_games: list[str] = []
