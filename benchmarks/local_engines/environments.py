"""Which interpreter runs which engine, on which file of weights; and how the others' environments are built.

install(folder) ─▶ an environment an engine, OpenVINO's graph exported ─▶ program(engine, folder, threads) ─▶ command
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from gateway_peers.gateway import Venv

from local_engines.sampler import NotRun
from silva.models.bundled import packed_weights, weights_folder

VENVS = Path(tempfile.gettempdir()) / "silva-peers" / "engines"
GIVEN_VLLM = "SILVA_VLLM_PYTHON"
"""Names the interpreter of another environment with vLLM than the one that is built here."""


def _venv(name: str) -> Venv:
    lines = Path(__file__).with_name(f"{name}.txt").read_text().splitlines()
    return Venv(name, tuple(line for line in lines if line and not line.startswith("#")), whole=True)


VLLM, LLAMA_CPP, OPENVINO = _venv("vllm"), _venv("llama_cpp"), _venv("openvino")


@dataclass(frozen=True)
class Program:
    """What runs an engine: the interpreter, the engine's module, its weights, and words of its own."""

    python: str
    module: str
    model: Path
    words: tuple[str, ...] = ()

    def command(self, threads: int) -> list[str]:
        """The arguments of the child."""
        return [self.python, "-m", "local_engines.child", self.module, str(self.model), str(threads), *self.words]


def _here(module: str, *words: str) -> Callable[[Path], Program]:
    return lambda folder: Program(sys.executable, module, weights_folder(), words)


def _vllm(folder: Path) -> Program:
    python = os.environ.get(GIVEN_VLLM) or _built(VLLM, folder)
    return Program(sys.executable, "vllm", weights_folder(), (python,))


def _llama_cpp(folder: Path) -> Program:
    return Program(_built(LLAMA_CPP, folder), "llama_cpp", packed_weights())


def _openvino(folder: Path) -> Program:
    python, graph = _built(OPENVINO, folder), _graph(folder)
    if not graph.is_dir():
        raise NotRun("its graph is not exported: run with --install")
    return Program(python, "openvino", graph)


ENGINES: dict[str, Callable[[Path], Program]] = {
    "silva": _here("silva"),
    "silva, its server": _here("silva_server"),
    "silva, 3 LoRA versions": _here("silva", "3"),
    "transformers": _here("transformers"),
    "vllm": _vllm,
    "llama.cpp": _llama_cpp,
    "openvino": _openvino,
}
"""Every engine tried, and what runs it; `NotRun` where its environment does not stand."""


def install(folder: Path) -> None:
    """Build what does not stand yet: the environments, and OpenVINO's graph from the weights in Hugging Face form.

    Raises:
        RuntimeError: pip could not install the pins, or the graph could not be exported.
    """
    for venv in (VLLM, LLAMA_CPP, OPENVINO):
        venv.build(folder)
        print(f"{venv.name}: installed")
    graph = _graph(folder)
    if graph.is_dir():
        return
    unfinished = graph.with_name("unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    tool = Path(_built(OPENVINO, folder)).with_name("optimum-cli")
    asked = ["export", "openvino", "--model", str(weights_folder()), "--task", "text-generation-with-past"]
    done = subprocess.run(
        [str(tool), *asked, str(unfinished)],
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"OpenVINO's graph could not be exported: {done.stderr.strip()[-500:]}")
    unfinished.rename(graph)
    print("openvino: graph exported")


def _graph(folder: Path) -> Path:
    """Beside the environment's parts, so that one built anew exports anew."""
    return folder / OPENVINO.name / "graph" / weights_folder().name


def _built(venv: Venv, folder: Path) -> str:
    if reason := venv.missing(folder):
        raise NotRun(reason)
    return str(venv.interpreter(folder))
