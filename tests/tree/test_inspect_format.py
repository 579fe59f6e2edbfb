"""Inspect: real logs are read whole, images and thinking too; what is written loses nothing; bad files are refused."""

from __future__ import annotations

import copy
import hashlib
import io
import json
import math
import zipfile
from collections.abc import Iterator
from typing import Any

import pytest
from frameworks import FRAMEWORKS, again, golden_writer, spoilt
from grown import bundles, contents
from hypothesis import given
from hypothesis import strategies as st

from silva.tree import Boundary, ImagePart, Status, TextPart, ThinkingPart, groups
from silva.tree.formats import Bundle, FormatError, inspect_archive, inspect_eval, merged, read
from silva.tree.formats.inspect_archive import Archive, packed

LOG = (FRAMEWORKS / "inspect.eval").read_bytes()
MEMBERS = {member: Archive(LOG, "inspect.eval").json(member) for member in Archive(LOG, "inspect.eval").members}
SUM = "samples/sum_epoch_1.json"


def zipped(members: dict[str, Any]) -> bytes:
    """A log as another program might write it: letters escaped, so that any text can be said."""
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, value in members.items():
            archive.writestr(member, json.dumps(value))
    return whole.getvalue()


def read_log(data: bytes) -> Iterator[Bundle]:
    return read("inspect", data, file="log.eval")


def read_with(changed: dict[str, Any]) -> list[Bundle]:
    return list(read_log(zipped({**MEMBERS, **changed})))


def found(bundles_: list[Bundle], task: str, index: int = 0) -> Bundle:
    return next(b for b in bundles_ if b.trajectories[0].task_id == task and b.trajectories[0].index == index)


@given(bundle=bundles())
def test_round_trip_loses_nothing(bundle: Bundle) -> None:
    assert contents(again(inspect_eval, [bundle])) == contents(bundle)


def test_a_real_log_is_read_as_it_ran() -> None:
    bundle = found(list(read_log(LOG)), "small/sum")
    (trajectory,) = bundle.trajectories
    system, asked, called, answered, said = bundle.walk(trajectory)
    assert (system.message.text, asked.message.text) == ("Answer briefly.", "What is 1 + 2?")
    assert system.tools is not None and system.tools[0].parameters["required"] == ["x", "y"]
    (call,) = called.message.tool_calls
    assert (call.name, call.parsed(), called.finish_reason) == ("add", {"x": 1, "y": 2}, "tool_calls")
    assert (answered.message.tool_call_id, answered.message.name) == (call.id, "add")
    thought = ThinkingPart(text="One and two make three.", signature="c2ln")
    assert said.message.parts == (thought, TextPart(text="The answer is 3."))
    assert (said.usage.prompt_tokens, said.usage.cached_tokens, said.usage.completion_tokens) == (24, 4, 5)
    assert said.model == trajectory.model == "mockllm/model" and said.started > called.started > 1e9
    assert (trajectory.outcome.score, trajectory.outcome.success) == (1.0, True)
    assert trajectory.outcome.metrics == {"includes": 1.0} and trajectory.usage.prompt_tokens == 48
    assert bundle.tasks[0].data == {"target": "3", "metadata": {"level": 1}}


def test_epochs_are_places_in_the_group() -> None:
    (bundle,) = merged(read_log(LOG))
    by_task = {group.task_id: [t.index for t in group.trajectories] for group in groups(bundle.trajectories)}
    assert by_task == {"small/sum": [0, 1], "small/picture": [0, 1], "small/broken": [0, 1]}


def test_attached_images_come_with_their_bytes() -> None:
    bundle = found(list(read_log(LOG)), "small/picture")
    image = bundle.walk(bundle.trajectories[0])[1].message.parts[1]
    assert isinstance(image, ImagePart) and image.media_type == "image/png"
    assert hashlib.sha256(bundle.blobs[image.hash]).hexdigest() == image.hash
    assert bundle.trajectories[0].outcome.score == 0.0 and bundle.trajectories[0].outcome.success is False


def test_an_error_is_a_failure_at_the_boundary_that_broke() -> None:
    bundle = found(list(read_log(LOG)), "small/broken", 1)
    outcome = bundle.trajectories[0].outcome
    assert outcome.status is Status.FAILED and outcome.score is None and outcome.failure is not None
    assert (outcome.failure.boundary, outcome.failure.code) == (Boundary.MODEL, "inspect.RuntimeError")
    limited = MEMBERS[SUM] | {"limit": {"type": "token", "limit": 5}}
    assert found(read_with({SUM: limited}), "small/sum").trajectories[0].outcome.status is Status.TRUNCATED


def test_a_real_log_goes_out_as_it_came() -> None:
    read = list(read_log(LOG))
    for bundle, member in zip(read, (m for m in MEMBERS if m.startswith("samples/")), strict=True):
        (data,) = inspect_eval.write([bundle])
        written, before = Archive(data, "again.eval").json(member), copy.deepcopy(MEMBERS[member])
        assert Archive(data, "again.eval").json("header.json") == MEMBERS["header.json"]
        assert written["metadata"].pop("silva")
        for message in before["messages"]:
            for part in message["content"] if isinstance(message["content"], list) else ():
                for key in ("redacted", "detail"):  # written only where they say something
                    part.pop(key, None)
        assert written == before
    (whole,) = merged(read)
    assert contents(again(inspect_eval, [whole])) == contents(whole)


def test_nothing_changes_when_written_twice() -> None:
    given_bundles = golden_writer().bundles()
    assert list(inspect_eval.write(given_bundles)) == list(inspect_eval.write(given_bundles))


def test_retries_and_equal_tasks_have_members_of_their_own() -> None:
    golden = golden_writer().golden_bundle()
    (data,) = inspect_eval.write([golden])
    samples = [member for member in Archive(data, "").members if member.startswith("samples/")]
    assert len(samples) == len(set(samples)) == len(golden.trajectories)


def test_a_json_log_is_read_alike() -> None:
    samples = [value for member, value in MEMBERS.items() if member.startswith("samples/")]
    text = json.dumps({**MEMBERS["header.json"], "samples": samples}, indent=2).encode()
    assert inspect_eval.recognise(text[:4096], None)
    assert [contents(b) for b in read_log(text)] == [contents(b) for b in read_log(LOG)]


def test_a_sample_without_a_mark_is_unscored() -> None:
    sample = json.loads(json.dumps(MEMBERS[SUM]))
    sample["scores"]["includes"]["value"] = math.nan
    bundle = found(read_with({SUM: sample}), "small/sum")
    assert bundle.trajectories[0].outcome.score is None
    (data,) = inspect_eval.write([bundle])
    assert math.isnan(Archive(data, "").json(SUM)["scores"]["includes"]["value"])


def test_kinds_of_content_silva_lacks_are_words_and_kept() -> None:
    sample = json.loads(json.dumps(MEMBERS[SUM]))
    document = {"type": "document", "document": "data:text/plain;base64,eA==", "filename": "x.txt"}
    sample["messages"][1]["content"] = [{"type": "text", "text": "Read."}, document]
    bundle = found(read_with({SUM: sample}), "small/sum")
    assert bundle.walk(bundle.trajectories[0])[1].message.text == "Read.\n[document x.txt]"
    (data,) = inspect_eval.write([bundle])
    assert Archive(data, "").json(SUM)["messages"][1]["content"] == sample["messages"][1]["content"]


@given(sample=st.sampled_from([m for m in MEMBERS if m.startswith("samples/")]).map(MEMBERS.get).flatmap(spoilt))
def test_a_spoilt_sample_is_read_or_refused_by_name(sample: Any) -> None:
    data = zipped({"header.json": MEMBERS["header.json"], "samples/x.json": sample})
    try:
        bundle, *_ = read_log(data)
    except FormatError as error:
        assert error.field.startswith("samples/x.json") or "record cannot" in error.problem
    else:
        assert contents(again(inspect_eval, [bundle])) == contents(bundle)


@given(header=spoilt(MEMBERS["header.json"]))
def test_a_spoilt_header_is_read_or_refused_by_name(header: Any) -> None:
    data = zipped({"header.json": header, SUM: MEMBERS[SUM]})
    try:
        (bundle,) = read_log(data)
    except FormatError as error:
        assert error.field in ("eval", "version") or "record cannot" in error.problem
    else:
        assert contents(again(inspect_eval, [bundle])) == contents(bundle)


@given(place=st.integers(0, len(LOG) - 1), value=st.integers(0, 255))
def test_a_damaged_file_is_refused_or_read(place: int, value: int) -> None:
    data = bytearray(LOG)
    data[place] = value
    try:
        list(read_log(bytes(data)))
    except FormatError as error:
        assert str(error).startswith("log.eval")


@pytest.mark.parametrize("data", [b"", b"PK\x03\x04", LOG[:1000], b"not a log", b"{", b"[]"])
def test_what_is_no_log_is_refused(data: bytes) -> None:
    with pytest.raises(FormatError):
        list(read_log(data))


def test_a_zip_of_something_else_is_refused_and_not_recognised() -> None:
    data = packed([("word/document.json", {})])
    assert not inspect_eval.recognise(data[:4096], None) and inspect_eval.recognise(LOG[:4096], None)
    with pytest.raises(FormatError, match=r"neither header\.json nor _journal/start\.json"):
        list(read_log(data))


def test_no_more_is_unpacked_than_the_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    bomb = io.BytesIO()
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", json.dumps(MEMBERS["header.json"]))
        archive.writestr("samples/x_epoch_1.json", b"0" * 2**20)
    for limit, value in (("MOST_MEMBER", 2**19), ("MOST_TOTAL", 2**19), ("MOST_MEMBERS", 1)):
        with monkeypatch.context() as patch, pytest.raises(FormatError, match="more than"):
            patch.setattr(inspect_archive, limit, value)
            list(read_log(bomb.getvalue()))


def test_a_member_larger_than_it_says_is_refused() -> None:
    text = json.dumps(MEMBERS["header.json"]).encode()
    data = packed([("header.json", MEMBERS["header.json"])])
    size = len(json.dumps(MEMBERS["header.json"], ensure_ascii=False).encode())
    assert len(text) >= size
    smaller = data.replace(size.to_bytes(4, "little"), (size - 9).to_bytes(4, "little"))
    with pytest.raises(FormatError, match=r"header\.json: is damaged"):
        list(read_log(smaller))


def test_the_golden_file_written_by_an_earlier_silva_still_opens() -> None:
    read = merged(read_log((FRAMEWORKS / "silva-inspect.eval").read_bytes()))
    assert [contents(bundle) for bundle in read] == [contents(b) for b in merged(golden_writer().bundles())]


def test_a_sub_agent_has_a_walk_of_its_own_and_a_failed_tool_its_error() -> None:
    data = (FRAMEWORKS.parent / "tools" / "inspect-agents.json").read_bytes()
    (bundle,) = read_log(data)
    (trajectory,) = bundle.trajectories
    main = bundle.walk(trajectory)
    assert [node.message.role for node in main[2:]] == ["assistant", "tool", "assistant", "tool", "assistant"]
    assert main[3].message.text == "the disk is full"
    others = [node for node in bundle.nodes if node not in main]
    # The sub-agent shares the system prompt, and no more.
    assert others[0].parent_id == main[0].id and others[0].message.text == "look around"
    told = others[0].attributes["inspect"]
    assert told["agent"] == "scout" and told["caller"] == main[4].message.tool_calls[0].id
    assert [node.author for node in others] == ["environment", "policy", "environment", "policy"]
    assert trajectory.usage.prompt_tokens == sum(node.usage.prompt_tokens for node in bundle.nodes) == 50
    assert contents(again(inspect_eval, [bundle])) == contents(bundle)
