"""A release: what others load equals what was released, its files are described and digested, and leaks stop it."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import lancedb
import pytest

from silva.cli.main import run as silva
from silva.curate.rows import read
from silva.lake import Lake
from silva.tree import ImagePart


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A lake with a run of six tasks, and one of four others."""
    lake = str(tmp_path_factory.mktemp("release") / "lake")
    play = ["rollout", "--env", "arithmetic", "--policy", "expert", "--lake", lake]
    assert silva([*play, "--limit", "6", "--run", "work"]) == 0
    assert silva([*play, "--limit", "4", "--run", "other", "tasks.split=chain"]) == 0
    return lake


def _release(folder: Path, lake: str, *more: str) -> int:
    return silva(["data", "release", str(folder), "name=sums", "licence=CC-BY-4.0", f"lake={lake}", *more])


def _texts(path: Path, rows: list[Any]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def test_datasets_loads_what_was_released_and_rows_come_back_equal(
    tmp_path: Path, lake: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pairs = _texts(tmp_path / "p.jsonl", [{"prompt": f"name {n}", "chosen": "yes", "rejected": "no"} for n in range(3)])
    folder = tmp_path / "out"
    assert _release(folder, lake, "parts.train=work", f"parts.pairs={pairs}", "rows_a_file=4") == 0
    files = sorted(str(path.relative_to(folder)) for path in folder.rglob("*.parquet"))
    assert files == [
        "data/pairs-00000-of-00001.parquet",
        "data/train-00000-of-00002.parquet",
        "data/train-00001-of-00002.parquet",
    ]
    back = [row for name in files[1:] for row in read(str(folder / name))]
    assert back == list(read("work", lake=lake)), "ids, tokens, scores and all"
    assert list(read(str(folder / files[0]))) == list(read(pairs))

    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    datasets = pytest.importorskip("datasets")
    data = datasets.load_dataset(str(folder), cache_dir=str(tmp_path / "cache"))
    assert {name: len(part) for name, part in data.items()} == {"train": 6, "pairs": 3}
    assert data["train"][0]["messages"][-1]["role"] in ("assistant", "tool") and data["train"]["score"] == [1.0] * 6
    assert data["pairs"][0]["rejected"][-1]["content"] == "no"

    assert lancedb.connect(str(folder / "lance")).open_table("train").count_rows() == 6


def test_card_and_croissant_say_what_is_there(tmp_path: Path, lake: str) -> None:
    folder = tmp_path / "out"
    assert _release(folder, lake, "parts.train=work", "limits=[Sums only.]") == 0
    text = (folder / "README.md").read_text()
    for said in ("| train | 6 |", "arithmetic: done | 6 |", "not checked | 6 |", "- Sums only.", "license: cc-by-4.0"):
        assert said in text, said
    assert "one environment, arithmetic" in text and "(100.0%)" in (folder / "charts" / "safety.svg").read_text()
    told = json.loads((folder / "croissant.json").read_text())
    manifest = json.loads((folder / "release.json").read_text())
    (file,) = told["distribution"]
    assert manifest["files"][file["contentUrl"]] == file["sha256"]
    fields = {field["name"]: field for field in told["recordSet"][0]["field"]}
    assert fields["score"]["dataType"] == "sc:Float" and fields["risks"]["repeated"]
    assert {part["name"] for part in fields["messages"]["subField"]} >= {"role", "content"}


def test_a_changed_a_missing_and_a_strange_file_are_found(
    tmp_path: Path, lake: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "out"
    assert _release(folder, lake, "parts.train=other", "lance=false") == 0
    assert silva(["data", "verify", str(folder)]) == 0
    (folder / "README.md").write_text("better")
    (folder / "croissant.json").unlink()
    (folder / "data" / "more.parquet").write_bytes(b"")
    capsys.readouterr()
    assert silva(["data", "verify", str(folder), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["wrong"] == [
        "README.md: was changed",
        "croissant.json: is missing",
        "data/more.parquet: is no part of the release",
    ]


def test_leaks_stop_a_release(tmp_path: Path, lake: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert _release(tmp_path / "a", lake, "parts.train=work", "parts.test=work") == 1
    assert "of the same task as" in capsys.readouterr().err
    story = "the old man of the mountain went down to the river with a bucket and came back with a fish"
    train = _texts(tmp_path / "train.jsonl", [{"text": f"Once upon a time {story} that evening"}, {"text": "else"}])
    test = _texts(tmp_path / "test.jsonl", [{"prompt": "Go on:", "completion": story.title() + "."}])
    assert _release(tmp_path / "b", lake, f"parts.train={train}", f"held_out=[{test}]") == 1
    assert "train row train.jsonl:1 shares" in capsys.readouterr().err
    assert not (tmp_path / "a").exists() and not (tmp_path / "b").exists()
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")], "no draft is left"
    apart = _texts(
        tmp_path / "apart.jsonl", [{"text": "something that nobody else says in so many words at all, ever"}]
    )
    assert _release(tmp_path / "c", lake, f"parts.train={train}", f"held_out=[{apart}]") == 0


def test_instructions_that_all_rows_share_are_no_leak(tmp_path: Path, lake: str) -> None:
    assert _release(tmp_path / "out", lake, "parts.train=work", "parts.test=other") == 0


async def test_images_lie_beside_the_tables_by_hash(tmp_path: Path, lake: str) -> None:
    picture = base64.b64decode("iVBORyBhIHBpY3R1cmU=")
    async with Lake.open(lake, mode="write") as opened:
        name = await opened.put_blob(picture, "image/png")
    seen = {
        "role": "user",
        "content": [
            {"type": "text", "text": "what is it?"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORyBhIHBpY3R1cmU="}},
        ],
    }
    rows = _texts(tmp_path / "r.jsonl", [{"messages": [seen, {"role": "assistant", "content": "a picture"}]}])
    (row,) = read(rows)
    (part,) = [part for part in row.nodes[0].message.parts if isinstance(part, ImagePart)]
    assert part.hash == name
    assert _release(tmp_path / "out", lake, f"parts.train={rows}") == 0
    assert (tmp_path / "out" / "images" / f"{name}.png").read_bytes() == picture


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (["parts.train=nobody"], "no such run"),
        (["parts.Train=work"], "small letters"),
        (["parts.train=work", "licence="], "licence"),
        (["parts.train=work", "licence=MADEUP"], "is no SPDX name"),
        (["parts.train=work", "audit=gone.json"], "cannot be read"),
        (["parts.train=work", "name=a/b"], "name"),
    ],
)
def test_a_release_that_cannot_be_is_one_line(
    tmp_path: Path, lake: str, more: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _release(tmp_path / "out", lake, *more) == 2
    told = capsys.readouterr().err
    assert says in told and told.count("\n") == 1 and not (tmp_path / "out").exists()
