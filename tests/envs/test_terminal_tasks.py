"""Harbor task folders of the terminal gym: read, written, and what of them can be played without docker."""

from __future__ import annotations

import json
import shutil
import tomllib
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from silva.envs import Registry
from silva.envs.gyms.terminal import harbor, node, software, tools_of_tests
from silva.envs.gyms.terminal.copying import chosen
from silva.envs.gyms.terminal.dockerfile import Refused, recipe
from silva.envs.gyms.terminal.editor import bounded, numbered, replaced
from silva.envs.gyms.terminal.environment import OWN, Terminal
from silva.envs.gyms.terminal.harbor import HarborFile, HarborTask
from silva.envs.gyms.terminal.places import Places
from silva.envs.gyms.terminal.share import share
from silva.envs.gyms.terminal.tools import TOOLS, checked
from silva.errors import UsageError

KEYS = st.text(min_size=1, max_size=12)
SCALARS = st.one_of(
    st.text(), st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False, allow_infinity=True)
)
VALUES = st.recursive(
    st.one_of(SCALARS, st.lists(SCALARS, max_size=3)),
    lambda inner: st.one_of(st.dictionaries(KEYS, inner, max_size=3), st.lists(inner, max_size=2)),
    max_leaves=5,
)


def made(dockerfile: str, **more: str) -> HarborTask:
    """A task with this Dockerfile, a test script, and files of environment/ by name."""
    files = {"Dockerfile": dockerfile, **more}
    return HarborTask(
        name="mine",
        instruction="Do it in /app.",
        environment={name: HarborFile(content=text.encode()) for name, text in files.items()},
        tests={"test.sh": HarborFile(content=b"echo 1 > /logs/verifier/reward.txt\n")},
    )


@settings(max_examples=12, deadline=None)
@given(st.dictionaries(KEYS, VALUES, max_size=4))
def test_settings_come_back_from_toml_as_they_were(document):
    assert tomllib.loads(harbor.toml(document)) == document


def test_a_task_written_is_the_task_read(tmp_path):
    for folder in harbor.folders(OWN)[::3]:
        task = harbor.read(folder)
        harbor.write(task, tmp_path / task.name)
        assert harbor.read(tmp_path / task.name) == task
    with pytest.raises(UsageError, match="exists already"):
        harbor.write(task, tmp_path / task.name)


def test_the_ten_tasks_are_whole():
    tasks = list(Terminal.tasks())
    assert len(tasks) == 10 and len({task.id for task in tasks}) == 10
    for task, folder in zip(tasks, harbor.folders(OWN), strict=True):
        found = harbor.read(folder)
        assert task.instruction == found.instruction and task.tags
        assert {"solve.sh", "turns.json"} <= set(found.solution)
        turns = json.loads(found.solution["turns.json"].content)
        assert len(turns) >= 5, "branching wants turns in between"
        assert turns[-1]["calls"][0]["tool"] == "finish"
        for turn in turns:
            for call in turn["calls"]:
                assert checked(call["tool"], call["arguments"]) == ""
        assert recipe(found).root == "/app"


@pytest.mark.parametrize(
    "change, line",
    [
        (lambda folder: (folder / "task.toml").write_text("oops"), "task.toml: "),
        (lambda folder: (folder / "task.toml").write_text('[verifier]\ntimeout_sec = "long"\n'), "timeout_sec"),
        (lambda folder: (folder / "instruction.md").unlink(), "there is no instruction.md"),
        (lambda folder: (folder / "tests/link").symlink_to("/etc/passwd"), "tests/link is a link"),
        (lambda folder: (folder / "tests/test.sh").unlink(), "there is no tests/test.sh"),
        (lambda folder: (folder / "environment/docker-compose.yaml").write_text("a: 1"), "several containers"),
    ],
)
def test_what_is_wrong_with_a_folder_is_said_in_one_line(tmp_path, change, line):
    folder = tmp_path / "mine"
    shutil.copytree(OWN / "access-log", folder)
    change(folder)
    with pytest.raises(UsageError) as caught:
        recipe(harbor.read(folder))
    assert line in str(caught.value) and "mine" in str(caught.value) and "\n" not in str(caught.value)


def test_a_dockerfile_of_file_commands_is_understood():
    task = made(
        '# a comment\nFROM python:3.11-slim\nARG WHERE=data\nENV MODE=fast LEVEL="3"\nWORKDIR /app\n'
        'COPY a.txt b.txt $WHERE/\nCOPY ["a.txt", "c.txt"]\nRUN mkdir -p out && \\\n    touch out/x\nWORKDIR out\n',
        **{"a.txt": "1", "b.txt": "2"},
    )
    found = recipe(task)
    assert (found.root, found.folder) == ("/app", "/app/out")
    assert found.variables["MODE"] == "fast" and found.variables["LEVEL"] == "3"
    assert [step.target or step.command for step in found.steps] == [
        "/app/data/",
        "/app/c.txt",
        "mkdir -p out &&  touch out/x",
    ]
    copied = chosen(task.environment, found.steps[0].sources, found.steps[0].target)
    assert set(copied) == {"/app/data/a.txt", "/app/data/b.txt"}


@pytest.mark.parametrize(
    "dockerfile, line",
    [
        ("FROM node:20\nWORKDIR /app\n", "line 1: image node:20"),
        ("FROM python:3.11\nFROM python:3.11\nWORKDIR /app\n", "line 2: a second FROM"),
        (
            "FROM python:3.11\nWORKDIR /app\nRUN apt-get update && apt-get install -y no-such-thing-1\n",
            "neither this machine nor its apt has all packages: apt-get install no-such-thing-1",
        ),
        ("FROM python:3.11\nWORKDIR /app\nRUN echo a | sudo tee b\n", "RUN starts sudo"),
        ("FROM python:3.11\nWORKDIR /app\nRUN bash -c 'pip install six'\n", "RUN starts pip"),
        ("FROM python:3.11\nWORKDIR /app\nCOPY --from=other a b\n", "COPY from another image"),
        ("FROM python:3.11\nWORKDIR /app\nCOPY gone.txt .\n", "has no such file"),
        ("FROM python:3.11\nWORKDIR /app\nADD https://example.org/a /app/a\n", "ADD of an archive or an address"),
        ("FROM python:3.11\nWORKDIR /app\nUSER agent\n", "USER agent"),
        ("FROM python:3.11\nWORKDIR /app\nVOLUME /data\n", "VOLUME needs docker"),
        ("FROM python:3.11\nWORKDIR /app\nHEALTHCHECK CMD true\n", "HEALTHCHECK needs docker"),
        ("FROM python:3.11\nWORKDIR /\n", "WORKDIR / is the whole machine"),
        ("FROM python:3.11\n", "there is no WORKDIR"),
        ("WORKDIR /app\n", "there is no FROM"),
        ("FROM python:3.11\nWORKDIR $PLACE\n", "$PLACE has no value"),
    ],
)
def test_what_needs_docker_is_refused_by_name(dockerfile, line):
    with pytest.raises(Refused) as caught:
        recipe(made(dockerfile))
    assert line in str(caught.value) and str(caught.value).startswith("task mine: environment/Dockerfile")


def test_tests_that_install_are_refused():
    task = made("FROM python:3.11\nWORKDIR /app\n")
    script = b"#!/bin/bash\ncurl -LsSf https://example.org/install.sh | sh\n"
    task = msgspec.structs.replace(task, tests={"test.sh": HarborFile(content=script)})
    with pytest.raises(Refused, match=r"tests/test\.sh line 2 downloads something"):
        recipe(task)


@pytest.mark.parametrize(
    ("line", "debian", "python", "rest"),
    [
        ("apt-get update && apt-get install -y git=1 curl && rm -rf /var/lib/apt/lists/*", ("git", "curl"), (), ""),
        ("DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends make", ("make",), (), ""),
        (
            "pip3 install --no-cache-dir --break-system-packages pytest==8.4.1 'six>=1.0'",
            (),
            ("pytest==8.4.1", "six>=1.0"),
            "",
        ),
        ("python3 -m pip install -i http://x six && mkdir -p a", (), ("six",), "mkdir -p a"),
        ("apt-get install -y python3-pip && ln -s /usr/bin/python3 /usr/bin/python", (), (), ""),
        ("echo pipe > x", (), (), "echo pipe > x"),
    ],
)
def test_what_a_line_installs_is_told_from_what_it_does(line, debian, python, rest):
    found = software.needed(line)
    assert (found.debian, found.python, found.rest) == (debian, python, rest)


def test_a_list_of_requirements_is_that_of_the_task():
    files = {
        "requirements.txt": "# what is needed\nsix >= 1.0  # old\n-r more.txt\n\n",
        "more.txt": "toml; extra == 'x'\n",
    }
    read = recipe(
        made(
            "FROM python:3.11\nWORKDIR /app\nCOPY . /app/\nRUN cd /tmp && pip install -r /app/requirements.txt\n",
            **files,
        )
    )
    assert read.python == ("six>=1.0", "toml; extra == 'x'")
    bad = made(
        "FROM python:3.11\nWORKDIR /app\nCOPY a.txt b.txt\nRUN pip install -r b.txt\n", **{"a.txt": "six\n-e .\n"}
    )
    with pytest.raises(Refused, match=r"pip install -r b.txt: line 2, -e \.: give a package's name"):
        recipe(bad)


def test_packages_of_node_are_named():
    read = recipe(made("FROM debian\nWORKDIR /app\nRUN npm install -g --silent typescript@5.4.2 @vue/cli npm@latest\n"))
    assert read.node == ("typescript@5.4.2", "@vue/cli") and not read.steps


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("npm") is None, reason="there is no npm here")
def test_packages_of_node_are_fetched_once_and_recorded(tmp_path, monkeypatch):
    monkeypatch.setenv("SILVA_HOME", str(tmp_path))
    place = node.fetched(("is-odd@3.0.1",), "mine")
    assert place is not None and (place / "lib/node_modules/is-odd/index.js").is_file()
    assert "is-odd@3.0.1\n\nis-number@" in (place / "packages.txt").read_text()
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert node.fetched(("is-odd@3.0.1",), "mine") == place


@pytest.mark.parametrize(
    "line", ["pip install -r gone.txt", "npm install", "npm ci", "npm run build", "pip install git+https://x/y"]
)
def test_what_cannot_be_installed_as_it_is_asked_for_is_refused_by_name(line):
    with pytest.raises(Refused, match="line 3: RUN: "):
        recipe(made(f"FROM python:3.11\nWORKDIR /app\nRUN {line}\n"))


def test_what_public_tests_begin_with_is_there_already():
    script = (
        "#!/bin/bash\napt-get update\napt-get install -y curl\n"
        "curl -LsSf https://astral.sh/uv/0.9.5/install.sh | sh\nsource $HOME/.local/bin/env\n"
        "uvx -p 3.13 -w pytest==8.4.1 -w pytest-json-ctrf==0.3.5 \\\n"
        "  pytest --ctrf /logs/verifier/ctrf.json /tests/test_outputs.py -rA\n"
    )
    task = made("FROM ghcr.io/laude-institute/t-bench/ubuntu-24-04:20250624\nWORKDIR /app\n")
    task = msgspec.structs.replace(task, tests={"test.sh": HarborFile(content=script.encode())})
    assert recipe(task).root == "/app"
    assert tools_of_tests.packages(task) == ("pytest==8.4.1", "pytest-json-ctrf==0.3.5")
    assert "astral" not in tools_of_tests.told(script) and "uvx -p 3.13" in tools_of_tests.told(script)


@pytest.mark.parametrize(
    ("field", "said"),
    [
        ({"environment": {"healthcheck": {"command": "x"}}}, "environment.healthcheck"),
        ({"verifier": {"environment_mode": "separate"}}, "environment_mode"),
        ({"environment": {"os": "windows"}}, "environment.os is windows"),
        ({"hooks": ["x"]}, "hooks"),
        ({"artifacts": ["/app/x"]}, "artifacts are not collected"),
        ({"environment": {"gpus": 1}}, "GPU"),
    ],
)
def test_a_setting_that_nothing_here_would_heed_is_refused_by_name(field, said):
    task = msgspec.structs.replace(made("FROM debian\nWORKDIR /app\n"), document=field)
    with pytest.raises(Refused, match=f"task.toml: .*{said}"):
        recipe(task)


def test_files_in_several_folders_of_the_image_have_each_a_place():
    made_of = recipe(made("FROM debian\nWORKDIR /app\nRUN mkdir -p /data/in /srv/www\nCOPY a /home/user/a\n", a="1"))
    assert made_of.others == ("/data", "/srv/www", "/home/user")
    places = Places(task="mine", root="/app", folder="/workspace", seen={}, others=made_of.others)
    assert places.inside("/data/in") == "/home/agent/image/data/in"
    assert places.text("cat /data/x /app/y /root/z") == "cat /home/agent/image/data/x /workspace/y /home/agent/z"
    with pytest.raises(Refused, match="/etc/x lies outside"):
        recipe(made("FROM debian\nWORKDIR /app\nCOPY a /etc/x\n", a="1"))


EXAMPLES = Path(__file__).parents[2] / "examples" / "harbor"


def test_the_examples_are_all_playable_wherever_their_packages_are():
    found = share(str(EXAMPLES))
    assert found.of == 10
    assert all(task.playable or "apt-get install" in task.reason for task in found.tasks), found


def test_paths_of_the_image_are_put_in_the_sandboxs_words():
    places = Places(task="mine", root="/app", folder="/workspace/src", seen={})
    text = 'cd /app; cat "/app/x.txt" /app. /apps my/app /app.py ~/app /tests/a /root/b $X/app'
    words = {"/tests": "/tmp/q/tests"}
    assert places.text(text, words) == (
        'cd /workspace; cat "/workspace/x.txt" /workspace. /apps my/app /app.py ~/app /tmp/q/tests/a'
        " /home/agent/b $X/app"
    )
    assert places.inside("/app/a/../b") == "/workspace/b" and places.inside("/root/x") == "/home/agent/x"
    assert places.asked("x") == "/workspace/src/x" and places.asked("~/x") == "/home/agent/x"
    with pytest.raises(Refused, match="/data lies outside"):
        places.inside("/data")
    binary = HarborFile(content=b"\xff/app")
    assert places.file(binary) is binary


def test_where_nothing_is_isolated_programs_see_other_paths():
    places = Places(task="mine", root="/app", folder="/workspace", seen={"/workspace": "/var/w", "/tmp": "/var/t"})
    assert places.text("in /app and /workspace/a and /tmp/b") == "in /var/w and /var/w/a and /var/t/b"
    assert places.named("/workspace/a") == "/var/w/a" and places.asked("/var/w/a") == "/workspace/a"


def test_a_folder_of_ones_own_is_an_environment(tmp_path):
    entry = Registry.load().entry(f"terminal/{OWN}")
    assert entry.name == f"terminal/{OWN}" and entry.expert == 1.0
    for bad in ("terminal/nowhere", "terminal/"):
        with pytest.raises(UsageError):
            Registry.load().entry(bad)
    with pytest.raises(UsageError, match="no task folder here"):
        harbor.folders(tmp_path)


def test_a_call_is_checked_before_it_is_made():
    assert "there is no tool fly" in checked("fly", {}) and TOOLS[0].name in checked("fly", {})
    assert checked("session_run", {}) == "session_run needs command"
    assert checked("session_run", {"command": "ls", "wait": "long"}) == "session_run: wait is to be a number"
    assert checked("session_run", {"command": "ls", "wait": 1e9}) == "session_run: wait is between 0 and 45"
    assert checked("sleep", {"seconds": True}) == "sleep: seconds is to be a number"
    assert checked("finish", {"x": 1}) == "finish has no x; it takes message"


def test_lines_are_shown_within_bounds():
    text = "\n".join(f"line {n}" for n in range(1, 1001))
    assert numbered(text, 3, 4) == "     3  line 3\n     4  line 4\n[lines 3 to 4 of 1000]"
    assert numbered(text).endswith("[lines 1 to 400 of 1000]")
    assert numbered(text, 2000) == "the file has 1000 lines; none from 2000 on"
    assert numbered("") == "the file is empty"
    assert len(bounded("x" * 10**6)) < 20_000 and "left out" in bounded("x" * 10**6)
    assert len(numbered("x" * 10**6)) < 20_000


def test_an_edit_names_one_place():
    assert replaced("a b a", "b", "c") == ("a c a", 1)
    assert replaced("a b a", "a", "c", everywhere=True) == ("c b c", 2)
    for old, why in (("a", "2 places"), ("z", "not in the file"), ("", "is empty")):
        with pytest.raises(UsageError, match=why):
            replaced("a b a", old, "c")


def test_no_task_file_is_left_out_of_the_package():
    import silva

    package = Path(silva.__file__).parent / "envs/gyms/terminal/tasks"
    assert package == OWN and (OWN / "guard-key/environment/files/keys/deploy.key").is_file()
