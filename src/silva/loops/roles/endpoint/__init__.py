"""Implementations of roles that ask any model that `silva.models` reaches, in words of our own, every cost counted."""
