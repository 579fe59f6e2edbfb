"""What a forked child does before it becomes a program: make a sandbox, enter one, limit itself.

Every function here runs in a child and ends it, by becoming a program or by exiting.
"""

from __future__ import annotations

import fcntl
import json
import os
import resource
import signal
import socket
import termios
from typing import Any, NoReturn

from . import freezing, mounts, own, syscalls, tracing, veiled, victims

EVERYTHING = (
    syscalls.CLONE_NEWUSER
    | syscalls.CLONE_NEWNS
    | syscalls.CLONE_NEWPID
    | syscalls.CLONE_NEWIPC
    | syscalls.CLONE_NEWUTS
    | syscalls.CLONE_NEWNET
)
_RESOURCES = {
    "processes": resource.RLIMIT_NPROC,
    "address_space": resource.RLIMIT_AS,
    "file_size": resource.RLIMIT_FSIZE,
    "open_files": resource.RLIMIT_NOFILE,
    "cpu_seconds": resource.RLIMIT_CPU,
    "core": resource.RLIMIT_CORE,
    "data": resource.RLIMIT_DATA,
}


def fresh() -> None:
    """Take signals as programs expect to."""
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGCHLD, signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_DFL)


def deputy(message: dict[str, Any], program: bytes) -> NoReturn:
    """Join control groups, say so to the owner, and fork what the fork server passes on (3: its socket, 4: the filter,
    5: the owner) as children of the fork server's."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    server = socket.socket(fileno=3)
    try:
        syscalls.die_with_parent()
        _join(message["groups"])
    except OSError as error:
        os.write(5, json.dumps({"event": "failed", "number": message["number"], "why": str(error)}).encode())
        os._exit(1)
    own.spare(-1000)
    os.write(5, json.dumps({"event": "started", "number": message["number"], "pid": os.getpid()}).encode())
    os.close(5)
    while True:
        data, fds, _, _ = socket.recv_fds(server, 1 << 18, 40)
        if not data:
            os._exit(0)
        asked = own.message(data)
        *passed, report = fds
        pidfd = passed.pop() if asked["entering"] else -1
        try:
            if syscalls.fork_sibling() == 0:
                try:
                    fresh()
                    begin(asked, passed, pidfd, report, program, 4)
                finally:
                    os._exit(125)
        except OSError as error:
            own.say(report, f"!no process can be started in the sandbox: {error.strerror}\n")
        for fd in fds:
            os.close(fd)


def begin(message: dict[str, Any], fds: list[int], pidfd: int, report: int, program: bytes, filter_fd: int) -> NoReturn:
    """What a child is there for. It tells its id first: whoever forked it may not be the fork server itself."""
    os.write(report, f"A{os.getpid()}\n".encode())
    action = message["do"]
    if action == "create":
        os.close(report)
        make(message, fds, filter_fd)
    elif action == "listen":
        listen(message["port"], fds[0], pidfd, message)
    elif action == "stop":
        stop(message, report, pidfd)
    elif action == "dump":
        os.close(report)
        freezing.dump(message, fds)
    elif action == "restore":
        os.close(report)
        freezing.restore(message, fds)
    elif action == "loopback":
        freezing.loopback(pidfd)
    elif action == "veil":
        veil(message, fds[0], report, pidfd, program)
    elif message.get("judge"):
        judge(message, fds, program, report, pidfd)
    enter(message, fds, program, report, pidfd)


def make(message: dict[str, Any], fds: list[int], filter_fd: int) -> NoReturn:
    """Mount what the sandbox is made of and become bubblewrap. `fds`: where it reports to."""
    status = fds[0]
    try:
        os.setsid()
        own.spare(0)
        # Opened anew: those who share a descriptor share its position, and read each other's filter away.
        filtering = os.open(f"/proc/self/fd/{filter_fd}", os.O_RDONLY)
        user = message["user"]
        mounts.stage(message)
        os.chdir("/")
        users = mounts.users(user, message["uid"]) if message.get("users") else -1
        if user is not None:
            os.setgroups([])
            os.setresgid(user, user, user)
            os.setresuid(user, user, user)
        os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
        for number in (1, 2, 3):
            os.dup2(status, 200 + number)
        os.dup2(filtering, 204)
        if users >= 0:
            os.dup2(users, 205)
        last = 5 if users >= 0 else 4
        for number in range(1, last + 1):
            os.dup2(200 + number, number)
        os.closerange(last + 1, 1 << 16)
        os.execve(message["program"], message["arguments"], {"PATH": os.defpath})
    except OSError as error:
        own.say(status, f"silva: {error.strerror or error}\n")
    os._exit(125)


def enter(message: dict[str, Any], fds: list[int], program: bytes, report: int, pidfd: int) -> NoReturn:
    """Join the sandbox (or none: `pidfd` -1) and become the program, in a child of the fork server."""
    try:
        own.spare(0)
        if pidfd >= 0:
            _into(message, report, pidfd)
    except BlockingIOError:
        own.say(report, "!it has as many processes as it may\n")
        os._exit(125)
    except OSError as error:
        own.say(report, f"!{error.strerror or error}\n")
        os._exit(125)
    os.close(report)
    _become(message, fds, program, inside=pidfd >= 0)


def _into(message: dict[str, Any], report: int, pidfd: int) -> None:
    """Go on in a child that is inside the sandbox."""
    if message["user"] is not None:
        os.setgroups([])
    syscalls.setns(pidfd, _entered(message["first"]))
    child = syscalls.fork_sibling()
    if child:
        os.write(report, f"B{child}\n".encode())
        os._exit(0)


def veil(message: dict[str, Any], ready: int, report: int, pidfd: int, program: bytes) -> NoReturn:
    """Make a second room in the sandbox, in which folders are hidden; see `veiled`."""
    try:
        own.spare(0)
        _into(message, report, pidfd)
        os.close(report)
        os.dup2(ready, 3)
        os.closerange(4, 1 << 16)
        veiled.hold(message, 3, program)
    except OSError as error:
        own.say(ready, f"!{error.strerror or error}")
    os._exit(125)


def judge(message: dict[str, Any], fds: list[int], program: bytes, report: int, pidfd: int) -> NoReturn:
    """Start a program in the sandbox and follow it from outside its processes; see `tracing`."""
    try:
        own.spare(0)
        proc = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY)
        if message["user"] is not None:
            os.setgroups([])
        syscalls.setns(pidfd, _entered(message["first"]))
        child = os.fork()
        if child == 0:
            os.close(report)
            os.close(proc)
            tracing.traced()
            _become(message, fds, program, inside=True)
        os.close(report)
        for fd in fds:
            os.close(fd)
        code = tracing.Follower(child, message["judge"], proc).follow()
        os._exit(code if code >= 0 else 128 - code)
    except OSError as error:
        own.say(report, f"!{error.strerror or error}\n")
    os._exit(125)


def _entered(first: int) -> int:
    """The namespaces of a sandbox to join: its view of control groups where bubblewrap could make it one, and its
    network unless that is the machine's, which only root may join."""
    flags = EVERYTHING
    if not _differ(first, "net"):
        flags &= ~syscalls.CLONE_NEWNET
    return flags | (syscalls.CLONE_NEWCGROUP if _differ(first, "cgroup") else 0)


def _differ(first: int, kind: str) -> bool:
    theirs, ours = (os.readlink(f"/proc/{pid}/ns/{kind}") for pid in (first, "self"))  # noqa: PTH115
    return theirs != ours


def _become(message: dict[str, Any], fds: list[int], program: bytes, *, inside: bool) -> NoReturn:
    complaint = 2
    try:
        os.setsid()
        os.umask(0o022)
        if inside:
            _change_user(message["uid"])
        else:
            syscalls.die_with_parent()
        if message.get("kept"):
            fds = _kept(fds[0], message)
        elif message["terminal"]:
            fds = _terminal(fds[0], message)
        for number, fd in enumerate(fds):
            os.dup2(fd, number + 200)  # apart, so that none is overwritten before it is used
        for number in range(len(fds)):
            os.dup2(number + 200, number)
        os.closerange(len(fds), 1 << 16)
        _limit(message["limits"])
        if inside:
            syscalls.drop_capabilities()
        syscalls.no_new_privileges()
        os.chdir(message["folder"])
        if program and inside:
            syscalls.install_filter(program)
        if message.get("judge"):
            tracing.hold_executions()
        _execute(message["arguments"], message["variables"])
    except ValueError as error:  # of what no program can be given
        own.say(complaint, f"silva: {error}\n")
        os._exit(126)
    except OSError as error:
        where = f": {error.filename}" if error.filename else ""
        own.say(complaint, f"silva: {error.strerror or error}{where}\n")
        os._exit(127 if isinstance(error, FileNotFoundError) else 126)


def _execute(arguments: list[str], variables: dict[str, str]) -> NoReturn:
    name = arguments[0]
    places = [""] if "/" in name else [f"{place}/" for place in variables.get("PATH", os.defpath).split(":")]
    refused: OSError | None = None
    for place in places:
        try:
            os.execve(place + name, arguments, variables)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            refused = refused or error
    raise refused or FileNotFoundError(2, "no such program", name)


def _terminal(channel: int, message: dict[str, Any]) -> list[int]:
    """A terminal of the sandbox's own; its other end goes to the owner."""
    other, own = os.openpty()
    termios.tcsetwinsize(own, (message["rows"], message["columns"]))
    with socket.socket(fileno=channel) as owner:
        socket.send_fds(owner, [b"terminal"], [other])
    os.close(other)
    fcntl.ioctl(own, termios.TIOCSCTTY, 0)
    return [own, own, own]


def _kept(channel: int, message: dict[str, Any]) -> list[int]:
    """Go on in a child that becomes one of the sandbox's process 1, for a checkpoint takes along what is below that.

    It gets the name of a terminal, whose other end it keeps open (4), and a pipe (3) to say that it has opened that,
    and its exit code: nobody outside is its parent, and a checkpoint cannot hold what is outside. The owner gets the
    other end, the pipe's reading end and a pidfd.
    """
    other, terminal = os.openpty()
    termios.tcsetwinsize(terminal, (message["rows"], message["columns"]))
    reading, writing = os.pipe()
    message["arguments"][3] = os.ttyname(terminal)
    child = os.fork()
    if child == 0:
        os.setsid()
        null = os.open("/dev/null", os.O_RDWR)
        return [null, null, null, writing, other]
    pidfd = os.pidfd_open(child)
    os.close(writing)
    syscalls.dumpable(False)
    syscalls.drop_capabilities()
    os.read(reading, 1)  # until then this process has it open, so that the owner never finds it closed
    with socket.socket(fileno=channel) as owner:
        socket.send_fds(owner, [b"kept"], [other, reading, pidfd])
    os._exit(0)


def _server(port: int | str) -> socket.socket:
    if isinstance(port, int):
        return socket.create_server(("127.0.0.1", port), backlog=64)
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    server.bind(f"\0{port}")
    server.listen(64)
    return server


def listen(port: int | str, channel: int, pidfd: int, message: dict[str, Any]) -> NoReturn:
    """Make a socket that listens on the sandbox's loopback, or at a name of its own, and hand it to the owner."""
    try:
        if message["user"] is not None:
            os.setgroups([])
        syscalls.setns(pidfd, EVERYTHING)
        _change_user(message["uid"])
        with socket.socket(fileno=channel) as owner, _server(port) as server:
            socket.send_fds(owner, [b"listening"], [server.fileno()])
    except OSError:
        os._exit(1)  # the owner sees its channel closed without a socket
    os._exit(0)


def stop(message: dict[str, Any], report: int, pidfd: int) -> NoReturn:
    """Enter the sandbox and kill, or count, what runs there."""
    try:
        _into(message, report, pidfd)
        os.close(report)
        syscalls.dumpable(False)
        _change_user(message["uid"])
        victims.end(message)
    except OSError:
        os._exit(1)
    os._exit(0)


def _change_user(uid: int) -> None:
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)


def _limit(limits: dict[str, int]) -> None:
    for name, value in limits.items():
        number = _RESOURCES[name]
        _, hard = resource.getrlimit(number)
        least = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(number, (least, least))


def _join(groups: list[str]) -> None:
    for path in groups:
        own.write(path, "0")
