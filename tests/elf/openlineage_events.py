"""Reads OpenLineage events by the classes of the official client, which know every field and facet by its name."""

from __future__ import annotations

from typing import Any

import pytest


def loaded(event: dict[str, Any]) -> dict[str, Any]:
    """The event as the client's own classes write it; what they do not know raises TypeError or ValueError."""
    pytest.importorskip("openlineage.client", reason="the dev extra has openlineage-python")
    from openlineage.client import event_v2, facet_v2
    from openlineage.client.serde import Serde

    kinds: dict[str, Any] = {
        "sourceCode": facet_v2.source_code_job.SourceCodeJobFacet,
        "jobType": facet_v2.job_type_job.JobTypeJobFacet,
        "errorMessage": facet_v2.error_message_run.ErrorMessageRunFacet,
        "version": facet_v2.dataset_version_dataset.DatasetVersionDatasetFacet,
        "outputStatistics": facet_v2.output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet,
        "documentation": facet_v2.documentation_job.DocumentationJobFacet,
    }

    def facet(name: str, value: dict[str, Any]) -> Any:
        said = {key: each for key, each in value.items() if not key.startswith("_")}
        if name == "parent":
            module = facet_v2.parent_run
            return module.ParentRunFacet(run=module.Run(**said.pop("run")), job=module.Job(**said.pop("job")), **said)
        if name == "schema":
            module = facet_v2.schema_dataset
            fields = [module.SchemaDatasetFacetFields(**each) for each in said.pop("fields")]
            return module.SchemaDatasetFacet(fields=fields, **said)
        return kinds[name](**said)

    def facets(given: dict[str, Any]) -> dict[str, Any]:
        return {name: facet(name, value) for name, value in given.items()}

    def data_set(kind: Any, value: dict[str, Any]) -> Any:
        return kind(**{key: facets(each) if key.lower().endswith("facets") else each for key, each in value.items()})

    event_v2.set_producer(event["producer"])
    made = event_v2.RunEvent(
        eventType=event_v2.RunState(event["eventType"]),
        eventTime=event["eventTime"],
        producer=event["producer"],
        run=event_v2.Run(runId=event["run"]["runId"], facets=facets(event["run"]["facets"])),
        job=event_v2.Job(**{**event["job"], "facets": facets(event["job"]["facets"])}),
        inputs=[data_set(event_v2.InputDataset, each) for each in event["inputs"]],
        outputs=[data_set(event_v2.OutputDataset, each) for each in event["outputs"]],
    )
    return full(Serde.to_dict(made))


def full(value: Any) -> Any:
    """Without fields that are empty, which may be left out."""
    if isinstance(value, dict):
        return {key: said for key, each in value.items() if (said := full(each)) not in (None, {}, [])}
    return [full(each) for each in value] if isinstance(value, list) else value
