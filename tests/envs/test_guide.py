"""The code of docs/guides/environments.md is run, and so are its claims."""

import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from silva.envs import HostPool, Registry
from silva.envs.check import check
from silva.envs.errors import _BOUNDARIES
from silva.tree import assistant, call

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "environments.md"
TEXT = GUIDE.read_text()


@pytest.fixture
def guess(tmp_path):
    blocks = re.findall(r'```{?\.?python title="guess.py(?:, continued)?"}?\n(.*?)```', TEXT, re.DOTALL)
    assert len(blocks) == 2
    (tmp_path / "guess.py").write_text("\n".join(blocks))
    return Registry.load().entry(f"{tmp_path / 'guess.py'}:Guess")


def test_the_environment_shown_is_as_short_as_its_heading_says():
    (block,) = re.findall(r'```python title="guess.py"\n(.*?)```', TEXT, re.DOTALL)
    assert len([line for line in block.splitlines() if line.strip()]) <= 27


async def test_the_environment_shown_scores_as_it_should(guess):
    made = await check(guess, n=100)
    assert made.holds and [policy.policy for policy in made.policies] == ["expert", "null"]


async def test_it_answers_malformed_guesses_in_words(guess):
    async with HostPool(guess) as pool, pool.lease() as env:
        await env.reset((await pool.tasks(limit=1))[0], 0)
        for arguments in ({"number": "x"}, {"number": None}, {}):
            observation = await env.step(assistant("", call("guess", arguments)))
            assert observation.messages[0].text.startswith("error:") and not observation.done


def test_what_the_guide_prints_is_what_the_command_prints(guess):
    command = [sys.executable, "-c", "from silva.cli.main import main; main()", "envs", "test", "guess.py:Guess"]
    folder = Path(guess.target.rpartition(":")[0]).parent
    said = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=_environ())
    (shown,) = re.findall(r"\$ silva envs test guess.py:Guess\n(.*?)\n\$", TEXT, re.DOTALL)
    assert said.stdout.strip() == shown, said.stderr
    assert said.returncode == 0


async def test_the_python_shown_runs():
    block = re.findall(r"```python\n(from silva.envs import HostPool.*?)```", TEXT, re.DOTALL)[0]
    names: dict = {}
    top, rest = block.split("\n\n", 1)
    exec(f"{top}\n\nasync def shown():\n{textwrap.indent(rest, '    ')}    return evaluation\n", names)
    assert (await names["shown"]()).score == 1.0


def test_the_table_of_failures_is_complete():
    shown = dict(re.findall(r"^\| `([a-z.]+)` \| (\w+) \|", TEXT, re.MULTILINE))
    assert shown == {kind: str(boundary) for kind, boundary in _BOUNDARIES.items()}


def _environ():
    import os

    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
