"""An OpenEnv server whose actions are calls of its MCP tools, and that lists its tasks."""

from fastmcp import FastMCP
from openenv.core.env_server import (
    Action,
    CallToolAction,
    CallToolObservation,
    MCPEnvironment,
    Observation,
    State,
    create_fastapi_app,
)

WORDS = ("oak", "ash", "elm")


class Letters(MCPEnvironment):
    """Find the hidden word's first letter with one tool, name the word with the other."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self):
        server = FastMCP("letters")
        self.word, self.right = "", False

        @server.tool
        def first_letter() -> str:
            """The hidden word's first letter."""
            return self.word[:1]

        @server.tool
        def name_word(word: str) -> str:
            """Name the hidden word.

            Args:
                word: The word.
            """
            self.right = word == self.word
            return "right" if self.right else "wrong"

        super().__init__(server)

    def list_splits(self):
        return ["test"]

    def num_tasks(self, split):
        return len(WORDS)

    def reset(self, seed=None, episode_id=None, index=0, **kwargs):
        self.word, self.right = WORDS[index], False
        return Observation(metadata={"words": list(WORDS)})

    def step(self, action, timeout_s=None, **kwargs):
        return self._rewarded(super().step(action, timeout_s=timeout_s, **kwargs))

    async def step_async(self, action, timeout_s=None, **kwargs):
        return self._rewarded(await super().step_async(action, timeout_s=timeout_s, **kwargs))

    def _rewarded(self, observation):
        if isinstance(observation, CallToolObservation) and observation.tool_name == "name_word":
            observation.reward, observation.done = float(self.right), True
        return observation

    def _step_impl(self, action: Action, timeout_s=None, **kwargs):
        raise ValueError(f"no action {type(action).__name__}")

    @property
    def state(self):
        return State()


app = create_fastapi_app(Letters, CallToolAction, CallToolObservation, max_concurrent_envs=8)
