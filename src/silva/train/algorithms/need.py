"""What the loss of an algorithm may need to be given."""

from __future__ import annotations

from typing import Literal

Need = Literal["logprobs", "reference", "teacher", "teacher_top", "pairs", "group"]
"""`logprobs`: under the policy that drew; `reference`, `teacher`: of the same ids under a frozen model; `teacher_top`:
the teacher's K likeliest ids with their logprobs; `pairs`: samples in pairs of chosen and rejected; `group`: samples
that `score` gave advantages."""
