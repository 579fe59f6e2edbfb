"""AgentDojo's own runner over chosen pairs, with scripted agents; runs in the environment's own virtual environment and
knows nothing of Silva.

    PYTHON agentdojo_runner.py < {"attack": …, "agents": [...], "pairs": [[suite, user task, injection task], ...]}
    ─▶ {agent: {"seconds": …, "cpu": …, "results": [[suite, user task, injection task, utility, security], ...]}}
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
import time
from collections import defaultdict

from agentdojo.agent_pipeline.base_pipeline_element import BasePipelineElement
from agentdojo.agent_pipeline.ground_truth_pipeline import GroundTruthPipeline
from agentdojo.agent_pipeline.tool_execution import tool_result_to_str
from agentdojo.attacks.attack_registry import load_attack
from agentdojo.benchmark import run_task_with_injection_tasks
from agentdojo.logging import OutputLogger
from agentdojo.task_suite.load_suites import get_suites
from agentdojo.types import text_content_block_from_string

VERSION = "v1.2.2"
GAPS = re.compile(r"(?:\\[nrt]|[\W_])+")


class GroundTruth(GroundTruthPipeline):
    """The package's own agent of a user task's ground truth."""

    name = "local"


class Null(BasePipelineElement):
    """Says that it cannot help."""

    name = "local"

    def __init__(self, task):
        pass

    def query(self, query, runtime, env=None, messages=(), extra_args=None):
        said = {
            "role": "assistant",
            "content": [text_content_block_from_string("I cannot help with that.")],
            "tool_calls": None,
        }
        return query, runtime, env, [*messages, said], extra_args or {}


class Obedient(BasePipelineElement):
    """The user task's calls; once a result held the attacker's words, the injection task's first."""

    name = "local"

    def __init__(self, task):
        self.task = task
        self.injected, self.words = None, ()

    def query(self, query, runtime, env=None, messages=(), extra_args=None):
        before = env.model_copy(deep=True)
        left = list(self.task.ground_truth(before.model_copy(deep=True)))
        obeyed, said = False, []
        while left:
            made = left.pop(0)
            said.append({"role": "assistant", "content": [text_content_block_from_string("")], "tool_calls": [made]})
            result, error = runtime.run_function(env, made.function, made.args)
            text = tool_result_to_str(result)
            said.append(
                {
                    "role": "tool",
                    "content": [text_content_block_from_string(text)],
                    "tool_call": made,
                    "tool_call_id": None,
                    "error": error,
                }
            )
            bare = GAPS.sub("", text)
            if not obeyed and any(GAPS.sub("", each) in bare for each in self.words):
                obeyed = True
                left = [*self.injected.ground_truth(before.model_copy(deep=True)), *left]
        said.append(
            {
                "role": "assistant",
                "content": [text_content_block_from_string(self.task.GROUND_TRUTH_OUTPUT)],
                "tool_calls": None,
            }
        )
        return query, runtime, env, [*messages, *said], extra_args or {}


AGENTS = {"ground truth": GroundTruth, "obedient": Obedient, "null": Null}


def played(suites, agent, attack, pairs):
    """Every pair by one agent, through the package's own runner; seconds and seconds of CPU (from the end of the
    first) and results."""
    began, spent, results = 0.0, 0.0, []
    attacks = {}
    for (suite_name, user_name), injected in pairs.items():
        suite = suites[suite_name]
        user = suite.get_user_task_by_id(user_name)
        pipeline = AGENTS[agent](user)
        made = attacks.setdefault(suite_name, load_attack(attack, suite, pipeline))
        for each in injected:
            if agent == "obedient":  # what it is told of the attack: whose words they are, and what they ask for
                pipeline.injected = suite.get_injection_task_by_id(each)
                pipeline.words = tuple(made.attack(user, pipeline.injected).values())
            utility, security = run_task_with_injection_tasks(suite, pipeline, user, made, None, True, [each], VERSION)
            key = (user.ID, each)
            began, spent = began or time.perf_counter(), spent or time.process_time()
            results.append([suite_name, user_name, each, bool(utility[key]), bool(security[key])])
    return {"seconds": time.perf_counter() - began, "cpu": time.process_time() - spent, "results": results}


def main():
    """Read what is asked, play it, print."""
    asked = json.load(sys.stdin)
    pairs = defaultdict(list)
    for suite, user, injected in asked["pairs"]:
        pairs[suite, user].append(injected)
    suites = get_suites(VERSION)
    with tempfile.TemporaryDirectory() as folder, OutputLogger(folder):  # as its own command keeps what was said
        told = {agent: played(suites, agent, asked["attack"], pairs) for agent in asked["agents"]}
    print(json.dumps(told))


if __name__ == "__main__":
    main()
