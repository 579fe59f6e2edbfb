"""Tools of science (`silva.curate.science`)."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from silva.elf.artefact import Result
from silva.elf.tool import Cost, Permission, tool
from silva.errors import MissingError

_MISSING = "the room silva.curate.science is not whole in this version"


@tool(Permission.NET, asks=("enzyme", "enzyme attribute", "enzyme property"), cost=Cost(seconds=10.0), missing=_MISSING)
def enzyme_properties(ec: Annotated[str, Meta(pattern=r"^\d+\.\d+\.\d+\.(\d+|-)$", description="EC number")]) -> Result:
    """What UniProt, KEGG and PubChem say of an enzyme."""
    raise MissingError(_MISSING)


@tool(
    Permission.READ,
    asks=(
        "protein",
        "protein physico",
        "analyse protein",
        "isoelectric point",
        "hydropathy",
        "molecular weight protein",
    ),
    missing=_MISSING,
)
def protein_properties(
    sequence: Annotated[str, Meta(min_length=1, description="a sequence of amino acids, or a FASTA file")],
) -> Result:
    """The physico-chemistry of proteins: weight, isoelectric point, hydropathy, composition."""
    raise MissingError(_MISSING)
