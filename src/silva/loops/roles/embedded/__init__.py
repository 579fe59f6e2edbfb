"""Implementations of roles that ask no model but the policy itself: honest and general, with no answers of tests."""
