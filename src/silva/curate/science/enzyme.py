"""Enzymes: one record for an EC number, from UniProt (proteins), KEGG (reactions) and PubChem (substances).

    EC number ─▶ KEGG: names, reaction, substrates, products ─▶ PubChem: formula, mass, SMILES of each substance
              ─▶ UniProt: reviewed proteins with organism, length and mass; their sequences' physico-chemistry

A source that cannot be had is an error of that item at that source; what the others say stands.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import quote

from silva.curate.science.protein import proteins
from silva.curate.science.result import ItemError, Result, each, made, package
from silva.curate.science.transport import Transport
from silva.errors import MissingError, SilvaError
from silva.tree import Json

_EC = re.compile(r"[1-7]\.\d+\.\d+\.(\d+|n\d+)")
UNIPROT = "https://rest.uniprot.org/uniprotkb/search"
KEGG = "https://rest.kegg.jp/get"
PUBCHEM = "https://pubchem.ncbi.nlm.nih.gov/rest/pug/compound/name"
FIELDS = "accession,id,protein_name,organism_name,ec,length,mass,sequence"
PROPERTIES = "MolecularFormula,MolecularWeight,SMILES,InChIKey,XLogP"


def enzymes(numbers: Iterable[str], transport: Transport, *, most: int = 5, substances: int = 6) -> Result:
    """What three services know of enzymes.

    Args:
        numbers: EC numbers, such as 1.1.1.1.
        transport: the way to the services.
        most: reviewed proteins of each.
        substances: substrates and products that are looked up.

    Raises:
        MissingError: Biopython is not installed.
        UsageError: there is no number.
    """
    package("Bio.KEGG.Enzyme", "enzyme")
    errors: list[ItemError] = []
    found, wrong = each(numbers, lambda item: _enzyme(item, transport, most, substances, errors))
    empty = [item for item, told in found.items() if not told]
    for item in empty:
        del found[item]
    return made(dict(found), [*wrong, *errors], {"mode": transport.mode, "sources": dict(transport.sources)})


def _enzyme(number: str, transport: Transport, most: int, substances: int, errors: list[ItemError]) -> Json:
    if not _EC.fullmatch(number):
        raise ValueError("is no full EC number, such as 1.1.1.1")
    told: Json = {}

    def ask(where: str, item: str, work: Callable[[], Any]) -> Any:
        try:
            return work()
        except MissingError:
            raise
        except (SilvaError, ValueError, KeyError, TypeError, IndexError) as fault:
            why = str(fault) if isinstance(fault, SilvaError) else f"its reply is not as it should be ({fault!r})"
            errors.append(ItemError(item=item, why=" ".join(why.split()), where=where))
            return None

    reaction = ask("KEGG", number, lambda: _reaction(number, transport))
    if reaction is not None:
        told |= reaction
        names = dict.fromkeys([*reaction["substrates"], *reaction["products"]])
        known = {
            name: ask("PubChem", name, lambda n=name: _substance(n, transport)) for name in list(names)[:substances]
        }
        told["substances"] = {name: each for name, each in known.items() if each is not None}
    entries = ask("UniProt", number, lambda: _proteins(number, transport, most))
    if entries is not None:
        told["proteins"] = entries
    return told


def _reaction(number: str, transport: Transport) -> Json:
    body = transport.get(f"{KEGG}/ec:{number}").decode("utf-8", "replace")
    records = list(package("Bio.KEGG.Enzyme", "enzyme").parse(io.StringIO(body)))
    if not records or not records[0].entry:
        raise ValueError("no entry of KEGG ENZYME")
    record = records[0]
    return {
        "names": [name.rstrip(";") for name in record.name],
        "systematic_name": " ".join(record.sysname),
        "reactions": list(record.reaction),
        "substrates": [_plain(each) for each in record.substrate],
        "products": [_plain(each) for each in record.product],
    }


def _plain(name: str) -> str:
    """A substance without the number that KEGG writes behind it."""
    return re.sub(r"\s*\[CPD:[^\]]*\]", "", name).strip().rstrip(";")


def _substance(name: str, transport: Transport) -> Json:
    told: Any = json.loads(transport.get(f"{PUBCHEM}/{quote(name)}/property/{PROPERTIES}/JSON"))
    found = told["PropertyTable"]["Properties"][0]
    return {
        "cid": int(found["CID"]),
        "formula": str(found["MolecularFormula"]),
        "mass_da": float(found["MolecularWeight"]),
        "smiles": str(found.get("SMILES") or found.get("CanonicalSMILES") or ""),
        "inchikey": str(found["InChIKey"]),
        "logp": None if found.get("XLogP") is None else float(found["XLogP"]),
    }


def _proteins(number: str, transport: Transport, most: int) -> list[Json]:
    asked = quote(f"ec:{number} AND reviewed:true")
    told: Any = json.loads(transport.get(f"{UNIPROT}?query={asked}&fields={FIELDS}&format=json&size={most}"))
    entries: list[Json] = []
    for each_entry in told["results"]:
        description, sequence = each_entry["proteinDescription"], each_entry["sequence"]
        found: Json = {
            "accession": str(each_entry["primaryAccession"]),
            "name": str(description["recommendedName"]["fullName"]["value"]),
            "organism": str(each_entry["organism"]["scientificName"]),
            "length": int(sequence["length"]),
            "mass_da": int(sequence["molWeight"]),
        }
        if sequence.get("value"):
            computed = proteins([f"{found['accession']}={sequence['value']}"])
            found["computed"] = computed.result.get(found["accession"]) or {"error": computed.errors[0].why}
        entries.append(found)
    return entries
