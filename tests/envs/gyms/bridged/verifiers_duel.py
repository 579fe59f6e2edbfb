"""A verifiers environment of two roles, which Silva refuses."""

import verifiers.v1 as vf

__all__ = ["DuelEnv", "DuelTaskset"]


class DuelTaskset(vf.Taskset[vf.Task[vf.TaskData], vf.TasksetConfig]):
    def load(self):
        yield vf.Task(vf.TaskData(prompt="Duel!"))


class DuelConfig(vf.EnvConfig):
    left: vf.AgentConfig = vf.AgentConfig()
    right: vf.AgentConfig = vf.AgentConfig()


class DuelEnv(vf.Env[DuelConfig]):
    async def run(self, task, agents):
        await agents.left.run(task)
