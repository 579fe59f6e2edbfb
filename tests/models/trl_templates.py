"""The chat templates of real models, as the package trl ships them, each in a folder with a small tokenizer of ours.

The marks of a family are those its template writes; how a reply ends is what the model's own configuration says.
"""

from __future__ import annotations

import importlib.util
import json
import re
from datetime import datetime
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from exact_families import write_folder
from tokenizers import Tokenizer

from silva.models.exact import open_renderer
from silva.models.exact.templated import TemplateRenderer

_MARK = re.compile(
    r"<\|[^|>{}\s]{1,40}\|?>|<[^|<>{}\s]{1,30}\|>|<｜[^｜\n]+｜>|\[/?(?:INST|gMASK)\]|</?s>|<sop>|</?think>|"
    r"</?tool_(?:call|response)>|<(?:start_of_turn|end_of_turn|start_of_image|end_of_utterance|image)>"
)
_CHATML, _LLAMA = (("<|im_end|>",), ""), (("<|eot_id|>", "<|eom_id|>", "<|end_of_text|>"), "<|begin_of_text|>")
# How names begin: the ends of a reply, the first of them `eos_token`, and the beginning of a context.
_FAMILIES: dict[str, tuple[tuple[str, ...], str]] = {
    "cohere": (("<|END_OF_TURN_TOKEN|>",), "<BOS_TOKEN>"),
    "deepseek": (("<｜end▁of▁sentence｜>",), "<｜begin▁of▁sentence｜>"),
    "diffusion_gemma": (("<turn|>",), "<bos>"),
    "gemma": (("<eos>", "<end_of_turn>"), "<bos>"),
    "gemma4": (("<turn|>",), "<bos>"),
    "glm4moe": (("<|endoftext|>", "<|user|>", "<|observation|>"), ""),
    "gptoss": (("<|return|>", "<|call|>"), "<|startoftext|>"),
    "idefics3": (("<end_of_utterance>",), "<|begin_of_text|>"),
    "lfm2": (("<|im_end|>",), "<|startoftext|>"),
    "llama3": _LLAMA,
    "llava_next": (("</s>",), "<s>"),
    "muse_glimmer": (("<|eot|>", "<|eom|>"), "<|begin_of_text|>"),
    "nemotron": _CHATML,
    "phi3": (("<|endoftext|>", "<|end|>"), ""),
    "qwen": _CHATML,
    "smolvlm": (("<end_of_utterance>",), ""),
}
_KEPT = TemporaryDirectory(prefix="silva-trl-")


def _folder() -> Path | None:
    """Where the templates lie; trl itself is not imported, which takes long."""
    spec = importlib.util.find_spec("trl")
    return None if spec is None or spec.origin is None else Path(spec.origin).parent / "chat_templates"


def names() -> list[str]:
    """Every template there is; none where trl is not installed."""
    folder = _folder()
    return [] if folder is None else sorted(path.stem for path in folder.glob("*.jinja"))


@cache
def model_folder(name: str) -> Path:
    """A folder of a model with this template."""
    found = _folder()
    assert found is not None
    source = (found / f"{name}.jinja").read_text(encoding="utf-8")
    known = [beginning for beginning in _FAMILIES if name.startswith(beginning)]
    assert known, f"trl has a template of a new family, {name}: say in trl_templates.py how its replies end"
    ends, begin = _FAMILIES[max(known, key=len)]
    marks = tuple(sorted({*_MARK.findall(source), *ends, *([begin] if begin else [])}))
    folder = write_folder(Path(_KEPT.name) / name, source, marks, (), ends[0], begin)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    ids = [tokenizer.token_to_id(mark) for mark in ends]
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": ids}))
    return folder


@cache
def trl_renderer(name: str) -> TemplateRenderer:
    """The renderer of a template; it is told the date of this machine, as transformers tells it."""
    renderer = open_renderer(model_folder(name), today=datetime.now())
    assert isinstance(renderer, TemplateRenderer)
    return renderer
