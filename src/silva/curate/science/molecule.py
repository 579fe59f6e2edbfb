"""Molecules: SMILES put into one standard form (RDKit's MolStandardize), so that equal molecules are written alike."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from silva.curate.science.result import Result, each, made, package
from silva.tree import Json

_LONGEST = 5_000


def molecules(smiles: Iterable[str], *, tautomers: bool = True) -> Result:
    """Standard forms: cleaned up, the largest fragment, uncharged, the canonical tautomer; with SMILES, InChIKey,
    formula, mass (Da), logP (Crippen), polar surface (Å²), and which of the steps changed it. Molecules that come to
    the same are told together.

    Args:
        smiles: one molecule each.
        tautomers: whether the canonical tautomer is taken; it costs most of the time.

    Raises:
        MissingError: RDKit is not installed.
        UsageError: there is no molecule.
    """
    rdkit = package("rdkit", "molecule")
    logs: Any = package("rdkit.RDLogger", "molecule")
    logs.DisableLog("rdApp.*")
    found, errors = each(smiles, lambda item: _standard(item, tautomers))
    same: dict[str, list[str]] = {}
    for item, told in found.items():
        same.setdefault(str(told["inchikey"]), []).append(item)
    steps = ["cleanup", "largest fragment", "uncharge", *(["canonical tautomer"] if tautomers else [])]
    metadata: Json = {"by": f"RDKit {rdkit.__version__}", "steps": steps}
    return made(found, errors, metadata | {"same": [items for items in same.values() if len(items) > 1]})


def _standard(text: str, tautomers: bool) -> Json:
    chemistry: Any = package("rdkit.Chem", "molecule")
    descriptors: Any = package("rdkit.Chem.Descriptors", "molecule")
    formulas: Any = package("rdkit.Chem.rdMolDescriptors", "molecule")
    standard: Any = package("rdkit.Chem.MolStandardize.rdMolStandardize", "molecule")
    if len(text) > _LONGEST:
        raise ValueError(f"is longer than {_LONGEST:,} characters")
    molecule = chemistry.MolFromSmiles(text)
    if molecule is None or not molecule.GetNumAtoms():
        raise ValueError("is no SMILES of a molecule that RDKit reads")
    changed: list[str] = []
    for name, step in (
        ("cleanup", standard.Cleanup),
        ("largest fragment", standard.FragmentParent),
        ("uncharge", standard.Uncharger().uncharge),
        *((("canonical tautomer", standard.TautomerEnumerator().Canonicalize),) if tautomers else ()),
    ):
        before = chemistry.MolToSmiles(molecule)
        molecule = step(molecule)
        if chemistry.MolToSmiles(molecule) != before:
            changed.append(name)
    return {
        "smiles": chemistry.MolToSmiles(molecule),
        "inchikey": chemistry.MolToInchiKey(molecule),
        "formula": formulas.CalcMolFormula(molecule),
        "mass_da": round(descriptors.MolWt(molecule), 4),
        "logp": round(descriptors.MolLogP(molecule), 4),
        "polar_surface": round(descriptors.TPSA(molecule), 2),
        "changed_by": changed,
    }
