"""What all tests share: the word by which they meet Ray's clusters.

Ray reads its token's mode when it is first imported (other libraries import it by the way) and the token once in a
process, so both stand before any test module is loaded.
"""

from __future__ import annotations

import os
import secrets

os.environ["RAY_AUTH_MODE"] = "token"
os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)
