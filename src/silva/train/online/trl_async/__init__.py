"""TRL's asynchronous GRPO trainer, fed by Silva's rollouts: `engine: trl-async` of an online run.

    buffer ─▶ BufferSource ─▶ Rollouts (TRL's RolloutWorkerProtocol: its queue) ─▶ RolloutQueueDataset ─▶ StepBatches
                 ▲                                                                                          │
                 │ publish, commit                                             TRL: packing, forward, loss, optimiser
                 └────────────── Handover (TRL's WeightTransferProtocol) ◀── after each step ◀──────────────┘

    settings.py   what is refused, and TRL's own arguments; needs no torch
    rollouts.py   the worker: samples as TRL takes them, exact ids, log-probabilities and versions
    handover.py   the weight transfer: looks at every tensor, then has the source publish and commit
    batches.py    a step's samples, cut into micro-batches by tokens
    trainer.py    TRL's trainer with these in place, told of steps, logs and checkpoints
    attention.py  TRL's attention over shared prefixes, in torch, where its kernel does not run
    engine.py     builds all of it; writes the weights a server loads
    training.py   one training: resume, run, what came of it

Everything that computes is TRL's: tree packing, fused log-probabilities, the clipped loss, AdamW, checkpoints. Silva's
are what is trained (groups under the buffer's bound, scored by Silva's GRPO) and who serves the result. What is
different from `engine: local`: the optimiser's state is TRL's, and weights are proven only by being finite.

A step is the buffer's step. TRL's own loader takes a micro-batch more than the step needs before it trains the step
(measured: 4 groups where 2 are a step's), which no bound on staleness can hold, so `StepBatches` stands in its place.

Written for trl 1.16.0; imported by name only, when the engine is asked for.
"""
