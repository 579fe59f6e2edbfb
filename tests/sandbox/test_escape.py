"""Ways out of a sandbox, tried from inside. Each must fail, and for the reason we think."""

from __future__ import annotations

import asyncio
import io
import os
import socket
import tarfile
from pathlib import Path

import pytest

from silva.errors import UsageError
from silva.sandbox.archive import unpack
from silva.sandbox.namespaces import Namespaces
from silva.sandbox.protocol import Spec

pytestmark = pytest.mark.slow

CALL = "import ctypes,os,sys; l=ctypes.CDLL(None,use_errno=True); "


def refused(call: str, error: str = "EPERM") -> list[str]:
    """A program that makes a call and prints OK when it fails as it should."""
    check = f"print('OK' if r==-1 and ctypes.get_errno()==errno.{error} else (r,ctypes.get_errno()))"
    script = f"import errno; {CALL}r=l.{call}; {check}"
    return ["python3", "-c", script]


CALLS = {
    "user namespace": refused("unshare(0x10000000)"),
    "mount namespace": refused("unshare(0x20000)"),
    "namespace by clone": refused("syscall(56, 0x10000000|17, 0, 0, 0, 0)"),
    "namespace by clone3": refused("syscall(435, 0, 0)", "ENOSYS"),
    "joining a namespace": refused("setns(os.open('/proc/1/ns/mnt', os.O_RDONLY), 0)"),
    "mounting": refused("mount(b'none', b'/tmp', b'tmpfs', 0, None)"),
    "mounting the new way": refused("syscall(430, b'tmpfs', 0)"),
    "unmounting": refused("umount2(b'/proc', 2)"),
    "another root": refused("chroot(b'/tmp')"),
    "tracing": refused("ptrace(16, 1, 0, 0)"),
    "reading another's memory": refused("syscall(310, 1, 0, 0, 0, 0, 0)"),
    "taking another's file": refused("syscall(438, 3, 0, 0)"),
    "keys": refused("syscall(250, 0, -3, 1)"),
    "bpf": refused("syscall(321, 0, 0, 0)"),
    "tracing the kernel": refused("syscall(298, 0, 0, -1, -1, 0)"),
    "io_uring": refused("syscall(425, 1, 0)"),
    "faults handled by hand": refused("syscall(323, 0)"),
    "files by handle": refused("syscall(304, 0, 0, 0)"),
    "modules": refused("syscall(175, 0, 0, b'')"),
    "another clock": refused("clock_settime(0, (ctypes.c_long*2)(1, 1))"),
    "another name": refused("sethostname(b'x', 1)"),
    "the 32-bit table (x32)": ["sh", "-c", f"python3 -c '{CALL}l.syscall(0x40000000+39)'; test $? -gt 100 && echo OK"],
    "sockets to the hypervisor": [
        "python3", "-c",
        "import socket\ntry: socket.socket(40, 1)\nexcept OSError as e: print('OK' if e.errno == 97 else e)",
    ],
    "typing into a terminal": [
        "python3", "-c",
        "import fcntl,pty,os\na,b=pty.openpty()\ntry: fcntl.ioctl(b, 0x5412, b'x')\n"
        "except OSError as e: print('OK' if e.errno == 1 else e)",
    ],
    "raw packets": [
        "python3", "-c", "import socket\ntry: socket.socket(2, 3, 1)\nexcept PermissionError: print('OK')",
    ],
}  # fmt: skip


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the numbers of calls are those of x86_64")
async def test_calls_of_the_kernel_are_refused(backend: Namespaces) -> None:
    sandbox = await backend.create()
    wrong = {}
    for name, command in CALLS.items():
        done = await sandbox.exec(command, seconds=20)
        if done.text.strip() != "OK":
            wrong[name] = done.text + done.stderr.decode()[-300:]
    assert wrong == {}


async def test_it_has_no_rights_and_cannot_get_any(backend: Namespaces) -> None:
    sandbox = await backend.create()
    status = (await sandbox.exec("cat /proc/self/status /proc/1/status")).text
    # What the bounding set would still allow, nothing can give: no program gains rights by being executed.
    caps = {line.split()[1] for line in status.splitlines() if line.startswith("Cap") and "CapBnd" not in line}
    assert caps == {"0" * 16}
    assert status.count("Seccomp:\t2") == 2 and status.count("NoNewPrivs:\t1") == 2
    assert not (await sandbox.exec("touch x; chown 0 x")).ok
    script = "cp /bin/bash b; chmod u+s b; ./b -p -c 'id -u'"
    assert (await sandbox.exec(script)).text == "1000\n"
    assert not (await sandbox.exec("mknod d b 8 0")).ok
    assert not (await sandbox.exec("unshare -Ur true || unshare -m true")).ok
    assert not (await sandbox.exec("bwrap --ro-bind / / true")).ok


async def test_no_network_but_its_own_loopback(backend: Namespaces) -> None:
    sandbox = await backend.create()
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as named:
        named.bind("\0silva-test-escape")
        named.listen()
        port = server.getsockname()[1]
        script = (
            "import socket\n"
            f"places=((2,('127.0.0.1',{port})),(2,('10.0.0.1',80)),(2,('1.1.1.1',53)),(1,'\\0silva-test-escape'))\n"
            "for f,a in places:\n"
            " s=socket.socket(f,1); s.settimeout(2)\n"
            " try: s.connect(a); print('REACHED', a)\n"
            " except OSError as e: pass\n"
            "print(sorted(n for _,n in socket.if_nameindex()))"
        )
        done = await sandbox.exec(["python3", "-c", script])
    assert done.text == "['lo']\n", done


async def test_host_files_are_not_there(backend: Namespaces, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("host secret")
    sandbox = await backend.create()
    assert (await sandbox.exec(f"cat {secret} /etc/shadow /root/.bashrc /proc/1/root{secret}")).text == ""
    roots = (await sandbox.exec("ls -A /; ls -A /home; ls -A /run; ls -A /var")).text.split()
    assert set(roots) <= {
        *("bin", "dev", "etc", "home", "lib", "lib32", "lib64", "libx32", "opt", "proc", "run", "sbin", "tmp", "usr"),
        *("var", "workspace", "agent"),
    }
    etc = (await sandbox.exec("cat /etc/passwd /etc/hosts /etc/hostname; ls /etc")).text
    assert "shadow" not in etc and "root:" not in etc and os.uname().nodename not in etc
    mounts = (await sandbox.exec("cat /proc/self/mountinfo")).text
    for line in mounts.splitlines():
        where, options = line.split()[4], line.split()[5].split(",")
        writable = {"/workspace", "/home/agent", "/tmp", "/var/tmp", "/dev/shm", "/dev/pts", "/proc"}
        devices = where.startswith("/dev/") and where not in ("/dev/shm", "/dev/pts")
        assert "ro" in options or where in writable or devices, line
        assert "nosuid" in options or where == "/", line
    places = (await sandbox.exec("find / -xdev -writable -type d 2>/dev/null; echo x > /x")).text.split()
    assert set(places) <= {"/workspace", "/home/agent", "/tmp", "/var/tmp"}
    assert not (await sandbox.exec("echo x > /dev/x")).ok


async def test_proc_shows_and_changes_nothing_of_the_host(backend: Namespaces) -> None:
    sandbox, other = await backend.create(), await backend.create()
    await other.exec("sleep 777 & true")
    seen = (await sandbox.exec("cat /proc/[0-9]*/cmdline | tr '\\0' ' '")).text
    assert "777" not in seen and "pytest" not in seen and "bwrap" not in seen
    writes = (
        "for f in /proc/sys/kernel/core_pattern /proc/sys/kernel/hostname /proc/sysrq-trigger /proc/sys/vm/drop_caches"
        " /proc/1/oom_score_adj /proc/sys/user/max_user_namespaces;"
        " do (echo 1 > $f) 2>/dev/null && echo WROTE $f; done;"
        " for f in /proc/kcore /proc/kmsg /dev/mem /dev/vda /dev/sda;"
        " do head -c 1 $f >/dev/null 2>&1 && echo READ $f; done"
    )
    said = (await sandbox.exec(writes)).text
    # Its own process 1 it may make likelier to be killed; that is its own affair.
    assert said.replace("WROTE /proc/1/oom_score_adj\n", "") == ""


async def test_control_groups_cannot_be_reached(backend: Namespaces) -> None:
    sandbox = await backend.create()
    assert not (await sandbox.exec("ls /sys/fs/cgroup")).ok
    groups = (await sandbox.exec("cat /proc/self/cgroup")).text
    assert "silva-" not in groups and backend.folder.name not in groups
    assert not (await sandbox.exec("find / -name 'cgroup.procs' -o -name release_agent 2>/dev/null | grep .")).ok


async def test_process_one_is_out_of_reach(backend: Namespaces) -> None:
    sandbox = await backend.create()
    script = "import os\nfor f in ('/proc/1/mem',):\n fd=os.open(f, os.O_RDWR); print('opened')"
    await sandbox.exec(["python3", "-c", script])
    await sandbox.exec("kill -9 1; kill -KILL 1; kill -STOP 1")
    assert (await sandbox.exec("cat /proc/1/status")).text.splitlines()[2].split()[1] in ("S", "R")
    # Whatever it does to process 1, the limits and the filter of the next command come from outside.
    assert "Seccomp:\t2" in (await sandbox.exec("cat /proc/self/status")).text


async def test_links_inside_lead_nowhere_outside(backend: Namespaces, tmp_path: Path) -> None:
    target = tmp_path / "victim"
    target.mkdir()
    (target / "secret").write_text("host secret")
    sandbox = await backend.create()
    await sandbox.exec(f"ln -s {target} out; ln -s {target}/secret s; ln -s /etc/shadow sh; ln -s / root")
    with pytest.raises(UsageError):
        await sandbox.get("s")
    with pytest.raises(UsageError):
        await sandbox.get("sh")
    with pytest.raises(UsageError):
        await sandbox.put(b"x", "out/written")
    assert names(target) == ["secret"]
    fetched = await sandbox.get_folder(".", tmp_path / "copy")
    assert fetched.files == 0 and len(fetched.left_out) == 4
    assert "a link to an absolute path" in fetched.left_out[0]
    await sandbox.exec("rm -f ./*; mkfifo pipe; ln -s ../../../../etc up; touch good")
    fetched = await asyncio.wait_for(sandbox.get_folder(".", tmp_path / "copy2"), 20)
    assert fetched.files == 1 and names(tmp_path / "copy2") == ["good"]
    for special in ("/dev/zero", "pipe", "/proc/kmsg"):
        with pytest.raises(UsageError):
            await asyncio.wait_for(sandbox.get(special), 20)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


async def test_a_lying_tar_inside_gains_nothing(backend: Namespaces, tmp_path: Path) -> None:
    """Inside, `tar` may be whatever the programs there made of it; what it prints is not believed."""
    bad = io.BytesIO()
    with tarfile.open(fileobj=bad, mode="w") as archive:
        for name, kind, link in (
            ("../outside", tarfile.REGTYPE, ""),
            ("/absolute", tarfile.REGTYPE, ""),
            ("link", tarfile.SYMTYPE, str(tmp_path)),
            ("link/through", tarfile.REGTYPE, ""),
            ("inner", tarfile.SYMTYPE, "good"),
            ("inner", tarfile.REGTYPE, ""),
            ("hard", tarfile.LNKTYPE, "../../etc/passwd"),
            ("p/q/x", tarfile.SYMTYPE, "../.."),
            ("out", tarfile.SYMTYPE, "p/q/x/.."),
            ("up", tarfile.SYMTYPE, ".."),
            ("p/same", tarfile.LNKTYPE, "inner"),
            ("device", tarfile.CHRTYPE, ""),
            ("good", tarfile.REGTYPE, ""),
        ):
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname, entry.mode = kind, link, 0o4777
            archive.addfile(entry)
    bad.seek(0)
    fetched = unpack(bad, tmp_path / "new", 1 << 20)
    found = {path.name for path in (tmp_path / "new").rglob("*")}
    assert found == {"link", "through", "inner", "good", "p", "q", "x"}
    assert (tmp_path / "new" / "inner").readlink() == Path("good")
    assert not (tmp_path / "new" / "link").is_symlink() and len(fetched.left_out) >= 4
    assert (tmp_path / "new" / "good").stat().st_mode & 0o7000 == 0
    assert [name for name in names(tmp_path) if name != "state"] == ["new"]


def test_an_archive_that_grows_is_refused(tmp_path: Path) -> None:
    big = io.BytesIO()
    with tarfile.open(fileobj=big, mode="w") as archive:
        entry = tarfile.TarInfo("zeros")
        entry.size = 4 << 20
        archive.addfile(entry, io.BytesIO(bytes(4 << 20)))
    big.seek(0)
    with pytest.raises(UsageError, match="holds more than 1,048,576 bytes"):
        unpack(big, tmp_path / "new", 1 << 20)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(UsageError, match="no whole archive"):
        unpack(io.BytesIO(big.getvalue()[: 1 << 20]), tmp_path / "new", 1 << 30)
    assert list(tmp_path.iterdir()) == []


async def test_the_allow_list_is_the_only_way_out(backend: Namespaces) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    other = await asyncio.start_server(answer, "127.0.0.1", 0)
    port, closed = (each.sockets[0].getsockname()[1] for each in (server, other))
    async with server, other, await backend.create(Spec(network=(f"127.0.0.1:{port}",))) as sandbox:
        fetch = "import urllib.request as u,sys\nprint(u.urlopen(sys.argv[1], timeout=5).read())"
        opener = f"import urllib.request as u\nu.getproxies=lambda: {{}}\n{fetch}"
        environment = {"no_proxy": "", "NO_PROXY": ""}
        good = await sandbox.exec(["python3", "-c", fetch, f"http://127.0.0.1:{port}/"], variables=environment)
        assert good.text == "b'hello'\n", good.stderr
        wrong = await sandbox.exec(["python3", "-c", fetch, f"http://127.0.0.1:{closed}/"], variables=environment)
        assert not wrong.ok and b"403" in wrong.stderr
        past = await sandbox.exec(["python3", "-c", opener, f"http://127.0.0.1:{port}/"])
        assert not past.ok
        # After going back it is there again.
        await sandbox.restore(await sandbox.checkpoint())
        again = await sandbox.exec(["python3", "-c", fetch, f"http://127.0.0.1:{port}/"], variables=environment)
        assert again.text == "b'hello'\n"
