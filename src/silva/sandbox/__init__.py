"""Where programs run that Silva did not write. So far: one command, one folder it may write, no more of this machine
than it needs.

    Confined (folder, variables, mounts) ─▶ bubblewrap (namespaces, no root needed) ─▶ argument list ─▶ a process
                                        └─ process (no isolation; where asked for, or where there is no bubblewrap)
"""

from silva.sandbox.confine import Confined, Level, confined, level, seen

__all__ = ["Confined", "Level", "confined", "level", "seen"]
