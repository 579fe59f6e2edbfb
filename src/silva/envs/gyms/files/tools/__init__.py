"""The tools, one file for each kind of thing they work on; `catalogue` gathers them."""
