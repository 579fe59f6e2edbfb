"""Proteins: what follows from a sequence alone (Biopython's ProtParam)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from silva.curate.science.result import Result, each, made, package
from silva.tree import Json

LETTERS = frozenset("ACDEFGHIKLMNPQRSTVWY")
_LONGEST = 50_000


def proteins(sequences: Iterable[str]) -> Result:
    """The physico-chemistry of proteins: length, mass (Da), isoelectric point, GRAVY (Kyte and Doolittle 1982),
    aromaticity (Lobry and Gautier 1994), instability index (Guruprasad et al. 1990; over 40 is unstable), charge at pH
    7, molar extinction at 280 nm (M⁻¹ cm⁻¹, cysteines reduced and bridged), shares of helix, turn and sheet formers.

    Args:
        sequences: in one-letter code, or as `NAME=SEQUENCE`.

    Raises:
        MissingError: Biopython is not installed.
        UsageError: there is no sequence.
    """
    analysis: Any = package("Bio.SeqUtils.ProtParam", "protein").ProteinAnalysis
    found, errors = each(sequences, lambda item: _properties(item, analysis))
    named = {name: properties for name, properties in found.values()}
    return made(named, errors, {"by": f"Biopython {package('Bio', 'protein').__version__}, ProtParam"})


def _properties(item: str, analysis: Any) -> tuple[str, Json]:
    name, _, text = item.rpartition("=")
    sequence = "".join(text.split()).upper().rstrip("*")
    strange = sorted(set(sequence) - LETTERS)
    if not sequence or len(sequence) > _LONGEST:
        raise ValueError(f"a sequence has 1 to {_LONGEST:,} residues, not {len(sequence):,}")
    if strange:
        raise ValueError(f"{', '.join(strange)}: is none of the twenty amino acids; nothing is computed in part")
    protein = analysis(sequence)
    reduced, bridged = protein.molar_extinction_coefficient()
    helix, turn, sheet = protein.secondary_structure_fraction()
    return name or f"{sequence[:12]}{'…' if len(sequence) > 12 else ''}", {
        "length": len(sequence),
        "mass_da": round(protein.molecular_weight(), 2),
        "isoelectric_point": round(protein.isoelectric_point(), 3),
        "gravy": round(protein.gravy(), 4),
        "aromaticity": round(protein.aromaticity(), 4),
        "instability_index": round(protein.instability_index(), 2) if len(sequence) > 1 else None,
        "charge_at_ph7": round(protein.charge_at_pH(7.0), 3),
        "extinction_280": {"reduced": reduced, "bridged": bridged},
        "fractions": {"helix": round(helix, 4), "turn": round(turn, 4), "sheet": round(sheet, 4)},
    }
