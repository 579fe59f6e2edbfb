"""A verifiers taskset with an environment of its own, which speaks as the user: guess a number."""

import asyncio
import re

import verifiers.v1 as vf

__all__ = ["GuessEnv", "GuessTaskset"]


class GuessData(vf.TaskData):
    number: int


class GuessTaskConfig(vf.TaskConfig):
    fault: str = ""


class GuessTask(vf.Task[GuessData, vf.State, GuessTaskConfig]):
    @vf.stop
    async def swore(self, trace: vf.Trace) -> bool:
        return "damn" in trace.last_reply

    @vf.metric
    async def turns_taken(self, trace: vf.Trace) -> float:
        return float(trace.num_turns)

    @vf.reward(weight=0.5)
    async def polite(self, trace: vf.Trace) -> float:
        if self.config.fault == "hang":
            await asyncio.sleep(3600)
        if self.config.fault:
            raise RuntimeError(self.config.fault)
        return float("please" in trace.last_reply)


class GuessConfig(vf.TasksetConfig):
    highest: int = 3
    task: GuessTaskConfig = GuessTaskConfig()


class GuessTaskset(vf.Taskset[GuessTask, GuessConfig]):
    def load(self):
        for number in range(1, self.config.highest + 1):
            yield GuessTask(GuessData(name=f"find {number}", prompt="Guess!", number=number), self.config.task)


class GuessEnvConfig(vf.EnvConfig):
    player: vf.AgentConfig = vf.AgentConfig()


class GuessEnv(vf.Env[GuessEnvConfig]):
    async def run(self, task, agents):
        right = False
        async with agents.player.interaction(task) as interaction:
            segment = await interaction.turn()
            while not segment.terminated:
                said = int((re.findall(r"\d+", segment.last_reply) or ["0"])[-1])
                right = said == task.data.number
                if right:
                    break
                segment = await interaction.turn("higher" if said < task.data.number else "lower")
        interaction.trace.record_reward("found", float(right), 0.5)
