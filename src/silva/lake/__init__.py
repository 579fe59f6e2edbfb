"""Durable memory: a journal that loses nothing, tables that answer anything. See `silva.lake.lake`."""

from silva.lake.column import Column, Table
from silva.lake.columns import TABLES
from silva.lake.doctor import Finding
from silva.lake.entry import Arrival, BlobEntry
from silva.lake.filters import Filter, field
from silva.lake.lake import Lake
from silva.lake.layout import LAKE_SCHEMA
from silva.lake.ledger import Ledger, LedgerEntry
from silva.lake.location import default_location
from silva.lake.opening import open_lake
from silva.lake.stats import Stats
from silva.lake.versions import Version
from silva.lake.where import parse

__all__ = [
    "LAKE_SCHEMA",
    "TABLES",
    "Arrival",
    "BlobEntry",
    "Column",
    "Filter",
    "Finding",
    "Lake",
    "Ledger",
    "LedgerEntry",
    "Stats",
    "Table",
    "Version",
    "default_location",
    "field",
    "open_lake",
    "parse",
]
