"""What is done and seen there."""

from openenv.core.env_server import Action, Observation


class Say(Action):
    word: str


class Heard(Observation):
    word: str = ""
