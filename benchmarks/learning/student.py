"""A policy under test, on disk: the weights it began with and, once trained, an adapter or whole weights of its own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from silva.models.tiny.folder import write_tiny
from silva.models.tiny.shape import Shape
from silva.rollout.conversations import Conversation
from silva.train.config import BUNDLED, PolicyConfig
from silva.train.registry import Registry
from silva.train.registry.export import export_merged
from silva.train.registry.weights import base_folder

RANK = {"rank": 16, "alpha": 32.0}


@dataclass(frozen=True, kw_only=True)
class Student:
    """`base`: `local` (the bundled model, trained by an adapter) or the folder of a tiny one (trained whole). `trained`
    is what training left; None before."""

    name: str
    base: str
    trained: Path | None = None

    @property
    def adapted(self) -> bool:
        """Whether it is trained by an adapter."""
        return self.base == BUNDLED

    def policy(self) -> PolicyConfig:
        """What training goes on from."""
        if not self.adapted:
            return PolicyConfig(weights=str(self.trained or self.base), method="full", dtype="float32")
        return PolicyConfig.model_validate(
            {"weights": self.base, "method": "lora", "adapter": RANK, "start": self.trained}
        )

    def in_loop(self) -> dict[str, str]:
        """What a loop's configuration says of it as the policy it begins with, trained whole."""
        return {"base": str(self.trained), "method": "full", "dtype": "float32"}

    def as_teacher(self) -> dict[str, str]:
        """It as the teacher of a distillation."""
        if self.trained is None:
            return {"weights": self.base}
        return {"weights": self.base, "adapter": str(self.trained)} if self.adapted else {"weights": str(self.trained)}

    def after(self, name: str, trained: Path) -> Student:
        """It, trained further."""
        return Student(name=name, base=self.base, trained=trained)

    def model(self, lake: Path, folder: Path) -> str:
        """The model's spec to play under: an adapter is registered in the lake and merged with its base, once.

        Args:
            lake: whose registry keeps it.
            folder: merged weights are put under it.
        """
        if self.trained is None:
            return self.base if self.adapted else f"local:{self.base}"
        if not self.adapted:
            return f"local:{self.trained}"
        target = folder / self.name
        if not target.is_dir():
            registry = Registry.open(str(lake), make=True)
            registry.begin("learning", base_folder(BUNDLED).path, name=base_folder(BUNDLED).path.name)
            made = registry.register("learning", self.trained, key=self.name)
            export_merged(registry, made, target, base=BUNDLED)
        return f"local:{target}"


def tiny(folder: Path, heard: list[Conversation], seed: int, context: int = 1024) -> Student:
    """A policy made from nothing: about two million parameters, its words from what the expert says."""
    target = folder / "tiny"
    if not target.is_dir():
        write_tiny(target, heard, Shape(context=context), seed)
    return Student(name="tiny", base=str(target))
