"""Files made by code from a description: the same description gives the same bytes."""
