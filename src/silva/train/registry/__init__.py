"""Policy versions: kept in the lake, promoted, rolled back, written out, and put behind a gateway.

    engine's folder ─▶ Registry.register ─▶ candidate ─▶ promote ─▶ head of its line ─▶ publish: a gateway serves it
                                               │             └─▶ rollback: its parent is the head again
                                               └─▶ reject       export: adapter, merged weights, GGUF

version       what a version is: a record that never changes
event, line   what became of it: events, and what they add up to
registry      the versions of a lake
weights, tensors, lora, checked   folders of weights on this machine, and what of them is kept
materialise   a version as a verified local folder
export, gguf_file, publish        the ways out

No torch here: weights are bytes that are checked, kept, added up and written out.
"""

from silva.train.registry.event import Event
from silva.train.registry.line import Line
from silva.train.registry.registry import Registry
from silva.train.registry.version import Base, Data, PolicyVersion, Status, StoredFile, line_and_number

__all__ = [
    "Base",
    "Data",
    "Event",
    "Line",
    "PolicyVersion",
    "Registry",
    "Status",
    "StoredFile",
    "line_and_number",
]
