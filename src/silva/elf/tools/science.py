"""Tools of science (`silva.curate.science`): each gives `result`, `metadata` and `artifacts`, errors told by item."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from silva.curate import science
from silva.elf.artefact import Result, Rows
from silva.elf.flat import flat
from silva.elf.tool import Cost, Permission, tool
from silva.elf.work import Work
from silva.errors import UsageError

Items = Annotated[tuple[str, ...], Meta(min_length=1, description="the items")]


@tool(
    Permission.NET,
    asks=("enzyme", "enzyme attribute", "enzyme property", "enzyme commission"),
    cost=Cost(seconds=10.0),
)
def enzyme_properties(
    ec: Annotated[str, Meta(pattern=r"^\d+\.\d+\.\d+\.(\d+|-)$", description="EC number, such as 1.1.1.1")],
    work: Work,
    most: Annotated[int, Meta(ge=1, le=500, description="reviewed proteins at most")] = 5,
) -> Result:
    """What UniProt, KEGG and PubChem know of an enzyme; of recorded replies alone where the job is given a folder."""
    transport = science.Transport("replay", work.replay) if work.replay else science.Transport()
    return _told(science.enzymes([ec], transport, most=most))


@tool(
    asks=(
        "protein",
        "protein physico chemistry",
        "analyse protein",
        "isoelectric point",
        "hydropathy",
        "molecular weight protein",
        "protein sequence",
    ),
    examples=({"inputs": {}, "settings": {"sequence": ["MKTAYIAKQR"]}},),
)
def protein_properties(sequence: Items) -> Result:
    """The physico-chemistry of protein sequences: mass, isoelectric point, hydropathy, stability, composition."""
    return _told(science.proteins(sequence))


@tool(
    asks=(
        "molecule",
        "standardise molecule",
        "standardize molecule",
        "canonical molecule",
        "inchikey",
        "normalise molecule",
    ),
    examples=({"inputs": {"rows": [{"text": "CCO"}]}, "settings": {}},),
)
def standardise_molecules(
    rows: Rows,
    column: Annotated[str, Meta(description="the column that holds the SMILES")] = "text",
    tautomers: bool = True,
) -> Result:
    """Put molecules of rows (SMILES) into a standard form with keys and properties; those that come to the same are
    told together."""
    found = [str(value) for row in rows.rows if (value := flat(row).get(column))]
    if not found:
        raise UsageError(f"standardise-molecules: no row has a column {column!r}")
    return _told(science.molecules(found, tautomers=tautomers))


@tool(Permission.READ, asks=("eeg", "eeg recording", "eeg band", "eeg channel"), cost=Cost(seconds=5.0))
def eeg_recordings(
    paths: Items, notch: Annotated[float, Meta(ge=0, description="mains frequency in Hz; 0 leaves it")] = 0.0
) -> Result:
    """Channels, events, bad channels and band shares of EEG recordings."""
    return _told(science.recordings(paths, notch=notch or None))


@tool(
    Permission.READ,
    asks=("climate", "align climate", "climate alignment", "netcdf", "align grid"),
    cost=Cost(seconds=5.0),
)
def align_climate(
    paths: Annotated[tuple[str, ...], Meta(min_length=2, description="NetCDF files; the first is aligned to")],
    variable: Annotated[str, Meta(min_length=1, description="which variable")],
    work: Work,
    method: Literal["linear", "nearest"] = "linear",
) -> Result:
    """Put one variable of several NetCDF files on the grid, the times and in the units of the first."""
    return _told(science.align(paths, variable, str(work.file("aligned.nc")), method=method))


def _told(made: science.Result) -> Result:
    errors = tuple(f"{each.item}{f' ({each.where})' if each.where else ''}: {each.why}" for each in made.errors)
    more = (f"and {len(errors) - 10} more errors",) if len(errors) > 10 else ()
    return Result(
        status=made.status,
        result=msgspec.to_builtins(made.result),
        metadata=msgspec.to_builtins(made.metadata),
        artifacts=made.artifacts,
        notes=(*errors[:10], *more),
    )
