"""What an algorithm refuses, by name: each is one line that says what, where and what to do."""

from __future__ import annotations

from silva.errors import UsageError


class GroupError(UsageError):
    """A group of samples that has no advantages: one member, several tasks or versions, no rewards, no logprobs."""


class PairError(UsageError):
    """A chosen and a rejected sample that do not answer the same context."""


class TeacherError(UsageError):
    """A teacher that is missing, or speaks of other tokens than the sample's."""


class BatchError(UsageError):
    """A batch that lacks what an algorithm needs, or in which nothing carries loss."""
