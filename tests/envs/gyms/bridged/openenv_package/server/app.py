"""The server, which says after one what one says."""

from openenv.core.env_server import Environment, State, create_fastapi_app

from ..models import Heard, Say


class Parrot(Environment):
    def reset(self, seed=None, episode_id=None, **kwargs):
        return Heard(word="?")

    def step(self, action, timeout_s=None, **kwargs):
        return Heard(word=action.word, reward=1.0, done=True)

    @property
    def state(self):
        return State()


app = create_fastapi_app(Parrot, Say, Heard)
