"""verifiers tasksets played by Silva's agent. Slow: needs `silva envs install verifiers` (skipped where missing)."""

from pathlib import Path

import msgspec
import pytest

from silva.cli.main import run
from silva.envs import HostPool, Registry
from silva.envs.check import check
from silva.envs.errors import EnvError
from silva.envs.gyms import proofs
from silva.envs.install import installed
from silva.errors import UsageError
from silva.tree import ImagePart, ToolCall, assistant, call

FOLDER = Path(__file__).with_name("bridged")
SUMS = Path(proofs.__path__[0]) / "verifiers_sums.py"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not installed(Registry.load().entry("verifiers")), reason="silva envs install verifiers"),
]


def pool(place: str, **how) -> HostPool:
    return HostPool(Registry.load().entry(f"verifiers/{place}"), **how)


async def test_the_bridge_scores_its_own_taskset_as_it_must():
    made = await check(Registry.load().entry("verifiers"), n=3)
    assert made.holds and made.tasks == 24, made


async def test_tools_run_in_the_tasksets_own_server_and_bad_calls_are_answered_in_words():
    async with pool(f"{SUMS},size=2,task.tools=true", step_timeout=120) as sums, sums.lease() as env:
        (task, _) = await sums.tasks()
        opening = await env.reset(task, 0)
        assert [message.role for message in opening.messages] == ["system", "user"]
        assert [tool.name for tool in opening.tools] == ["calculator_add"]
        made = ToolCall(id="a", name="calculator_add", arguments="{oops"), call("nix", {}, "b")
        seen = await env.step(assistant("", *made))
        assert [message.tool_call_id for message in seen.messages] == ["a", "b"]
        assert all(message.text.startswith("error: ") for message in seen.messages)
        seen = await env.step(assistant("", call("calculator_add", {"first": 11, "second": 12}, "c")))
        assert [message.text for message in seen.messages] == ["23"]
        assert (await env.step(assistant("It is 23"))).done
        assert (await env.evaluate()).metrics["right"] == 1.0


async def test_an_environment_that_speaks_as_the_user_is_played_and_scored_by_its_own_rewards():
    async with pool(f"{FOLDER / 'verifiers_games.py'},highest=5") as games, games.lease() as env:
        tasks = await games.tasks()
        assert len(tasks) == 5 and tasks[3].id.endswith("3:find 4")
        assert (await env.reset(tasks[3], 0)).messages[0].text == "Guess!"
        assert (await env.step(assistant("2"))).messages[0].text == "higher"
        assert (await env.step(assistant("5"))).messages[0].text == "lower"
        assert (await env.step(assistant("please 4"))).done
        found = await env.evaluate()
        assert found.success and found.metrics | {"turns": 3} == found.metrics
        assert found.metrics["polite"] == found.metrics["found"] == 0.5 and found.metrics["turns_taken"] == 3.0


async def test_a_stop_of_the_task_and_an_end_by_silva_are_both_scored_as_they_stand():
    async with pool(f"{FOLDER / 'verifiers_games.py'}") as games, games.lease() as env:
        (task, *_) = await games.tasks()
        await env.reset(task, 0)
        assert (await env.step(assistant("damn, please"))).done
        assert (await env.evaluate()).score == 0.5
        await env.reset(task, 0)
        assert not (await env.step(assistant("please 9"))).done
        found = await env.evaluate()
        assert found.score == 0.5 and found.metrics["turns"] == 1.0
        assert (await env.step(assistant("more"))).done


async def test_two_instances_in_a_host_keep_apart():
    async with pool(f"{FOLDER / 'verifiers_games.py'}") as games, games.lease() as one, games.lease() as two:
        tasks = await games.tasks()
        await one.reset(tasks[0], 0)
        await two.reset(tasks[2], 0)
        assert (await one.step(assistant("2"))).messages[0].text == "lower"
        assert (await two.step(assistant("2"))).messages[0].text == "higher"


async def test_what_a_reward_raises_is_the_environments_failure():
    async with pool(f"{FOLDER / 'verifiers_games.py'},task.fault=oops") as games, games.lease() as env:
        await env.reset((await games.tasks(limit=1))[0], 0)
        with pytest.raises(EnvError, match=r"TaskError: .*oops") as caught:
            await env.step(assistant("1"))
        assert caught.value.kind == "env.raised"


async def test_a_taskset_that_hangs_is_ended_with_its_host_and_the_next_episode_is_well():
    async with pool(f"{FOLDER / 'verifiers_games.py'},task.fault=hang", step_timeout=12) as games:
        (task, *_) = await games.tasks()
        for _ in range(2):
            async with games.lease() as env:
                assert (await env.reset(task, 0)).messages[0].text == "Guess!"
                with pytest.raises(EnvError, match="step took longer than 12 s") as caught:
                    await env.step(assistant("1"))
                assert caught.value.kind == "env.timeout"


async def test_a_limit_of_turns_in_place_of_the_tasksets_own():
    async with pool(f"{FOLDER / 'verifiers_games.py'}", options={"max_turns": 2}) as games, games.lease() as env:
        await env.reset((await games.tasks())[2], 0)
        assert not (await env.step(assistant("please 1"))).done
        assert (await env.step(assistant("please 2"))).done
        found = await env.evaluate()
        assert found.score == 0.5 and found.metrics["turns_taken"] == 2.0


async def test_the_runtime_is_verifiers_own_configuration():
    place = f"{FOLDER / 'verifiers_games.py'}"
    async with pool(place, options={"runtime": {"type": "subprocess"}}) as games, games.lease() as env:
        await env.reset((await games.tasks(limit=1))[0], 0)
        assert (await env.step(assistant("please 1"))).done
        assert (await env.evaluate()).success
    async with pool(place, options={"runtime": {"type": "abacus"}}) as games:
        with pytest.raises(UsageError, match=r"player\.runtime: .*'abacus'.*'subprocess', 'docker'"):
            async with games.lease():
                pass


async def test_a_picture_is_carried_with_its_bytes_and_one_by_address_fails():
    async with pool(f"{FOLDER / 'verifiers_pictures.py'}") as pictures, pictures.lease() as env:
        opening = await env.reset((await pictures.tasks())[0], 0)
        (shown,) = [part for part in opening.messages[0].parts if isinstance(part, ImagePart)]
        assert opening.messages[0].text == "What colour?" and opening.blobs[shown.hash].startswith(b"\x89PNG")
        assert (await env.step(assistant("red"))).done
        assert (await env.evaluate()).success
    where = "address=http://127.0.0.1:9/x.png"
    async with pool(f"{FOLDER / 'verifiers_pictures.py'},{where}") as pictures, pictures.lease() as env:
        with pytest.raises(EnvError, match=r"x\.png") as caught:
            await env.reset((await pictures.tasks())[0], 0)
        assert caught.value.kind == "env.raised"


PUBLISHED = Registry.load().entry("verifiers/textarena,game=Hangman-v0")


@pytest.fixture
def acorns(tmp_path, monkeypatch):
    """A word list of one word where nltk would download its own."""
    words = tmp_path / "corpora" / "words"
    words.mkdir(parents=True)
    for name in ("README", "en", "en-basic"):
        (words / name).write_text("acorn\n")
    monkeypatch.setenv("NLTK_DATA", str(tmp_path))


@pytest.mark.skipif(not installed(PUBLISHED), reason=f"silva envs install {PUBLISHED.name}")
async def test_a_published_taskset_is_played_by_its_own_engine(acorns):
    async with HostPool(PUBLISHED, step_timeout=120) as games, games.lease() as env:
        tasks = await games.tasks(limit=2)
        assert [task.id.rpartition(":")[2] for task in tasks] == ["Hangman-v0#0", "Hangman-v0#1"]
        opening = await env.reset(tasks[0], 0)
        assert opening.messages[0].role == "system" and "You are playing Hangman" in opening.messages[1].text
        seen = await env.step(assistant("A letter first: [C]"))
        assert not seen.done and "C" in seen.messages[0].text
        assert (await env.step(assistant("[ACORN]"))).done
        found = await env.evaluate()
        assert found.success and found.metrics["game_reward"] == 1.0


@pytest.mark.parametrize(
    ("place", "why"),
    [
        (f"{FOLDER / 'verifiers_duel.py'}", "the roles left, right; Silva plays one"),
        (f"{FOLDER / 'verifiers_games.py'},colour=red", "colour: Extra inputs are not permitted"),
        ("not_there", "no taskset not_there: no module not_there"),
    ],
)
async def test_what_cannot_be_played_is_told_in_one_line(place, why):
    with pytest.raises(UsageError, match=why):
        async with pool(place):
            pass


def test_a_rollout_with_a_scripted_model_end_to_end(tmp_path, capsys):
    script = tmp_path / "script.yaml"
    script.write_text(
        "rules:\n"
        "  - {when: {last: Guess}, reply: {text: '1'}}\n"
        "  - {when: {last: higher, turn: 1}, reply: {text: '2'}}\n"
        "otherwise: {text: please 3}\n"
    )
    name = f"verifiers/{FOLDER / 'verifiers_games.py'}"
    command = f"rollout --env {name} --model scripted:{script} --lake {tmp_path / 'lake'} --run games --json"
    told = run(command.split())
    made = msgspec.json.decode(capsys.readouterr().out)
    assert told == 0 and made["status"] == "finished", made
    scores = {task["task_id"]: task["score"] for task in made["summary"]["by_task"]}
    assert [scores[name] for name in sorted(scores)] == [0.5, 0.5, 1.0]
