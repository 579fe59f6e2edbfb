"""Engines: they hold weights and change them. One interface, so that a trainer does not know which one it drives.

    samples ─▶ micro-batches by tokens ─▶ forward: hidden states, each sample attending to itself alone
                                            └▶ head at positions with loss only ─▶ log-probabilities ─▶ algorithm.loss
    loss ─▶ backward, summed in float32 over the step ─▶ optim_step: clip, AdamW on float32 masters
         ─▶ save_weights_for_sampler: a PEFT folder, or a Hugging Face folder ─▶ `silva models serve`, a policy version

`engine` is the interface, `local` the one that computes here (torch, peft); `silva.train.trl` hands the same
configuration to TRL's trainers. `group` and `share` say how several processes compute one step. Importing this loads no
torch.
"""
