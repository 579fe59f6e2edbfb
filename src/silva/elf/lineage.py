"""What a job read and made, as OpenLineage tells it: run events in JSON, into the job's folder and to a server.

    job ─▶ START … COMPLETE | FAIL        step ─▶ the same, with the job as its parent

Data sets are artefacts by digest (namespace `silva-elf`) and what a reading step named (namespace of its lake or file).
The shape is OpenLineage 2-0-2's (https://openlineage.io/spec/2-0-2/OpenLineage.json). A server that cannot be reached
costs a note, never the job.
"""

from __future__ import annotations

import os
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib import error as url_error
from urllib import request as url_request

import msgspec

from silva import __version__
from silva.elf.artefact import Artefact, Rows, Table
from silva.elf.flat import flat
from silva.elf.plan import Plan, Step
from silva.elf.tool import Card
from silva.lake.durable import refusals
from silva.tree import Json

FILE = "openlineage.jsonl"
_SPEC = "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent"
_FACETS = "https://openlineage.io/spec/facets"
_PRODUCER = f"https://pypi.org/project/silva/{__version__}"
_WAIT = 3.0


class Lineage:
    """The events of one job.

    Args:
        folder: of the job.
        name: of the job.
        server: an OpenLineage server's address (`http://host:port/api/v1/lineage`); "" for none.
    """

    def __init__(self, folder: Path, name: str, server: str = "") -> None:
        self._path, self._name, self._server = folder / FILE, name, server
        self._run = str(uuid.uuid5(uuid.NAMESPACE_URL, f"silva-elf:{name}"))
        self.trouble = ""

    def job(self, kind: str, plan: Plan, why: str = "") -> None:
        """An event of the whole job."""
        facets: Json = {
            "sourceCode": _facet("SourceCodeJobFacet", "1-0-1", language="silva-plan", sourceCode=_text(plan))
        }
        if plan.intent:
            facets["documentation"] = _facet("DocumentationJobFacet", "1-1-0", description=plan.intent)
        self._send(kind, self._run, self._name, facets, self._errors(why), [], [])

    def step(
        self,
        kind: str,
        step: Step,
        card: Card,
        inputs: dict[str, tuple[str, ...]],
        result: str = "",
        made: Artefact | None = None,
        *,
        why: str = "",
    ) -> None:
        """An event of one step."""
        run = str(uuid.uuid5(uuid.NAMESPACE_URL, f"silva-elf:{self._name}:{step.id}"))
        parent = _facet(
            "ParentRunFacet", "1-2-0", run={"runId": self._run}, job={"namespace": "silva-elf", "name": self._name}
        )
        read = [{"namespace": "silva-elf", "name": digest, "facets": {}} for each in inputs.values() for digest in each]
        for name in ("source", "path", "run", "plan"):
            if isinstance(step.settings.get(name), str):
                read.append({"namespace": "silva-source", "name": step.settings[name], "facets": {}})
        wrote = [] if made is None else [_output(result, made)]
        facets: Json = {
            "jobType": _facet("JobTypeJobFacet", "2-0-4", processingType="BATCH", integration="SILVA", jobType="STEP"),
            "documentation": _facet("DocumentationJobFacet", "1-1-0", description=card.summary),
        }
        name = f"{self._name}.{step.id}"
        self._send(kind, run, name, facets, {"parent": parent, **self._errors(why)}, read, wrote)

    def _errors(self, why: str) -> Json:
        if not why:
            return {}
        return {"errorMessage": _facet("ErrorMessageRunFacet", "1-0-1", message=why, programmingLanguage="silva-plan")}

    def _send(
        self, kind: str, run: str, job: str, facets: Json, of_run: Json, read: list[Json], wrote: list[Json]
    ) -> None:
        event = {
            "eventType": kind,
            "eventTime": datetime.now(UTC).isoformat(),
            "producer": _PRODUCER,
            "schemaURL": _SPEC,
            "run": {"runId": run, "facets": of_run},
            "job": {"namespace": "silva-elf", "name": job, "facets": facets},
            "inputs": read,
            "outputs": wrote,
        }
        data = msgspec.json.encode(event)
        with refusals(f"events {self._path}"):
            descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
            try:
                os.write(descriptor, data + b"\n")
            finally:
                os.close(descriptor)
        if self._server and not self.trouble:
            self._post(data)

    def _post(self, data: bytes) -> None:
        asked = url_request.Request(self._server, data, {"Content-Type": "application/json"}, method="POST")
        try:
            with url_request.urlopen(asked, timeout=_WAIT):
                return
        except (url_error.URLError, OSError, ValueError) as error:
            self.trouble = f"OpenLineage at {self._server} cannot be reached ({error}); events are in {self._path}"


def _facet(name: str, version: str, **fields: Any) -> Json:
    return {"_producer": _PRODUCER, "_schemaURL": f"{_FACETS}/{version}/{name}.json#/$defs/{name}", **fields}


def _output(result: str, made: Artefact) -> Json:
    facets: Json = {"version": _facet("DatasetVersionDatasetFacet", "1-0-1", datasetVersion=result)}
    if isinstance(made, Rows | Table) and made.rows:
        first = flat(made.rows[0]) if isinstance(made, Rows) else made.rows[0]
        fields = [{"name": key, "type": type(value).__name__} for key, value in first.items()]
        facets["schema"] = _facet("SchemaDatasetFacet", "1-2-0", fields=fields)
    statistics = _facet("OutputStatisticsOutputDatasetFacet", "1-0-2", rowCount=len(made))
    return {
        "namespace": "silva-elf",
        "name": result,
        "facets": facets,
        "outputFacets": {"outputStatistics": statistics},
    }


def _text(plan: Plan) -> str:
    return msgspec.json.encode(plan.steps).decode()
