"""The buffer over HTTP: tokens, limits, isolation, and a client that does not mind repeating itself."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import msgspec
import pytest
from buffer_groups import group

from silva.cli.main import run
from silva.cli.train_buffer import app as command
from silva.errors import Exit, UnreachableError, UsageError
from silva.models.serving.server import ServerThread
from silva.train.buffer import BlockingBuffer, BufferClient, BufferConfig, JobConfig, Refused, open_job
from silva.train.buffer.config import Limits
from silva.train.buffer.serve import buffer_app

ADMIN = "admin-of-the-test"
TERMS = JobConfig(bound=1, groups_per_step=2)
LIMITS = Limits(body_mb=0.01, answer_mb=0.005, uploads=1, waiting=1, jobs=3, body_seconds=0.3)


@pytest.fixture
async def url(tmp_path: Path) -> AsyncIterator[str]:
    config = BufferConfig(folder=str(tmp_path / "buffer"), limits=LIMITS)
    async with ServerThread(buffer_app(config, ADMIN)) as server:
        yield server.url


async def raw(url: str, method: str, path: str, token: str = ADMIN, **options: object) -> tuple[int, str, str]:
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        aiohttp.ClientSession(headers=headers) as session,
        session.request(method, url + path, **options) as answer,  # pyright: ignore[reportArgumentType]
    ):
        return answer.status, await answer.text(), answer.headers.get("Retry-After", "")


async def test_a_step_over_http(url: str) -> None:
    async with await open_job(url, ADMIN, "night", TERMS) as buffer:
        assert (await buffer.start([*"abcde"])).admitted == (*"abcd",)
        assert (await buffer.start(["e"], wait=0.02)).admitted == ()
        for name in "ab":
            assert (await buffer.put(group(name, 0))).state == "ready"
        assert (await buffer.put(group("a", 0))).again
        found = await buffer.take(0, 2, wait=1)
        assert [(each.number, each.staleness, each.group) for each in found] == [
            (1, 0, group("a", 0)),
            (2, 0, group("b", 0)),
        ]
        waiting = asyncio.create_task(buffer.start(["e"], wait=5))
        await asyncio.sleep(0.01)
        assert (await buffer.commit(2, 1, checkpointed=0)).version == 1
        assert (await waiting).admitted == ("e",)
        assert await buffer.commit(2, 1, checkpointed=0) == await buffer.status()
        assert await buffer.abandon(["e", "d"]) == 2
        assert (await buffer.rewind(0, 0)).committed == 0
        assert (await buffer.read("a")) == group("a", 0)
        assert await buffer.permits() == 1


async def test_stale_groups_are_kept_and_listed(url: str) -> None:
    async with await open_job(url, ADMIN, "night", JobConfig(bound=0, groups_per_step=1)) as buffer:
        await buffer.commit(0, 1)
        assert (await buffer.put(group("old", 0))).state == "withheld"
        (found,) = await buffer.withheld()
        assert found.header == group("old", 0).header()
        assert await buffer.read("old") == group("old", 0)
        assert await buffer.withheld(after=found.sequence) == []


async def test_each_job_has_its_token(url: str) -> None:
    night, day = await open_job(url, ADMIN, "night", TERMS), await open_job(url, ADMIN, "day", TERMS)
    async with night, day:
        for token in (day._token, "", "night", "x" * 300, "ü"):
            async with BufferClient(url, "night", token) as stranger:
                with pytest.raises(Refused, match="needs the job's token") as refused:
                    await stranger.put(group("a", 0))
                assert refused.value.kind == "auth"
        with pytest.raises(Refused, match="needs the admin token"):
            await open_job(url, night._token, "third", TERMS)
        assert (await raw(url, "GET", "/jobs", night._token))[0] == 401
        assert (await raw(url, "GET", "/jobs"))[1] == '{"jobs":["day","night"]}'
        async with await open_job(url, ADMIN, "night", TERMS) as again:
            assert again._token == night._token


BAD = [
    ("POST", "/jobs", b"{", 400, "the body:"),
    ("POST", "/jobs", b'{"job":"x","terms":{"bund":1}}', 400, "bund"),
    ("POST", "/jobs", b'{"job":"x","terms":{"most_groups":1}}', 400, "job x: terms: most_groups is 1"),
    ("POST", "/jobs", b'{"job":"a/b"}', 400, "use letters"),
    ("POST", "/jobs/night/start", b'{"ids":[]}', 400, "0 ids"),
    ("POST", "/jobs/night/start", b'{"ids":["a b"]}', 400, "printable"),
    ("POST", "/jobs/night/start", b'{"ids":["a"],"wait":-1}', 400, "wait is -1"),
    ("POST", "/jobs/night/start", b'{"ids":["' + b"a" * (2 << 20) + b'"]}', 413, "larger than"),
    ("POST", "/jobs/night/groups", b"nonsense", 400, "no group"),
    ("POST", "/jobs/night/groups", b"x" * 20_000, 413, "larger than"),
    ("POST", "/jobs/night/take", b'{"after":0,"count":0}', 400, "give 1 to"),
    ("POST", "/jobs/night/take", b'{"after":99,"count":1}', 409, "cursor 99"),
    ("POST", "/jobs/night/take", b'{"after":-1,"count":1}', 400, "take of 1 after -1"),
    ("POST", "/jobs/night/commit", b'{"cursor":5}', 409, "commit 5"),
    ("POST", "/jobs/night/commit", b'{"cursor":"5"}', 400, "Expected `int"),
    ("POST", "/jobs/night/rewind", b'{"cursor":5,"version":0}', 409, "rewind to 5"),
    ("GET", "/jobs/night/groups?id=none", None, 404, "is not in this job"),
    ("GET", "/jobs/night/withheld?after=x", None, 400, "give a number"),
    ("GET", "/jobs/none", None, 404, "open it first"),
    ("DELETE", "/jobs/night", None, 404, "there is no DELETE"),
    ("GET", "/elsewhere", None, 404, "nothing at"),
]


async def test_bad_input_is_one_line(url: str) -> None:
    async with await open_job(url, ADMIN, "night", TERMS):
        for method, path, body, status, said in BAD:
            found, text, _ = await raw(url, method, path, data=body)
            assert (found, said in text, "\n" in text) == (status, True, False), text


async def test_what_is_full_says_when_to_come_again(url: str) -> None:
    async with await open_job(url, ADMIN, "night", TERMS) as buffer:
        await buffer.start([*"abcd"])
        status, text, again = await raw(url, "POST", "/jobs/night/start", json={"ids": ["e"]})
        assert (status, again) == (429, "1") and "as many groups" in text
        status, _, again = await raw(url, "POST", "/jobs/night/groups", data=msgspec.msgpack.encode(group("e", 0)))
        assert (status, again) == (429, "1")
        for name in "cdf":
            with pytest.raises(Refused, match="there are 3 jobs already") if name == "f" else _nothing():
                await open_job(url, ADMIN, name, TERMS)


async def test_one_jobs_slow_uploads_and_waits_do_not_hold_up_another(url: str) -> None:
    async def slow() -> AsyncIterator[bytes]:
        yield b"x"
        await asyncio.sleep(0.6)
        yield b"y"

    night, day = await open_job(url, ADMIN, "night", TERMS), await open_job(url, ADMIN, "day", TERMS)
    async with night, day:
        upload = asyncio.create_task(raw(url, "POST", "/jobs/night/groups", data=slow()))
        waiting = asyncio.create_task(night.take(0, 1, wait=0.5))
        await asyncio.sleep(0.05)
        assert (await raw(url, "POST", "/jobs/night/groups", data=b"x"))[0] == 503
        assert (await raw(url, "POST", "/jobs/night/take", json={"after": 0, "count": 1, "wait": 1}))[0] == 503
        await day.start(["a"])
        await day.put(group("a", 0))
        assert len(await day.take(0, 1, wait=1)) == 1
        assert not waiting.done()
        status, text, _ = await upload
        assert status == 400 and "did not come in time" in text
        assert await waiting == []


async def test_a_large_take_comes_in_pieces_and_in_order(url: str) -> None:
    terms = JobConfig(bound=0, groups_per_step=4)
    async with await open_job(url, ADMIN, "night", terms) as buffer:
        await buffer.start([*"abcd"])
        for name in "abcd":
            await buffer.put(group(name, 0, payload=b"x" * 1500))
        cursor, sizes = 0, []
        while cursor < 4:
            found = await buffer.take(cursor, 4)
            sizes.append(len(found))
            cursor = found[-1].number
        assert sizes == [1, 1, 1, 1]


async def test_a_server_that_is_not_there_is_told_in_one_line() -> None:
    async with BufferClient("http://127.0.0.1:9", "night", "t", patience=0.1) as buffer:
        with pytest.raises(UnreachableError, match=r"job night: its server does not answer .*; start it"):
            await buffer.status()
    with pytest.raises(UsageError, match="http://HOST:PORT"):
        BufferClient("127.0.0.1:9", "night", "t")


def test_the_command_shows_jobs_and_what_is_withheld(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with BlockingBuffer.local(tmp_path, "night", JobConfig(bound=0, groups_per_step=1)) as buffer:
        buffer.commit(0, 1)
        buffer.put(group("old", 0))

    def shown_by(*words: str) -> str:
        command([*words], standalone_mode=False)
        return capsys.readouterr().out

    assert json.loads(shown_by("--folder", str(tmp_path), "--status", "--json"))["night"]["withheld"] == 1
    assert "night" in shown_by(f"folder={tmp_path}", "--status")
    assert "old" in shown_by("--folder", str(tmp_path), "--withheld", "night")
    shown = shown_by("--job", "day", "--bound", "2", "--dry-run")
    assert "bound: 2" in shown
    with pytest.raises(UsageError, match="name it with --job"):
        shown_by("--bound", "2", "--dry-run")


def test_a_server_that_cannot_begin_says_why_in_one_line_and_ends_with_its_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def begin(folder: Path, *words: str) -> tuple[int, list[str]]:
        handler = signal.getsignal(signal.SIGTERM)
        try:
            code = run(["train", "buffer", "--folder", str(folder), "--port", "0", *words])
        finally:
            signal.signal(signal.SIGTERM, handler)
        token, *told = capsys.readouterr().err.splitlines()
        assert token.startswith("admin token")
        return code, told

    with BlockingBuffer.local(tmp_path / "held", "night", TERMS):
        held = f"error: buffer held: is being written by pid {os.getpid()}; stop that process, or choose another folder"
        assert begin(tmp_path / "held") == (Exit.STORE, [held])
    code, told = begin(tmp_path / "held", "--job", "night", "--bound", "3")
    assert (code, told) == (Exit.USAGE, ["error: job night: was opened with bound=1, not 3; use another name"])
    (tmp_path / "file").write_text("no folder")
    code, told = begin(tmp_path / "file" / "buffer")
    assert code == Exit.STORE and len(told) == 1 and "mend it, or choose another folder" in told[0]


class _nothing:
    def __enter__(self) -> None:
        return

    def __exit__(self, *error: object) -> None:
        return
