"""An OpenEnv server that counts, raises or hangs, as it is told."""

import time

from openenv.core.env_server import Action, Environment, Observation, State, create_fastapi_app


class Order(Action):
    what: str
    times: int = 1


class Count(Observation):
    count: int = 0


class Counter(Environment):
    def __init__(self):
        super().__init__()
        self.count = 0

    def reset(self, seed=None, episode_id=None, start=0, **kwargs):
        self.count = start
        return Count(count=self.count)

    def step(self, action, timeout_s=None, **kwargs):
        if action.what == "raise":
            raise RuntimeError("the counter fell over")
        if action.what == "hang":
            time.sleep(3600)
        self.count += action.times
        return Count(count=self.count, reward=0.25 * action.times, done=self.count >= 4)

    @property
    def state(self):
        return State()


app = create_fastapi_app(Counter, Order, Count)
