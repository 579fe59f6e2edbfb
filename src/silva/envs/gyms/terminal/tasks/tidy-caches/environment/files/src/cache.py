"""Remembers answers."""

ANSWERS = {}
