"""agent-lightning 1.x: its API gateway (`agl-server`), which records every proxied call as an event of a rollout.

Its store is a dictionary in its process: nothing is durable, and everything is lost with it. Its proxy refuses streams (status 400).
uvicorn's faster event loop and HTTP parser are added in its favour; it brings neither.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from gateway_load import Endpoint

from gateway_peers.gateway import FASTER, VENVS, Kept, Running, Venv, Whole, call, process
from silva.models.child import free_port

VERSION = "1.0.2"
VENV = Venv("agent-lightning", (f"agentlightning=={VERSION}", *FASTER), python=(3, 12))


class AgentLightning:
    """One rollout a client, training mode (it asks the backend for ids and log probabilities itself)."""

    name = "agent-lightning"
    version = VERSION
    durable = "no: in its memory"
    streams = False

    def __init__(self, folder: Path = VENVS) -> None:
        self._folder = folder

    def install(self, folder: Path) -> None:
        """Build its virtual environment."""
        VENV.build(folder)

    def missing(self, folder: Path) -> str | None:
        """Not installed?"""
        return VENV.missing(folder)

    @contextlib.contextmanager
    def start(self, backend: str, scratch: Path) -> Iterator[Running]:
        """`agl-server`, with the backend registered as its model's only server."""
        base = f"http://127.0.0.1:{(port := free_port())}"
        command = [
            str(VENV.interpreter(self._folder).parent / "agl-server"),
            "host=127.0.0.1",
            f"port={port}",
            "default_proxy.model_name=scripted",
            "hydra.run.dir=.",
            "hydra.output_subdir=null",
        ]
        with process(command, scratch, ready=f"{base}/healthz") as started:
            call(f"{base}/api/models", [{"model": "scripted", "endpoint": f"{backend}/v1"}])
            rollouts: list[str] = []

            def endpoints(count: int) -> list[Endpoint]:
                wanted = [
                    {
                        "input": {"data_id": f"bench-{len(rollouts) + number}"},
                        "rollout_id": f"bench-{len(rollouts) + number}",
                    }
                    for number in range(count)
                ]
                made = [one["rollout_id"] for one in call(f"{base}/api/rollouts", wanted)]
                rollouts.extend(made)
                return [Endpoint(f"{base}/proxy/rollout/{one}/attempt/0/mode/train/openai/v1") for one in made]

            def kept(wanted: int) -> Kept:
                turns, whole = 0, Whole()
                for rollout in rollouts:
                    events = call(f"{base}/api/rollouts/{rollout}/events?event_type=model_request&format=triplet")
                    for event in events:
                        turn = event["data"]
                        whole.add(turn["prompt_token_ids"], turn["response_token_ids"], turn["response_log_probs"])
                    turns += len(events)
                return Kept(turns, len(whole))

            yield Running(started.pid, endpoints, kept)
