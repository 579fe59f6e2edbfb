"""Ways out, tried: from a sandbox, from an agent that is a program, and at a verdict's judge; as root and as an ordinary user.

    python benchmarks/escape.py [--json]      0 of N must have led out

Run by root, it runs itself a second time as a user without rights (`setpriv`). Marks that an attempt may leave on the machine
are empty files named `silva-escape`, and are removed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ORDINARY = 12321
MARK = "silva-escape"
HERE = Path(__file__).resolve()
PLACES = (
    "/",
    "/usr",
    "/usr/local",
    "/usr/local/bin",
    "/etc",
    "/opt",
    "/var",
    "/root",
    "/home",
    "/srv",
    "/run",
    "/boot",
    "/sys",
    "/dev",
)
ATTEMPTS = r"""
import ctypes, errno, glob, json, os, signal, socket, subprocess, sys, time
secret, port, abstract, mark = sys.argv[1], int(sys.argv[2]), sys.argv[3], "silva-escape"
libc = ctypes.CDLL(None, use_errno=True)
arm = os.uname().machine != "x86_64"
number = lambda x86, aarch64: aarch64 if arm else x86
def sh(line):
    return subprocess.run(["sh", "-c", line], capture_output=True, text=True, timeout=20)
def call(*given):
    return libc.syscall(*given) >= 0
def reach(family, address):
    with socket.socket(family, socket.SOCK_STREAM) as way:
        way.settimeout(2)
        way.connect(address)
        return True
def read(path):
    with open(path, "rb") as file:
        return bool(file.read(16))
def write(path):
    with open(path, "w") as file:
        file.write("")
    return True
def mounted(place):
    return libc.mount(b"none", place.encode(), None, 32 | 4096, None) == 0 and write(place + "/" + mark)
def status():
    return dict(line.split(":", 1) for line in open("/proc/self/status").read().splitlines() if ":" in line)
def setuid_shell():
    sh("cp /bin/sh s; chmod 4755 s")
    return sh("./s -p -c 'id -u'").stdout.strip() == "0"
tries = {
    "root's identity": lambda: os.getuid() == 0 or os.geteuid() == 0,
    "capabilities": lambda: any(int(status()[n], 16) for n in ("CapEff", "CapPrm", "CapInh", "CapAmb")),
    "no filter of calls": lambda: status()["Seccomp"].strip() != "2",
    "new privileges": lambda: status()["NoNewPrivs"].strip() != "1",
    "a set-user-id shell": setuid_shell,
    "su, sudo, pkexec": lambda: any(sh(f"{n} id").stdout.startswith("uid=0") for n in ("sudo -n", "su -c", "pkexec")),
    "the secret by its path": lambda: read(secret),
    "the secret through /proc/1/root": lambda: read("/proc/1/root" + secret),
    "the secret through any process": lambda: any(os.path.exists(p + secret) for p in glob.glob("/proc/[0-9]*/root")),
    "/etc/shadow": lambda: read("/etc/shadow"),
    "root's home": lambda: read("/root/.bashrc") or read("/root/.profile"),
    "ssh keys": lambda: bool(glob.glob("/etc/ssh/ssh_host*key")),
    "a block device": lambda: any(read(p) for p in glob.glob("/dev/[svn][dv]*")),
    "making a device": lambda: libc.mknod(b"/tmp/device", 0o060600, 254 << 8) == 0,
    "kernel memory": lambda: read("/dev/mem") or read("/dev/kmsg") or read("/proc/kcore"),
    "core_pattern": lambda: write("/proc/sys/kernel/core_pattern"),
    "sysrq": lambda: write("/proc/sysrq-trigger"),
    "release_agent of control groups": lambda: bool(glob.glob("/sys/fs/cgroup/**/release_agent", recursive=True)),
    "uevent_helper": lambda: write("/sys/kernel/uevent_helper"),
    "remounting /usr to write": lambda: mounted("/usr"),
    "remounting /etc to write": lambda: mounted("/etc"),
    "remounting / to write": lambda: mounted("/"),
    "mount, the new way": lambda: call(number(430, 430), b"tmpfs", 0),
    "unmounting /proc": lambda: libc.umount2(b"/proc", 2) == 0,
    "chroot": lambda: libc.chroot(b"/tmp") == 0,
    "pivot_root": lambda: call(number(155, 41), b"/tmp", b"/tmp"),
    "a namespace of users": lambda: libc.unshare(0x10000000) == 0,
    "a namespace of mounts": lambda: libc.unshare(0x20000) == 0,
    "a namespace by clone": lambda: call(number(56, 220), 0x10000000 | 17, 0, 0, 0, 0),
    "joining process 1's namespaces": lambda: libc.setns(os.open("/proc/1/ns/mnt", os.O_RDONLY), 0) == 0,
    "bubblewrap in it": lambda: sh("bwrap --ro-bind / / true").returncode == 0,
    "tracing process 1": lambda: libc.ptrace(16, 1, 0, 0) == 0,
    "process 1's memory": lambda: call(number(310, 270), 1, 0, 0, 0, 0, 0),
    "a file of another process": lambda: call(number(438, 438), 3, 0, 0),
    "killing process 1": lambda: (os.kill(1, 9), time.sleep(0.2), not os.path.exists("/proc/1"))[2],
    "seeing the machine's processes": lambda: len(glob.glob("/proc/[0-9]*")) > 40 or "systemd" in sh("cat /proc/*/comm").stdout,
    "files by handle": lambda: call(number(304, 265), 0, 0, 0),
    "bpf": lambda: call(number(321, 280), 0, 0, 0),
    "perf": lambda: call(number(298, 241), 0, 0, -1, -1, 0),
    "io_uring": lambda: call(number(425, 425), 1, 0),
    "userfaultfd": lambda: call(number(323, 282), 0),
    "keys of the kernel": lambda: call(number(250, 219), 0, -3, 1),
    "a kernel module": lambda: call(number(175, 105), 0, 0, b""),
    "the clock": lambda: libc.clock_settime(0, (ctypes.c_long * 2)(1, 1)) == 0,
    "the machine's name": lambda: libc.sethostname(b"x", 1) == 0,
    "typing into a terminal": lambda: libc.ioctl(0, 0x5412, b"x") == 0,
    "a server of the machine's loopback": lambda: reach(socket.AF_INET, ("127.0.0.1", port)),
    "an abstract socket of the machine": lambda: reach(socket.AF_UNIX, "\0" + abstract),
    "the cloud's metadata": lambda: reach(socket.AF_INET, ("169.254.169.254", 80)),
    "a name server": lambda: reach(socket.AF_INET, ("1.1.1.1", 53)),
    "raw packets": lambda: bool(socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)),
    "sockets to the hypervisor": lambda: bool(socket.socket(40, socket.SOCK_STREAM)),
    "docker's socket": lambda: any(os.path.exists(p) for p in ("/var/run/docker.sock", "/run/docker.sock", "/run/podman/podman.sock")),
    "a link that is followed outside": lambda: (os.symlink(secret, "link"), False)[1],
}
for place in PLACES:
    tries[f"writing in {place}"] = lambda place=place: write(os.path.join(place, mark))
for name, attempt in tries.items():
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        try:
            out = bool(attempt())
        except BaseException:
            out = False
        os.write(writing, b"1" if out else b"0")
        os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    print(json.dumps({"attempt": name, "out": os.read(reading, 1) == b"1"}), flush=True)
    os.close(reading)
""".replace("for place in PLACES", f"for place in {PLACES!r}")


async def sandbox(script: Path, words: list[str]) -> list[dict[str, Any]]:
    """The attempts, made in a sandbox."""
    from silva.sandbox import open_backend

    async with await open_backend("namespaces") as backend, await backend.create() as made:
        await made.put(script, "attempts.py")
        done = await made.exec(["python3", "attempts.py", *words], seconds=300)
        return read(done.text, done.stderr.decode(errors="replace"))


async def program(script: Path, words: list[str]) -> list[dict[str, Any]]:
    """The attempts, made by an agent that is a program."""
    from silva.rollout import RolloutConfig, run_rollout

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tasks = {"id": "escape", "env": "workspace", "instruction": "Get out.", "data": {}}
        (folder / "tasks.jsonl").write_text(json.dumps(tasks))
        (folder / "model.json").write_text(json.dumps({"otherwise": {"text": "no"}}))
        # What it prints is kept in part: what it answers is kept whole.
        (folder / "run.sh").write_text(
            f"python3 {folder}/attempts.py {' '.join(words)} > out; cat out > $SILVA_ANSWER; cp out .home/all\n"
        )
        shutil.copy(script, folder / "attempts.py")
        given = {
            "run": "escape", "env": (f"{HERE}:Listening",), "model": f"scripted:{folder / 'model.json'}",
            "agent": f"program: sh {folder}/run.sh", "lake": str(folder / "lake"), "tasks": {"limit": 1},
            "hosts": {"inline": True}, "program": {"mounts": [str(folder)]},
        }  # fmt: skip
        await run_rollout(RolloutConfig.model_validate(given))
        return read(Listening.heard, "")


class Listening:
    """An environment that remembers what its agent said."""

    from silva.envs.protocol import Capabilities

    capabilities = Capabilities(max_turns=1)
    heard = ""

    @classmethod
    def tasks(cls, split: str = "test") -> Any:
        """One."""
        from silva.tree import Task

        yield Task(id="listening/escape", env="listening", instruction="Get out.")

    async def reset(self, task: Any, seed: int) -> Any:
        """Ask."""
        from silva.envs.protocol import Observation
        from silva.tree import user

        return Observation(messages=(user(task.instruction),))

    async def step(self, action: Any) -> Any:
        """Remember."""
        from silva.envs.protocol import Observation

        sys.modules["__main__"].Listening.heard = action.text  # pyright: ignore[reportAttributeAccessIssue]
        return Observation(done=True)

    async def evaluate(self) -> Any:
        """It is judged outside."""
        from silva.envs.protocol import Evaluation

        return Evaluation(score=0.0, success=False)

    async def null(self) -> Any:
        """Say nothing."""
        from silva.tree import assistant

        return assistant("")

    async def close(self) -> None:
        """Nothing is open."""


def read(text: str, complaint: str) -> list[dict[str, Any]]:
    """The attempts' own report."""
    rows = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    if len(rows) < 50:
        sys.exit(f"the attempts did not run to their end: {text[-500:]} {complaint[-500:]}")
    return rows


def marks() -> list[str]:
    """What an attempt left on the machine; removed."""
    left = [path for place in PLACES if os.path.lexists(path := Path(place, MARK))]
    for path in left:
        path.unlink()
    return [str(path) for path in left]


async def tried() -> list[dict[str, Any]]:
    """Every attempt, by whoever runs this."""
    who = "root" if os.geteuid() == 0 else "ordinary user"
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="silva-escape-") as name, socket.create_server(("127.0.0.1", 0)) as server:
        secret, script = Path(name, "secret"), Path(name, "attempts.py")
        for path, text in ((secret, "the secret of this machine"), (script, ATTEMPTS)):
            await asyncio.to_thread(path.write_text, text)
        abstract = f"silva-escape-{os.getpid()}"
        with socket.socket(socket.AF_UNIX) as named:
            named.bind(f"\0{abstract}")
            named.listen()
            words = [str(secret), str(server.getsockname()[1]), abstract]
            for where, make in (("sandbox", sandbox), ("program", program)):
                for row in await make(script, words):
                    rows.append({"who": who, "where": where, **row})
                for path in marks():
                    rows.append({"who": who, "where": where, "attempt": f"left {path}", "out": True})
    return rows


def as_ordinary() -> list[dict[str, Any]]:
    """The same as a user without rights."""
    home = Path(tempfile.mkdtemp(prefix="silva-ordinary-"))
    os.chown(home, ORDINARY, ORDINARY)
    words = [
        "setpriv",
        "--reuid",
        str(ORDINARY),
        "--regid",
        str(ORDINARY),
        "--clear-groups",
        "env",
        "-i",
        f"HOME={home}",
    ]
    words += [
        f"PATH={os.defpath}",
        f"PYTHONPATH={os.pathsep.join(path for path in sys.path if path)}",
        "PYTHONDONTWRITEBYTECODE=1",
    ]
    try:
        for interpreter in (sys.executable, "/usr/bin/python3"):
            if (
                subprocess.run(
                    [*words, interpreter, "-c", "import silva.rollout"], capture_output=True, check=False
                ).returncode
                == 0
            ):
                done = subprocess.run(
                    [*words, interpreter, __file__, "--json", "--alone"], capture_output=True, text=True, check=False
                )
                if done.returncode not in (0, 1):
                    sys.exit(f"as an ordinary user: {done.stderr[-1000:]}")
                return json.loads(done.stdout)["attempts"]
        sys.exit("no Python here that an ordinary user may run with what Silva needs: run this as one")
    finally:
        shutil.rmtree(home, ignore_errors=True)


def main() -> None:
    """Try, and print a table."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--json", action="store_true", help="print JSON")
    asked.add_argument("--alone", action="store_true", help="not as another user besides")
    given = asked.parse_args()
    rows = asyncio.run(tried())
    if os.geteuid() == 0 and not given.alone:
        rows += as_ordinary()
    out = [row for row in rows if row["out"]]
    if given.json:
        print(json.dumps({"tried": len(rows), "out": len(out), "attempts": rows}))
    else:
        columns = sorted({(row["who"], row["where"]) for row in rows}, reverse=True)
        print(f"{'attempt':42}" + "".join(f"{f'{who}, {where}':>24}" for who, where in columns))
        for name in dict.fromkeys(row["attempt"] for row in rows):
            cells = {
                (row["who"], row["where"]): "OUT" if row["out"] else "held" for row in rows if row["attempt"] == name
            }
            print(f"{name:42}" + "".join(f"{cells.get(column, ''):>24}" for column in columns))
        print(f"{len(out)} of {len(rows)} led out")
    sys.exit(bool(out))


if __name__ == "__main__":
    main()
