"""A small OpenEnv environment server that proves the bridge to it: one sum an episode. Run as `openenv`."""

from __future__ import annotations

from typing import Any

from openenv.core.env_server import Action, Environment, Observation, State, create_fastapi_app


class Answer(Action):
    """The answer to the question."""

    answer: int


class Question(Observation):
    """The question, and after the answer, whether it was right."""

    question: str
    verdict: str = ""


class SumEnvironment(Environment[Answer, Question, State]):
    """One question, one answer; reward 1 if it is right."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self) -> None:
        super().__init__()
        self._pair = (0, 0)
        self._state = State()

    def reset(self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any) -> Question:
        """Ask for the sum that `seed` names."""
        number = seed or 0
        self._pair = (17 * number % 89 + 11, 31 * number % 97 + 12)
        self._state = State(episode_id=episode_id)
        return Question(question=self._asked())

    def step(self, action: Answer, timeout_s: float | None = None, **kwargs: Any) -> Question:
        """Take the answer."""
        right = action.answer == sum(self._pair)
        self._state.step_count += 1
        return Question(question=self._asked(), verdict="right" if right else "wrong", done=True, reward=float(right))

    @property
    def state(self) -> State:
        """How far the episode is."""
        return self._state

    def _asked(self) -> str:
        return f"What is {self._pair[0]} + {self._pair[1]} ?"


app = create_fastapi_app(SumEnvironment, Answer, Question, max_concurrent_envs=64)
