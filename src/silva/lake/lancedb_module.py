"""LanceDB, imported in two thirds of the time.

LanceDB imports the client of a REST service (`lance_namespace_urllib3_client`), which builds some 300 pydantic models
and 370 checked functions that no lake ever calls: more than half of what opening a lake costs a command. While LanceDB
is imported pydantic is asked to build what is declared when it is first used; nothing else about it changes.
"""

from __future__ import annotations

import threading
from functools import cache, partial
from typing import Any

import pydantic

_LOCK = threading.Lock()


@cache
def lancedb() -> Any:
    """The module. What other threads declare meanwhile is built when it is first used, too."""
    with _LOCK:
        checked, settings = pydantic.validate_call, pydantic.BaseModel.model_config
        pydantic.validate_call = partial(checked, config={"defer_build": True})
        settings["defer_build"] = True
        try:
            import lancedb as module
        finally:
            pydantic.validate_call = checked
            settings.pop("defer_build")
    return module
