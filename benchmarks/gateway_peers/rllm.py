"""rLLM's model gateway (`rllm-model-gateway`): a reverse proxy that keeps a trace of every call of a session.

Its traces go to SQLite (its default) or to a dictionary. Unless told `sync_traces`, it answers before the trace is
written. SQLite runs with `synchronous=NORMAL` and a rollback journal, one commit a trace. Ids and log probabilities are asked
for by itself and stripped from the client's reply, its default. uvicorn's faster event loop and HTTP parser are added in its favour.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import yaml
from gateway_load import Endpoint

from gateway_peers.gateway import FASTER, VENVS, Kept, Running, Settling, Venv, Whole, call, process
from silva.models.child import free_port

VERSION = "0.1.0"
VENV = Venv("rllm", (f"rllm-model-gateway=={VERSION}", *FASTER))


class Rllm:
    """One session a client. `store` is `sqlite` or `memory`; `wait` answers only once the trace is stored."""

    version = VERSION
    streams = True

    def __init__(self, folder: Path = VENVS, *, store: str = "sqlite", wait: bool = False) -> None:
        self._folder, self._store, self._wait = folder, store, wait
        self.name = f"rllm{'' if store == 'sqlite' else f'-{store}'}{'-sync' if wait else ''}"
        self.durable = (
            "no: in its memory"
            if store == "memory"
            else "SQLite commit before the reply"
            if wait
            else "no: SQLite, after the reply"
        )

    def install(self, folder: Path) -> None:
        """Build its virtual environment."""
        VENV.build(folder)

    def missing(self, folder: Path) -> str | None:
        """Not installed?"""
        return VENV.missing(folder)

    @contextlib.contextmanager
    def start(self, backend: str, scratch: Path) -> Iterator[Running]:
        """Its command-line server with the backend as its only worker."""
        base = f"http://127.0.0.1:{(port := free_port())}"
        database = scratch / "traces.db"
        config = {
            "host": "127.0.0.1",
            "port": port,
            "workers": [{"url": f"{backend}/v1", "model_name": "scripted"}],
            "db_path": str(database),
            "store_worker": self._store,
            "sync_traces": self._wait,
            "log_level": "WARNING",
        }
        (scratch / "gateway.yaml").write_text(yaml.safe_dump(config))
        command = [str(VENV.interpreter(self._folder)), "-m", "rllm_model_gateway", "--config", "gateway.yaml"]
        with process(command, scratch, ready=f"{base}/health") as started:
            sessions: list[str] = []

            def endpoints(count: int) -> list[Endpoint]:
                made = [
                    call(f"{base}/sessions", {"session_id": f"bench-{len(sessions) + number}"})["session_id"]
                    for number in range(count)
                ]
                sessions.extend(made)
                return [Endpoint(f"{base}/sessions/{one}/v1") for one in made]

            def count() -> int:
                return sum(one["trace_count"] for one in call(f"{base}/sessions"))

            def kept(wanted: int) -> Kept:
                settling = Settling(count)
                turns = settling.wait(wanted)
                whole = Whole()
                for trace in _traces_in(database) if self._store == "sqlite" else _traces_of(base, sessions):
                    whole.add(trace["prompt_token_ids"], trace["completion_token_ids"], trace["logprobs"])
                return Kept(
                    turns,
                    len(whole),
                    f"store settled {settling.seconds:.1f} s after the load" if settling.seconds > 0.5 else "",
                )

            yield Running(started.pid, endpoints, kept)


def _traces_in(database: Path) -> Iterator[dict]:
    with contextlib.closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        for (data,) in connection.execute("select data from traces"):
            yield json.loads(data)


def _traces_of(base: str, sessions: list[str]) -> Iterator[dict]:
    for session in sessions:
        yield from call(f"{base}/sessions/{session}/traces")
