"""The scorers, each a file of its own; see `silva.curate.value.scorer`."""
