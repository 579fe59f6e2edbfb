"""Gateways measured beside Silva's: each in a virtual environment of its own, before the same scripted backend."""
