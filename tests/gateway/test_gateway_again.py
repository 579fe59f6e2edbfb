"""How rollouts end: again, after a gateway died under them, among others of the same task; or without an answer."""

from __future__ import annotations

import json
import os
import shutil
import socket
import time
from pathlib import Path
from typing import Any

import pytest


def asked(text: str) -> dict[str, Any]:
    return {"model": "scripted", "messages": [{"role": "user", "content": text}]}


def announce(gateway: Any, name: str, index: int) -> None:
    said = {"rollout": name, "task_id": "t/1", "env": "mine", "index": index}
    assert gateway.admin("POST", "runs/run/rollouts", said).status_code == 201


def test_an_announced_rollout_that_is_ended_twice_is_one_trajectory(scripted: Any, serve: Any) -> None:
    model = scripted()
    first = serve(model)
    token = first.open_run()
    announce(first, "a", 2)
    first.chat(token, asked("hello"), rollout="a")
    ends = [first.admin("POST", "runs/run/rollouts/a/end", {"score": 0.5}).json() for _ in range(2)]
    first.stop()
    second = serve(model, lake=first.lake)
    ends.append(second.admin("POST", "runs/run/rollouts/a/end", {"score": 0.5}).json())
    assert ends[0] == ends[1] == ends[2]
    (trajectory,) = second.trajectories()
    assert (trajectory.task_id, trajectory.index, trajectory.turns) == ("t/1", 2, 1)


def test_a_rollout_that_joins_a_stored_task_is_found_again_after_a_kill(
    scripted: Any, serve: Any, tmp_path: Path
) -> None:
    model = scripted()
    first = serve(model)
    token = first.open_run()
    announce(first, "a", 0)
    first.chat(token, asked("hello"), rollout="a")
    first.admin("POST", "runs/run/rollouts/a/end", {})
    announce(first, "b", 1)
    first.chat(token, asked("hello"), rollout="b")
    shutil.copytree(first.lake, tmp_path / "as-killed")
    second = serve(model, lake=tmp_path / "as-killed")
    second.chat(token, asked("hello, once more"), rollout="b")
    assert second.admin("POST", "runs/run/close").status_code == 200
    found = {trajectory.index: trajectory for trajectory in second.trajectories()}
    assert {index: (each.task_id, each.turns) for index, each in found.items()} == {0: ("t/1", 1), 1: ("t/1", 2)}


def test_the_second_rollout_of_a_task_knows_its_turns_although_the_first_was_loaded_before(
    scripted: Any, serve: Any
) -> None:
    model = scripted()
    first = serve(model)
    token = first.open_run()
    for index, name in enumerate("ab"):
        announce(first, name, index)
        first.chat(token, asked("hello"), rollout=name)
    first.stop()
    second = serve(model, lake=first.lake)
    said = [
        second.chat(token, asked("hello"), rollout=name, **{"x-stainless-retry-count": "1"}).headers["x-silva-capture"]
        for name in "ab"
    ]
    assert said == ["repeated", "repeated"]
    assert second.admin("POST", "runs/run/close").status_code == 200
    assert [trajectory.turns for trajectory in second.trajectories()] == [1, 1]


def test_who_left_while_the_rollout_was_being_opened_is_not_answered_beside_its_retry(
    scripted: Any, serve: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway = serve(scripted(latency=0.5))
    token = gateway.open_run()
    really, slow = os.fdatasync, {"is": True}

    def fdatasync(descriptor: int) -> None:
        if slow["is"]:
            time.sleep(1.0)
        really(descriptor)

    monkeypatch.setattr(os, "fdatasync", fdatasync)
    body = json.dumps(asked("hello")).encode()
    head = f"POST /r/run/new/v1/chat/completions HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n"
    host, port = gateway.where.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=10) as left:
        left.sendall(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
        time.sleep(0.2)  # the record of the rollout is on its way to disk
    time.sleep(2.5)
    slow["is"] = False
    assert gateway.chat(token, body, rollout="new").ok
    (tree,) = gateway.trees()
    assert (len(tree.leaves), len(tree)) == (1, 2), "one answer: the one nobody heard, or none before"


def test_a_rollout_in_which_nothing_was_answered_says_why_once_its_run_is_closed(scripted: Any, serve: Any) -> None:
    gateway = serve(scripted(faults=[{"kind": "status", "every": 1}]), route={"attempts": 1})
    token = gateway.open_run()
    announce(gateway, "unused", 0)
    announce(gateway, "failed", 1)
    assert gateway.chat(token, asked("hello"), rollout="failed").status_code == 502
    assert gateway.admin("POST", "runs/run/close").ok
    ends = {each.attributes["rollout"]: each.outcome for each in gateway.trajectories()}
    assert {name: end.status for name, end in ends.items()} == {"unused": "failed", "failed": "failed"}
    failures = {name: end.failure for name, end in ends.items()}
    assert failures["failed"].code == "model.upstream" and "planned failure" in failures["failed"].message
    assert failures["unused"].code == "agent.unanswered"
