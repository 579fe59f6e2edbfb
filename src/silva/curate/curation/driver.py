"""What runs inside the sandbox: `python3 -I driver.py < raw.json > output.json`. Knows no Silva.

What the curation prints goes to standard error; its result alone is standard output. The operators stand
beside it, as the module `operators`.
"""

import importlib.util
import json
import os
import sys
from pathlib import Path


def load(name, path):
    """A module of a file."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def main(folder):
    """Run the curation on what standard input holds."""
    answer = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    raw = json.loads(sys.stdin.buffer.read())
    load("operators", folder / "operators.py")
    made = load("curation", folder / "curation.py").curate(raw)
    if isinstance(made, tuple) and len(made) == 3:
        made = dict(zip(("sft", "rl", "memory"), made, strict=True))
    json.dump(made, answer, sort_keys=True)
    answer.flush()


if __name__ == "__main__":
    main(Path(sys.argv[0]).resolve().parent)
