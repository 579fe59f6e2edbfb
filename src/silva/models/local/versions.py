"""The policy versions a server answers with: the plain weights, and adapters loaded and unloaded while it serves.

    load ─▶ read and checked beside the loop ─▶ named ─▶ requests find it ─▶ unload: no longer found, and gone once the
                                                   │      last of them is answered
                                     switch: requests for the model's own name find it from now on

A request keeps the version it found to its end. All methods belong to the server's loop, so a switch is one assignment.
"""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

from silva.errors import UsageError
from silva.models.local import PLAIN
from silva.models.local.adapter import CONFIG, WEIGHTS, Adapter, read_adapter
from silva.models.local.engine import Engine
from silva.models.serving import Refusal
from silva.tree import Json

MOST_LOADED = 32

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@+/-]{0,127}", re.ASCII)
_LABEL = re.compile(r"[!-~]{1,200}", re.ASCII)


class Version:
    """Weights under a name; `label` is the policy version written into every reply, `root` where they came from,
    `base` the name of the model an adapter changes."""

    def __init__(self, name: str, label: str, adapter: Adapter | None = None, root: str = "", base: str = "") -> None:
        self.name = name
        self.label = label
        self.adapter = adapter
        self.root = root or name
        self.base = base
        self.in_flight = 0
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def headers(self) -> tuple[tuple[bytes, bytes], ...]:
        """What a reply says of it."""
        return ((b"x-silva-policy-version", self.label.encode()),)

    def enter(self) -> None:
        """A request is answered by it from now on."""
        self.in_flight += 1
        self._idle.clear()

    def leave(self) -> None:
        """A request is done with it."""
        self.in_flight -= 1
        if not self.in_flight:
            self._idle.set()

    async def idle(self) -> None:
        """Return once no request is answered by it."""
        await self._idle.wait()

    def entry(self) -> Json:
        """Its entry in `/v1/models`."""
        return {
            "id": self.name,
            "object": "model",
            "created": 0,
            "owned_by": "silva",
            "root": self.root,
            "parent": None if self.adapter is None else self.base,
            "policy_version": self.label,
        }


class Versions:
    """All versions of a server.

    Args:
        engine: whose network adapters must fit.
        fingerprint: the policy version of the plain weights, their digest after an `@`.
        root: the only folder adapters are loaded from, or None for none.
        name: what the plain weights are served under.
    """

    def __init__(self, engine: Engine, fingerprint: str, root: Path | None, name: str) -> None:
        self.name = name
        self.plain = Version(name, fingerprint)
        self._digest = fingerprint.rpartition("@")[2] if "@" in fingerprint else ""
        self.current = self.plain
        self._engine = engine
        self._root = None if root is None else root.resolve()
        self._loaded: dict[str, Version] = {}
        self._labels = {fingerprint: ""}
        self._changing = asyncio.Lock()
        self._retiring: set[asyncio.Task[None]] = set()

    def find(self, model: str) -> Version | None:
        """The version that answers for a name, or None."""
        if model in ("", self.name):
            return self.current
        return self.plain if model == PLAIN else self._loaded.get(model)

    def found(self, model: str) -> Version:
        """The version that answers for a name.

        Raises:
            Refusal: there is none.
        """
        version = self.find(model)
        if version is None:
            names = ", ".join(repr(name) for name in (self.name, *self._loaded))
            raise Refusal(404, f"there is no model {model!r} here, only {names}", "model_not_found")
        return version

    def entries(self) -> list[Json]:
        """The entries of `/v1/models`: the model's own name first, with the version that answers for it."""
        own = {
            **self.plain.entry(),
            "policy_version": self.current.label,
            "max_model_len": self._engine.network.context,
        }
        return [own, *(version.entry() for version in self._loaded.values())]

    def state(self) -> Json:
        """What answers for the model's own name, and what else could."""
        loaded = [
            {"version": PLAIN if version is self.plain else version.name, "policy_version": version.label}
            | {"in_flight": version.in_flight}
            for version in (self.plain, *self._loaded.values())
        ]
        return {"version": self._name(self.current), "policy_version": self.current.label, "loaded": loaded}

    def _name(self, version: Version) -> str:
        return PLAIN if version is self.plain else version.name

    def switch(self, name: str) -> Json:
        """Let another version answer for the model's own name; requests in flight are not touched.

        Raises:
            Refusal: it is not loaded.
        """
        version = self.plain if name == self.name else self.found(name)
        previous, self.current = self.current, version
        return {
            "version": self._name(version),
            "policy_version": version.label,
            "previous": self._name(previous),
        }

    async def load(self, name: str, path: str, label: str | None = None, replace: bool = False) -> Version:
        """Load an adapter and name it.

        Args:
            name: what requests call it by.
            path: its folder, absolute or relative to the root; it must lie under the root.
            label: its policy version; None for the digests of base and adapter.
            replace: take the place of a version loaded under the name, also where that one is the current.

        Raises:
            Refusal: a name is taken or not allowed, the folder lies elsewhere or holds no adapter that fits.
        """
        if not _NAME.fullmatch(name) or name in (self.name, PLAIN):
            raise Refusal(400, f"{name[:140]!r} cannot name an adapter: use up to 128 letters, digits and ._:@+/-")
        if label is not None and not _LABEL.fullmatch(label):
            raise Refusal(400, "policy_version must be 1 to 200 printable ASCII characters without spaces")
        folder = self._folder(path)
        async with self._changing:
            before = self._loaded.get(name)
            if before is not None and not replace:
                raise Refusal(400, f"the adapter {name!r} is already loaded: unload it, or set load_inplace")
            if before is None and len(self._loaded) >= MOST_LOADED:
                raise Refusal(409, f"{MOST_LOADED} adapters are loaded, the most there may be: unload one first")
            try:
                adapter = await asyncio.to_thread(read_adapter, folder, self._engine.network, self.name, self._digest)
            except UsageError as fault:
                raise Refusal(400, str(fault)) from fault
            label = label or f"{self.plain.label}+{adapter.digest}"
            if self._labels.setdefault(label, adapter.digest) != adapter.digest:
                raise Refusal(409, f"the policy version {label!r} has named other weights here: choose a new one")
            version = Version(name, label, adapter, str(folder.relative_to(self._root or folder)), self.name)
            self._loaded[name] = version
            if before is not None:
                if self.current is before:
                    self.current = version
                self._retire(before)
            return version

    async def unload(self, name: str) -> Version:
        """Take a version away: no request finds it any more; return once those it answers are done.

        Raises:
            Refusal: it is not loaded, or it answers for the model's own name.
        """
        async with self._changing:
            version = self._loaded.get(name)
            if version is None:
                raise Refusal(404, f"no adapter {name!r} is loaded", "model_not_found")
            if version is self.current:
                raise Refusal(409, f"{name!r} answers for {self.name!r}: switch /silva/policy to another version first")
            del self._loaded[name]
        await asyncio.shield(self._retire(version))  # also where the client does not wait for it
        return version

    def _retire(self, version: Version) -> asyncio.Task[None]:
        async def forget() -> None:
            await version.idle()
            if version.adapter is not None and all(
                other.adapter is None or other.adapter.digest != version.adapter.digest
                for other in self._loaded.values()
            ):
                self._engine.forget(version.adapter)

        task = asyncio.create_task(forget())
        self._retiring.add(task)
        task.add_done_callback(self._retiring.discard)
        return task

    def _folder(self, path: str) -> Path:
        if self._root is None:
            raise Refusal(403, "this server loads no adapters: start it with --adapters DIR and a token")
        try:
            folder = (self._root / path).resolve()
            inside = folder.is_relative_to(self._root) and folder != self._root
            there = inside and (folder / CONFIG).is_file()
            inside = inside and all((folder / file).resolve().is_relative_to(self._root) for file in (CONFIG, WEIGHTS))
        except (OSError, ValueError) as fault:  # too long, a loop of links, a zero byte
            raise Refusal(400, "lora_path is not a path") from fault
        if not inside:
            raise Refusal(403, "lora_path lies outside the folder this server loads adapters from (--adapters)")
        if not there:
            raise Refusal(404, f"there is no adapter at {path!r}: the folder must hold {CONFIG}")
        return folder
