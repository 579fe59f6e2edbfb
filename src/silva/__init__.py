"""Silva grows agents: it runs them in real environments and keeps every turn on a tree."""

import logging

__version__ = "0.1.0"

# A library's warnings go where its user sends them; every fault also reaches the caller as an error.
logging.getLogger("silva").addHandler(logging.NullHandler())
