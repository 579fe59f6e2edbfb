"""Model folders as the families have them, made here: a small tokenizer with the family's marks, a template of ours."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from silva.models.exact import Renderer, open_renderer
from silva.models.exact.templated import TemplateRenderer

TEMPLATES = Path(__file__).parent / "templates"

CHATML = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>")
TAGS = ("<tool_call>", "</tool_call>", "<think>", "</think>")
LLAMA = ("<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eom_id|>", "<|eot_id|>")
GEMMA = ("<bos>", "<eos>", "<start_of_turn>", "<end_of_turn>", "<start_of_image>")
MISTRAL_CALLS = ("[TOOL_CALLS]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", "[TOOL_RESULTS]", "[/TOOL_RESULTS]")
DEEPSEEK_CALLS = ("calls▁begin", "calls▁end", "call▁begin", "call▁end", "outputs▁begin", "outputs▁end")
DEEPSEEK_ALL = (*DEEPSEEK_CALLS, "output▁begin", "output▁end", "sep")

# special marks, added marks that are not special, the end of a reply, the beginning of a context
FAMILIES: dict[str, tuple[tuple[str, ...], tuple[str, ...], str, str]] = {
    "chatml": (CHATML, TAGS[:2], "<|im_end|>", ""),
    "qwen3": (CHATML, TAGS, "<|im_end|>", ""),
    "llama3": ((*LLAMA, "<|python_tag|>"), (), "<|eot_id|>", "<|begin_of_text|>"),
    "gemma": (GEMMA, (), "<eos>", "<bos>"),
    "mistral": (("<s>", "</s>", "[INST]", "[/INST]", *MISTRAL_CALLS), (), "</s>", "<s>"),
    "deepseek": (
        ("<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜User｜>", "<｜Assistant｜>"),
        (*TAGS[2:], *(f"<｜tool▁{name}｜>" for name in DEEPSEEK_ALL)),
        "<｜end▁of▁sentence｜>",
        "<｜begin▁of▁sentence｜>",
    ),
}
TEXT = """The weather in Paris is sunny today. user: assistant: hello world, the tool_call is {"name": "get_weather"}
{"city": "Paris", "arguments": {"days": 3}} def add(a, b):\n    return a + b\n\nIt is <b>done</b> [1] | it was done.\n
"""

_KEPT = TemporaryDirectory(prefix="silva-families-")


def write_folder(
    folder: Path,
    template: str,
    special: tuple[str, ...],
    plain: tuple[str, ...] = (),
    end: str = "",
    begin: str = "",
    sentencepiece: str = "",
    bytes_added: bool = False,
) -> Path:
    """Write a model's folder: byte-level words, or as SentencePiece cuts them. Then a space is put before the `first`
    word, before what stands behind each mark, too (`always`), or so by the normaliser, as in the folders of Llama 2 and
    the older Mistrals (`prepend`). `bytes_added`: its bytes are among the added tokens."""
    fallback = bool(sentencepiece)
    tokenizer = Tokenizer(models.BPE(byte_fallback=fallback, unk_token="<unk>" if fallback else None))
    if sentencepiece:
        if sentencepiece == "prepend":
            tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
        else:
            tokenizer.normalizer = normalizers.Replace(" ", "▁")
            tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=sentencepiece, split=False)
        tokenizer.decoder = decoders.Sequence(
            [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
        )
        alphabet = [f"<0x{byte:02X}>" for byte in range(256)]
        trainer = trainers.BpeTrainer(vocab_size=700, show_progress=False, special_tokens=["<unk>", *alphabet])
    else:
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        trainer = trainers.BpeTrainer(vocab_size=500, show_progress=False, initial_alphabet=alphabet)
    tokenizer.train_from_iterator([TEXT] * 8, trainer)
    tokenizer.add_special_tokens([AddedToken(mark, normalized=False, special=True) for mark in special])
    tokenizer.add_tokens([AddedToken(mark, normalized=False, special=False) for mark in plain])
    folder.mkdir(parents=True, exist_ok=True)
    written = json.loads(tokenizer.to_str())
    if not bytes_added:
        written["added_tokens"] = [each for each in written["added_tokens"] if not each["content"].startswith("<0x")]
    (folder / "tokenizer.json").write_text(json.dumps(written), encoding="utf-8")
    (folder / "chat_template.jinja").write_text(template, encoding="utf-8")
    named = {"eos_token": end, "bos_token": begin}
    (folder / "tokenizer_config.json").write_text(json.dumps({key: text for key, text in named.items() if text}))
    return folder


@cache
def family_folder(name: str) -> Path:
    """The folder of a family."""
    special, plain, end, begin = FAMILIES[name]
    template = (TEMPLATES / f"{name}.jinja").read_text(encoding="utf-8")
    folder = write_folder(Path(_KEPT.name) / name, template, special, plain, end, begin)
    if name == "llama3":  # its configuration names three ends
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        ends = [tokenizer.token_to_id(mark) for mark in ("<|end_of_text|>", "<|eom_id|>", "<|eot_id|>")]
        (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": ends}))
    return folder


@cache
def family(name: str, **options: bool) -> TemplateRenderer:
    """The renderer of a family."""
    renderer: Renderer = open_renderer(family_folder(name), options=dict(options))
    assert isinstance(renderer, TemplateRenderer)
    return renderer


@cache
def plain_family(sentencepiece: str) -> TemplateRenderer:
    """A renderer whose template has no marks."""
    template = (TEMPLATES / "plain.jinja").read_text(encoding="utf-8")
    folder = Path(_KEPT.name) / f"plain-{sentencepiece}"
    renderer = open_renderer(write_folder(folder, template, ("<eos>",), (), "<eos>", "", sentencepiece))
    assert isinstance(renderer, TemplateRenderer)
    return renderer


@cache
def llama2_folder(sentencepiece: str, bytes_added: bool = False) -> Path:
    """The folder of a family whose words stand between marks that are words themselves, `[INST]` and `[/INST]`."""
    template = (TEMPLATES / "llama2.jinja").read_text(encoding="utf-8")
    folder = Path(_KEPT.name) / f"llama2-{sentencepiece}-{bytes_added}"
    return write_folder(folder, template, ("<s>", "</s>"), (), "</s>", "<s>", sentencepiece, bytes_added)
