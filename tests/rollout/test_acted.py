"""Who acted stands on records, comes back from them as it was written, and adds up."""

from silva.rollout.acted import Acted, acted, acted_on, in_all, prompt_digest
from silva.tree import Usage


def test_who_acted_is_read_back_and_summed_by_implementation() -> None:
    usage = Usage(prompt_tokens=10, completion_tokens=2, model_seconds=1.5, env_seconds=0.5, usd=0.25)
    judged = Acted.of("verifier", "endpoint", usage, model="m", prompt=prompt_digest("Which of {n}?"))
    explored = Acted(role="explorer", by="policy", seconds=1.0)
    row = acted(judged, explored)
    assert acted_on(row) == (judged, explored)
    assert acted_on({}) == () == acted_on({"acted": [{"role": "king"}]})
    assert prompt_digest("Which of {n}?") == judged.prompt != prompt_digest("Which of {k}?")

    (first, once), (second, twice) = in_all([judged, explored, judged])
    assert (first, once) == (explored, 1)
    assert (twice, second.prompt_tokens, second.completion_tokens, second.seconds, second.usd) == (2, 20, 4, 4.0, 0.5)
