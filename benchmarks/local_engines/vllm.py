"""vLLM's server for the CPU in an environment of its own, over HTTP, started as `silva.models.local.vllm` starts it.

In its favour: both cores are its own (it would keep one free), and it may load no adapters, which would cost it at every step.
"""

from __future__ import annotations

import os
from pathlib import Path

from local_engines.sampler import NotRun
from local_engines.served import ServedSampler
from silva.errors import MissingError
from silva.models.child import free_port
from silva.models.local.vllm import VllmOptions, require_vllm, vllm_build, vllm_command, vllm_environment


def open_sampler(model: Path, threads: int, python: str) -> ServedSampler:
    """vLLM, run by the interpreter `python`, on the weights in Hugging Face form.

    Raises:
        NotRun: that interpreter has no vLLM, or the server did not come to health.
    """
    try:
        options = require_vllm(VllmOptions(port=free_port("127.0.0.1"), python=python))
        build = vllm_build(options)
    except MissingError as reason:
        raise NotRun(str(reason)) from reason
    variables = {**vllm_environment(options, os.environ), "OMP_NUM_THREADS": str(threads)}
    for name, value in {"VLLM_CPU_KVCACHE_SPACE": "2", "VLLM_CPU_NUM_OF_RESERVED_CPU": "0"}.items():
        variables.setdefault(name, value)
    url = f"http://127.0.0.1:{options.port}"
    return ServedSampler(vllm_command(model, options), variables, url, "/health", build)
