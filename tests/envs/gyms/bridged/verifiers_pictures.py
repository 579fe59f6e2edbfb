"""A verifiers taskset whose question holds a picture, or what no message of Silva's can hold."""

import verifiers.v1 as vf

__all__ = ["PictureTaskset"]

PIXEL = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC"
)


class PictureTask(vf.Task[vf.TaskData]):
    @vf.reward(weight=1.0)
    async def seen(self, trace: vf.Trace) -> float:
        return float("red" in trace.last_reply)


class PictureConfig(vf.TasksetConfig):
    address: str = PIXEL


class PictureTaskset(vf.Taskset[PictureTask, PictureConfig]):
    def load(self):
        picture = {"type": "image_url", "image_url": {"url": self.config.address}}
        asked = {"role": "user", "content": [{"type": "text", "text": "What colour?"}, picture]}
        yield PictureTask(vf.TaskData(prompt=[asked]), self.config.task)
