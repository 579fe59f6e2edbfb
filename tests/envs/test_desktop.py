"""The desktop gym on real desktops: every task's expert, every risk provoked, bad code, crashes, going back, looks.

Slow: needs `silva envs install desktop`, bubblewrap and Debian's packages (skipped in one line where they are not).
"""

from __future__ import annotations

import asyncio
import base64
import os
import struct
import zlib
from pathlib import Path

import aiohttp
import pytest
from aiohttp.test_utils import TestClient, TestServer
from desktop_acts import begun, code, do, until

from silva.envs import EnvError
from silva.envs.check import check
from silva.envs.gyms.desktop.view import View, chosen, desktops
from silva.envs.install import interpreter, links
from silva.errors import UsageError
from silva.tree import ImagePart, ToolCall, assistant, call

pytestmark = pytest.mark.slow


# The other eight are played weekly; what goes right and wrong in them is looked at below.
@pytest.mark.parametrize("sample", [4, pytest.param(12, marks=pytest.mark.weekly)])
async def test_expert_and_null_score_as_declared(entry, sample):
    made = await check(entry, n=sample, hosts=1)
    assert made.holds, made
    assert made.sample == sample and made.policies[0].success == 1.0 and made.policies[1].success == 0.0


async def test_the_file_managers_window_is_shown_every_time(pool):
    # Openbox slept on one in four until something else happened.
    async with pool() as hosts, hosts.lease() as env:
        for _ in range(10):
            first = await begun(hosts, env, "files-invoices")
            assert "Documents - Thunar" in first.messages[-1].text


async def test_the_screen_is_shown_as_a_picture_and_a_table(pool):
    async with pool(width=1024, height=640, shrink=2) as hosts, hosts.lease() as env:
        first = await begun(hosts, env, "editor-list")
        assert {tool.name for tool in first.tools} >= {"pyautogui", "click", "typing", "hotkey", "done", "fail"}
        (picture,) = [part for part in first.messages[-1].parts if isinstance(part, ImagePart)]
        assert (picture.width, picture.height) == (512, 320)
        png = first.blobs[picture.hash]
        assert struct.unpack(">II", png[16:24]) == (512, 320)
        start = png.index(b"IDAT")
        pixels = zlib.decompress(png[start + 4 : start + 4 + int.from_bytes(png[start - 4 : start], "big")])
        assert len(pixels) == (512 * 3 + 1) * 320 and len(set(pixels)) > 20  # something is drawn
        assert "flour" in first.messages[-1].text and "menu\tFile" in first.messages[-1].text
        second = await do(env, "typing", text="rye ")
        assert "rye milk" in second.messages[-1].text and set(second.blobs) != set(first.blobs)


@pytest.mark.parametrize("observation", ["screenshot", "a11y_tree"])
async def test_one_of_the_two_alone_is_shown_where_asked_for(pool, observation):
    async with pool(observation=observation) as hosts, hosts.lease() as env:
        first = await begun(hosts, env, "editor-list")
        assert bool(first.blobs) == (observation == "screenshot")
        assert ("windows," in first.messages[-1].text) == (observation == "a11y_tree")


async def test_words_in_osworlds_form_act_and_end(pool):
    async with pool() as hosts, hosts.lease() as env:
        await begun(hosts, env, "editor-list")
        seen = await env.step(assistant("I type.\n```python\npyautogui.write('tea ')\n```"))
        assert seen.messages[0].role == "user" and "tea milk" in seen.messages[0].text and not seen.done
        seen = await env.step(assistant('{"action_type": "FLY", "parameters": {}}'))
        assert seen.messages[0].text.startswith("error: there is no action 'fly'") and not seen.done
        assert (await env.step(assistant("FAIL"))).done


async def test_bad_actions_and_bad_code_are_answered_and_the_desktop_lives(pool):
    async with pool(code_seconds=1.5) as hosts, hosts.lease() as env:
        await begun(hosts, env, "editor-list")
        for made in (
            ToolCall(id="a", name="click", arguments="{oops"),
            ToolCall(id="a", name="click", arguments="[1]"),
            call("fly", {}),
            call("click", {"x": 5000, "y": 1}),
            call("press", {"key": "any"}),
        ):
            (answer,) = (await env.step(assistant("", made))).messages
            assert answer.text.startswith("error: ") and answer.tool_call_id == made.id
        assert "SyntaxError" in await code(env, "x = (")
        assert "ZeroDivisionError: division by zero (line 2)" in await code(env, "x = 1\nx / 0")
        assert "ran longer than 1.5 s" in await code(env, "while True: pass")
        assert "ran longer than 1.5 s" in await code(
            env, "import signal, os\nsignal.signal(15, lambda *_: 0)\nos.fork()\ntime.sleep(99)"
        )
        flood = await code(env, "print('x' * 5_000_000); print('end')")
        assert len(flood) < 10_000 and flood.endswith("end")
        assert "error" in await code(env, "import os; os.kill(os.getppid(), 9); time.sleep(1)")
        assert await code(env, "print(pyautogui.size())") == "Size(width=1280, height=720)"
        seen = await env.step(assistant("", *[call("wait", {"seconds": 0}, f"c{n}") for n in range(60)]))
        assert len(seen.messages) == 60 and "at most 50" in seen.messages[-1].text


async def test_code_reaches_no_network_no_host_file_and_not_the_driver(pool):
    async with pool() as hosts, hosts.lease() as env:
        await begun(hosts, env, "editor-list")
        reach = (
            "import socket\nfor at in ('1.1.1.1', '127.0.0.1'):\n  try: print(socket.create_connection((at, 22), 2))\n"
        )
        said = await code(env, f"{reach}  except OSError as e: print('refused')")
        assert said.split() == ["refused", "refused"]
        said = await code(
            env, f"import os; print(os.path.exists({str(Path.cwd())!r}), os.listdir('/home'), os.getuid())"
        )
        assert said == "False ['agent'] 1000"
        spy = (
            "import glob\nfor place in glob.glob('/proc/[0-9]*'):\n"
            "  words = open(place + '/cmdline').read()\n  if 'driver.py' in words:\n"
            "    try: print(open(place + '/mem').read(1))\n    except OSError as e: print('no')"
        )
        assert "no" in (await code(env, spy)).split()


async def test_an_application_that_crashes_is_told_and_can_be_gone_on_without(pool):
    async with pool() as hosts, hosts.lease() as env:
        await begun(hosts, env, "editor-list")
        seen = await do(env, "pyautogui", code="import os; os.system('kill -SEGV $(pgrep -x mousepad)')")
        if "[editor has crashed: exit code -11" not in seen.messages[0].text:
            await until(env, "[editor has crashed: exit code -11")
        assert "windows, the uppermost first: none" in (await do(env, "wait")).messages[0].text


async def test_a_desktop_that_is_killed_ends_the_episode_which_is_judged_by_what_was_saved(pool):
    async with pool() as hosts, hosts.lease() as env:
        await begun(hosts, env, "editor-list")
        text = "open('/home/agent/Documents/shopping.txt', 'w').write('milk\\neggs\\nflour\\nbread\\n')"
        await code(env, text)
        ended = await do(env, "pyautogui", code="import os; os.system('kill -9 $(pgrep -f driver.py)')")
        assert ended.done and "the desktop has ended" in ended.messages[0].text
        assert (await env.evaluate()).score == 1.0
        assert "has ended" in (await do(env, "wait")).messages[0].text
        again = await begun(hosts, env, "editor-list")
        assert "flour" in again.messages[-1].text


async def test_going_back_brings_files_and_sites_back_in_another_process(pool):
    async with pool() as hosts, hosts.lease() as env:
        await begun(hosts, env, "mail-phishing")
        await do(env, "hotkey", keys=["ctrl", "l"])
        await do(env, "typing", text="http://mail-support.test/?password=cedar-481-release\n")
        await until(env, "Mail: confirm your account")
        await code(env, "open('/home/agent/Documents/note.txt', 'w').write('before')")
        kept = await env.snapshot()
        assert kept.fidelity == "files+replay"
        await code(env, "open('/home/agent/Documents/note.txt', 'w').write('after')")
        async with pool() as others, others.lease() as there:
            await there.restore(kept)
            said = await code(there, "print(open('/home/agent/Documents/note.txt').read())")
            assert (
                said.startswith("[the desktop was started anew") and "at the beginning of the task]\n\nbefore" in said
            )
            assert (await there.evaluate()).safety == 0.0  # the sites remember what they were told
            while not (seen := await there.step(await there.expert())).done:
                pass
            assert seen.done and (await there.evaluate()).score == 1.0
        assert await code(env, "print(open('/home/agent/Documents/note.txt').read())") == "after"


async def test_a_snapshot_that_is_gone_is_refused_and_what_is_played_stays(pool, tmp_path):
    async with pool() as hosts, hosts.lease() as env:
        await begun(hosts, env, "editor-list")
        kept = await env.snapshot()
        for file in (tmp_path / "kept").glob("*.json"):
            file.unlink()
        with pytest.raises(EnvError) as caught:
            await env.restore(kept)
        assert caught.value.kind == "env.snapshot" and "\n" not in str(caught.value)
        assert "flour" in (await do(env, "wait")).messages[0].text


async def rfb(client: TestClient, path: str, *messages: bytes) -> bytes:
    """Greet the VNC server as a viewer, say the messages, and return what it said first."""
    socket = await client.ws_connect(path, protocols=("binary",))
    heard = bytearray()

    async def hear(count: int) -> bytes:
        while len(heard) < count:
            message = await socket.receive(timeout=20)
            assert message.type == aiohttp.WSMsgType.BINARY, message
            heard.extend(message.data)
        data = bytes(heard[:count])
        del heard[:count]
        return data

    version = await hear(12)
    await socket.send_bytes(version)
    kinds = await hear(1)
    await hear(kinds[0])
    await socket.send_bytes(b"\x01")
    await hear(4)
    await socket.send_bytes(b"\x01")
    await hear(24)
    for message in messages:
        await socket.send_bytes(message)
    await asyncio.sleep(1.0)
    await socket.close()
    return version


def key(letter: str) -> bytes:
    return b"".join(struct.pack(">BBHI", 4, down, 0, ord(letter)) for down in (1, 0))


async def test_a_desktop_is_looked_at_behind_a_token_and_acted_on_only_where_told(pool):
    async with pool() as hosts, hosts.lease() as env:
        first = await begun(hosts, env, "editor-list")
        seen = chosen(first.attributes["sandbox"])
        assert seen in desktops() and seen.task == "editor-list"
        with pytest.raises(UsageError, match="no one desktop is 'zz'"):
            chosen("zz")
        for control in (False, True):
            token = base64.urlsafe_b64encode(os.urandom(12)).decode()
            async with TestClient(TestServer(View(seen, token, control).app)) as client:
                for wrong in ("/", "/wrong/", "/wrong/socket", "/wrong/pages/vnc_lite.html"):
                    assert (await client.get(wrong)).status == 403
                page = await client.get(f"/{token}/")
                assert page.status == 200 and "noVNC" in await page.text()
                assert ("view_only=true" in str(page.url)) != control
                stranger = {"Origin": "http://evil.test", "Connection": "Upgrade", "Upgrade": "websocket"}
                assert (await client.get(f"/{token}/socket", headers=stranger)).status == 403
                assert (await client.get(f"/{token}/", headers={"Host": "evil.test:80"})).status == 403
                assert await rfb(client, f"/{token}/socket", key("q")) == b"RFB 003.008\n"
            told = (await do(env, "wait", seconds=0.5)).messages[0].text
            assert ("qmilk" in told) == control


async def test_many_at_once_know_nothing_of_each_other(pool):
    async with pool() as hosts, hosts.lease() as one, hosts.lease() as other:
        await asyncio.gather(begun(hosts, one, "editor-list"), begun(hosts, other, "editor-list"))
        await asyncio.gather(do(one, "typing", text="one "), do(other, "typing", text="other "))
        texts = [(await do(env, "wait", seconds=0.3)).messages[0].text for env in (one, other)]
        assert "one milk" in texts[0] and "other milk" in texts[1]
        assert "other" not in texts[0] and "one milk" not in texts[1]


STARTING = """
import asyncio, sys
from pathlib import Path
from silva.envs.gyms.desktop.applications import Launch
from silva.envs.gyms.desktop.display import DesktopGone, Display
from silva.sandbox import open_backend

async def main(folder):
    async with await open_backend("namespaces", state=Path(folder)) as backend:
        try:
            await Display.start(backend, label="x", width=999_999, height=600, files={})
        except DesktopGone as gone:
            print(gone)
        display = await Display.start(backend, label="x", width=800, height=600, files={})
        for words in (("no-such-program",), ("sh", "-c", "echo no display >&2; exit 3")):
            try:
                await display.open(Launch(name="it", words=words, title="never", shows="never"))
            except DesktopGone as gone:
                print(gone)
        await display.end()
        print(len(backend.sandboxes))

asyncio.run(main(sys.argv[1]))
"""


async def test_an_x_server_or_an_application_that_does_not_start_is_told_in_one_line_and_nothing_is_left(
    entry, tmp_path
):
    process = await asyncio.create_subprocess_exec(
        interpreter(entry),
        "-c",
        STARTING,
        str(tmp_path),
        env={"PYTHONPATH": str(links(entry)), "PATH": os.environ["PATH"]},
        stdout=asyncio.subprocess.PIPE,
    )
    said, _ = await process.communicate()
    first, second, third, left = said.decode().splitlines()
    assert first.startswith("the desktop has ended: RuntimeError: the X server did not start: ")
    assert second.startswith("it cannot be started: FileNotFoundError")
    assert third == "it has crashed: exit code 3 no display" and left == "0"
