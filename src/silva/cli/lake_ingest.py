"""`silva lake ingest`: foreign agents' traces, live into the lake."""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import Annotated, Any

import typer

from silva.cli.serving import tell_troubles


def ingest(
    lake: Annotated[
        str | None,
        typer.Option("--lake", envvar="SILVA_LAKE", help="Folder or s3://bucket/prefix; ./lake when left out."),
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port; 0 takes a free one.")] = 4318,
    token_env: Annotated[
        str, typer.Option(help="The environment variable that holds the token; must be given off loopback.")
    ] = "",
    run: Annotated[str, typer.Option(help="One run for all; else a run for each service, ingest-NAME.")] = "",
    stage: Annotated[
        list[str] | None,
        typer.Option(help='NAME or NAME=JSON, repeated: redact, tag={"name":…,"matches":…}, embed, others installed.'),
    ] = None,
    no_redact: Annotated[bool, typer.Option("--no-redact", help="Keep secrets as they come.")] = False,
    settle: Annotated[float, typer.Option(min=0.0, help="Seconds of quiet after a trace's root ended.")] = 1.0,
    quiet: Annotated[float, typer.Option(min=0.0, help="Seconds of quiet without it.")] = 30.0,
    body_mb: Annotated[int, typer.Option(min=1, help="Largest request, MB.")] = 16,
) -> None:
    """Take traces over OTLP/HTTP, from Langfuse's SDK and OpenAI Agents' exporter, and make trajectories of them."""
    from silva.allocating import share_arenas
    from silva.collecting import collect_seldom
    from silva.errors import UsageError
    from silva.hosts import is_loopback
    from silva.lake import Lake, default_location
    from silva.lake.ingest.app import IngestApp
    from silva.lake.ingest.assembler import Assembler
    from silva.lake.ingest.intake import Intake
    from silva.lake.ingest.limits import MIB, Limits
    from silva.lake.ingest.stages import Redact, assembly_stages
    from silva.lake.ingest.worker import Worker
    from silva.models.serving.server import bind, serve_forever, url_of

    token = os.environ.get(token_env, "") if token_env else ""
    if token_env and not token:
        raise UsageError(f"--token-env names ${token_env}, which is not set: put the token there")
    if not token and not is_loopback(host):
        raise UsageError(
            f"ingesting on {host} lets other machines in: put a token into a variable named by --token-env"
        )
    chosen = [_stage(each) for each in stage or ()]
    redact = not no_redact
    embedding = next((settings for name, settings in chosen if name == "embed"), None)
    made = [each for each in chosen if each[0] not in ("redact", "embed")]
    assembly_stages(made)  # a wrong name or setting is told now
    embed = _embedding(embedding) if embedding is not None else None
    location = lake or default_location()
    limits = Limits(body=body_mb * MIB, unpacked=max(64, 4 * body_mb) * MIB)
    tell_troubles()
    share_arenas()
    collect_seldom()
    sys.setswitchinterval(0.0005)
    listening = bind(host, port)
    where = url_of(listening).removesuffix("/v1")

    def open_lake() -> Lake:
        return Lake.open(location, window_ms=0.0, compaction="process", caches_mb=64.0)

    def say() -> None:
        sys.stdout.write(f"{where}\n")
        sys.stdout.flush()

    app = IngestApp(
        lambda: Intake(open_lake, limits, [Redact()] if redact else []),
        lambda intake: Assembler(intake, Worker(made), settle=settle, quiet=quiet, embed=embed),
        token,
        run,
        say,
    )
    # uvicorn raises the signal that stopped it again, which would end us before the lake is closed
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    serve_forever(app, listening, lambda _: None)
    if app.failure is not None:
        raise app.failure


def _stage(text: str) -> tuple[str, dict[str, Any]]:
    from silva.errors import UsageError

    name, _, settings = text.partition("=")
    try:
        found = json.loads(settings or "{}")
    except ValueError as error:
        raise UsageError(f"--stage {name}: its settings are not JSON ({error})") from error
    if not isinstance(found, dict):
        raise UsageError(f"--stage {name}: its settings must be an object")
    return name, found


def _embedding(settings: dict[str, Any]) -> Any:
    """What gives nodes vectors: an embedder of `silva.models.embedding`."""
    from silva.errors import UsageError
    from silva.models.embedding import EMBEDDERS, open_embedder

    name = settings.get("name", "hashed")
    if not isinstance(name, str) or set(settings) - {"name"}:
        raise UsageError(f'--stage embed: give {{"name": "…"}}, one of {EMBEDDERS}')
    chosen = open_embedder(name)
    return lambda lake: lake.embed(lambda texts: chosen.embed(texts).tolist())
