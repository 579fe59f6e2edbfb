"""One training run on several processes and GPUs: each computes a share of every step, all hold the same weights.

    silva train run ─▶ launch ─▶ agent (torchrun's) ─▶ rank 0 … rank N-1, one a GPU
                         ▲ stop: a file                    each: the same config, the same samples, the same step
                         └──── result, or one line ◀──────┘

    a step's samples ─ share ─▶ mine ─▶ forward, backward ─▶ gradients summed over ranks ─▶ the same update in each
         └ totals of the whole step: the sum over ranks is the single process's number but for rounding

Rank 0 alone writes: checkpoints, curves, the lake, the policy. What decides (stop, divergence, where to go on) is
computed from numbers that every rank has, so all ranks decide alike. A checkpoint does not know how many processes
wrote it: another number may go on from it. With `shard` each rank holds its part of weights, gradients and moments
(PyTorch's FSDP2), and a checkpoint is still whole.

Why torchrun's launcher and not accelerate's: accelerate's starts torchrun's agent for several GPUs and machines, from a
configuration file of its own; the agent's API takes the few values that are here, ends all ranks when one dies and says
which. What accelerate's own process state, `reduce` and `prepare` would do here is one call of torch.distributed each,
and its data loaders and gradient accumulation normalise a step otherwise than Silva's losses do.

How a step is shared stands with the engines (`silva.train.engines.share`, `group`, `sharding`, `device`), what each
process runs in `silva.train.rank`. `joined` and `agent` are adapters to torch and imported when a run needs them.
"""
