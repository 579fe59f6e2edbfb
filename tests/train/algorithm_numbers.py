"""Batches of random numbers, for tests of losses. Torch is imported when one is made."""

NAMES = ["logprobs", "sampled", "reference", "teacher", "old", "weights", "advantages"]


def made(seed, lengths, pairs=False, totals=None):
    """A batch of random numbers in float64, and the same numbers in lists, one a sample."""
    import torch

    from silva.train.algorithms.batch import Batch

    random = torch.Generator().manual_seed(seed)
    total = sum(lengths)

    def numbers(mean, spread):
        return mean + spread * torch.randn(total, generator=random, dtype=torch.float64)

    logprobs = -numbers(0, 1).abs() - 0.1
    flat = {
        "logprobs": logprobs,
        "sampled": logprobs + numbers(0, 0.3),
        "reference": logprobs + numbers(0, 0.4),
        "teacher": -numbers(0, 1).abs() - 0.1,
        "old": logprobs + numbers(0, 0.2),
        "weights": torch.rand(total, generator=random, dtype=torch.float64) + 0.1,
        "advantages": numbers(0, 1),
    }
    apart = {name: [each.tolist() for each in flat[name].split(lengths)] for name in NAMES}
    batch = Batch(
        logprobs=flat["logprobs"].clone().requires_grad_(),
        mask=torch.ones(total),
        weights=flat["weights"],
        advantages=flat["advantages"],
        sequence=torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths)),
        sampled_logprobs=flat["sampled"],
        old_logprobs=flat["old"],
        reference_logprobs=flat["reference"],
        teacher_logprobs=flat["teacher"],
        chosen=torch.arange(0, len(lengths), 2) if pairs else None,
        rejected=torch.arange(1, len(lengths), 2) if pairs else None,
        totals=totals,
    )
    return batch, apart
