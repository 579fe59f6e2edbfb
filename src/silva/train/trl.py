"""TRL's trainers by the same configuration: a referee for Silva's losses and optimiser, and a door to what TRL
has and Silva has not.

    samples ─▶ rows of ids (`writers.trl`) ─▶ SFTTrainer, DPOTrainer, GRPOTrainer ─▶ adapter or weights ─▶ output/policy

What is different there: TRL keeps its own order of the data; GRPO's ratio is against its own logprobs at the step's
start, never the sampler's; every group must have as many samples as the others. No resume, no watch for divergence; a
parameter that TRL has no counterpart for is refused by name. Written for trl 1.16.0.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TextIO

from silva.errors import UsageError
from silva.train.config import TrainConfig
from silva.train.curves import CurveFile, Point
from silva.train.engines.open import require
from silva.train.left_out import left_out
from silva.train.readable import readable
from silva.train.sample import Sample
from silva.train.sources import Prepared
from silva.train.trainer import TrainResult, write_policy

if TYPE_CHECKING:
    from silva.train.algorithms import Algorithm

_SCHEDULES = {"constant": "constant_with_warmup", "linear": "linear", "cosine": "cosine"}
_GRPO_LOSSES = {"token": "dapo", "sequence": "grpo", "constant": "dr_grpo"}


def train_with_trl(
    config: TrainConfig, algorithm: Algorithm, prepared: Prepared, out: TextIO | None = None
) -> TrainResult:
    """Train with TRL's trainer for the algorithm.

    Args:
        config: of the run.
        algorithm: `sft`, `dpo` or `grpo`.
        prepared: its groups.
        out: where what drops out is told.

    Raises:
        MissingError: TRL is not installed.
        UsageError: something configured has no counterpart in TRL.
        SampleError: a sample has weights other than 0 and 1, or lacks logprobs.
    """
    _refuse(config)
    require("torch", "transformers", "peft", "safetensors", "datasets", "trl")
    os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
    build = {"sft": _sft, "dpo": _dpo, "grpo": _grpo}.get(algorithm.name)
    if build is None:
        raise UsageError(f"engine trl: it trains sft, dpo and grpo, not {algorithm.name}; take engine: local")
    import torch

    from silva.train.engines.local import LocalEngine

    if config.threads is not None:
        torch.set_num_threads(config.threads)
    # in float32: TRL changes the module's own weights, and they must be the masters
    policy = config.policy.model_copy(update={"dtype": "float32"})
    engine = LocalEngine(policy, config.optimiser, temperature=config.temperature, seed=config.seed)
    prepared, _ = readable(prepared, (), engine, algorithm)
    if out is not None:
        out.write(left_out(prepared.dropped))
    engine.as_module().set_attn_implementation("sdpa")
    trainer = build(config, algorithm, prepared.groups, engine)
    trainer.train()
    curve = CurveFile(config.output, -1)
    for entry in trainer.state.log_history:
        numbers = {name: float(value) for name, value in entry.items() if isinstance(value, int | float)}
        if "loss" in numbers:
            curve.write(Point(step=int(numbers.pop("step")), values=numbers))
    curve.close()

    return TrainResult(
        status="finished", step=int(trainer.state.global_step), policy=write_policy(engine, config.output)
    )


def _refuse(config: TrainConfig) -> None:
    for name, given in (
        ("teacher", config.teacher is not None),
        ("data.held_out", bool(config.data.held_out or config.data.held_out_dataset)),
        ("policy.dtype: bfloat16", config.policy.dtype == "bfloat16"),
        ("optimiser.floor", config.optimiser.floor > 0),
        ("optimiser.moments", config.optimiser.moments is not None),
        ("curves", any((config.curves.lake, config.curves.tensorboard, config.curves.wandb, config.curves.mlflow))),
    ):
        if given:
            raise UsageError(f"engine trl: {name} has no counterpart there; leave it out, or take engine: local")


def _arguments(config: TrainConfig, rows: int) -> dict[str, Any]:
    optimiser = config.optimiser
    return {
        "output_dir": str(config.output / "trl"),
        "max_steps": config.steps,
        "per_device_train_batch_size": rows,
        "learning_rate": optimiser.learning_rate,
        "lr_scheduler_type": _SCHEDULES[optimiser.schedule],
        "warmup_steps": optimiser.warmup,
        "weight_decay": optimiser.weight_decay,
        "adam_beta1": optimiser.betas[0],
        "adam_beta2": optimiser.betas[1],
        "adam_epsilon": optimiser.epsilon,
        "max_grad_norm": 0.0 if optimiser.clip is None else optimiser.clip,
        "seed": config.seed,
        "logging_steps": 1,
        "save_strategy": "no",
        "report_to": "none",
        "use_cpu": True,
        "bf16": False,
        "gradient_checkpointing": False,
        "disable_tqdm": True,
    }


def _library() -> Any:
    # by name: its classes are loaded when they are asked for, which type checkers cannot follow
    return importlib.import_module("trl")


def _tokenizer(engine: Any) -> Any:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(engine.folder, local_files_only=True)
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def _sft(config: TrainConfig, algorithm: Any, groups: Sequence[list[Sample]], engine: Any) -> Any:
    from datasets import Dataset

    trl = _library()

    from silva.train.writers.trl import sft_row

    if algorithm.normalise != "token":
        raise UsageError(f"engine trl: its SFT has no normalise: {algorithm.normalise}; take token, or engine: local")
    rows = [sft_row(sample) for group in groups for sample in group]
    return trl.SFTTrainer(
        engine.as_module(),
        trl.SFTConfig(**_arguments(config, config.batch), max_length=None, packing=False, loss_type="nll"),
        train_dataset=Dataset.from_list([{name: row[name] for name in ("input_ids", "labels")} for row in rows]),
        processing_class=_tokenizer(engine),
    )


def _dpo(config: TrainConfig, algorithm: Any, groups: Sequence[list[Sample]], engine: Any) -> Any:
    from datasets import Dataset

    trl = _library()

    if algorithm.reference_free or config.policy.method == "full":
        raise UsageError("engine trl: its DPO has no reference_free and no method: full here; take engine: local")
    if algorithm.nll:
        raise UsageError("engine trl: its DPO divides nll by the tokens of a batch, not of a pair; take engine: local")

    class Ready(trl.DPOTrainer):
        """Takes rows that hold ids already; TRL would tokenise them."""

        def _prepare_dataset(self, dataset: Any, *_: Any, **__: Any) -> Any:
            return dataset

    rows: list[dict[str, list[int]]] = []
    for chosen, rejected in groups:
        start = int(chosen.mask.argmax())
        for side in (chosen, rejected):
            if not side.mask[start:].all() or not (side.weights[start:] == 1).all():
                raise UsageError(
                    f"engine trl: {side.name}: its DPO lays the loss on the whole answer, this one has gaps"
                )
        answers = {"chosen_ids": chosen.ids[start:].tolist(), "rejected_ids": rejected.ids[start:].tolist()}
        rows.append({"prompt_ids": chosen.ids[:start].tolist(), **answers})
    return Ready(
        engine.as_module(),
        ref_model=None,
        args=trl.DPOConfig(
            **_arguments(config, config.batch),
            beta=algorithm.beta,
            loss_type=[algorithm.kind],
            label_smoothing=algorithm.label_smoothing,
            max_length=None,
        ),
        train_dataset=Dataset.from_list(rows),
        processing_class=_tokenizer(engine),
    )


def _grpo(config: TrainConfig, algorithm: Any, groups: Sequence[list[Sample]], engine: Any) -> Any:
    from datasets import Dataset

    trl = _library()

    from silva.train.writers.trl import rollout

    sizes = {len(group) for group in groups}
    if len(sizes) > 1:
        raise UsageError(f"engine trl: groups of {min(sizes)} to {max(sizes)} samples; its GRPO wants all of one size")
    if algorithm.kl and (config.policy.method == "full" or algorithm.kl_estimator != "k3" or algorithm.kl_correction):
        raise UsageError(
            "engine trl: its GRPO pulls to the reference of an adapter by kl_estimator: k3 with kl_correction: false; "
            "set these, or take engine: local"
        )
    if algorithm.baseline == "leave_one_out" or algorithm.distillation or algorithm.truncate is not None:
        raise UsageError("engine trl: its GRPO has no leave_one_out, distillation or truncate; take engine: local")
    size = sizes.pop()
    return trl.GRPOTrainer(
        engine.as_module(),
        reward_funcs=_given_rewards,
        args=trl.GRPOConfig(
            **_arguments(config, config.batch * size),
            num_generations=size,
            steps_per_generation=1,
            max_completion_length=algorithm.constant or engine.context,
            temperature=config.temperature,
            loss_type=_GRPO_LOSSES[algorithm.normalise],
            epsilon=algorithm.clip_low,
            epsilon_high=algorithm.clip_high,
            beta=algorithm.kl,
            scale_rewards="group" if algorithm.baseline == "mean_std" else "none",
            importance_sampling_level=algorithm.ratio,
        ),
        train_dataset=Dataset.from_list([{"prompt": str(number)} for number in range(len(groups))]),
        processing_class=_tokenizer(engine),
        rollout_func=_replaying(groups, rollout),
    )


def _replaying(groups: Sequence[list[Sample]], rollout: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    """A rollout that plays nothing: a group's number is its prompt, and its samples are what was drawn for it."""

    def replay(prompts: Sequence[str], _: Any) -> dict[str, Any]:
        seen: dict[str, int] = {}
        samples: list[Sample] = []
        for prompt in prompts:
            samples.append(groups[int(prompt)][seen.get(prompt, 0)])
            seen[prompt] = seen.get(prompt, 0) + 1
        return rollout(samples)

    return replay


def _given_rewards(completions: Sequence[Any], reward: Sequence[float], **_: Any) -> list[float]:
    return list(reward)
