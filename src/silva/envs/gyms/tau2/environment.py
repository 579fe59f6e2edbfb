"""τ²-bench as environments: a customer-service agent with a policy, a database behind tools, and a customer.

    telecom          alone: the agent reads a ticket, uses its own and the customer's tools, and ends with `done`
    airline, retail  with a customer, scripted by default (see `customer`), who speaks first and ends the conversation

One turn: tool calls are run by the package's `Environment` and answered; words go to the customer, whose reply comes
back. Scored by the package's evaluators over the task's own reward basis: final database state or assertions on it,
actions where asked, and what had to be communicated. Natural-language assertions are in no task's basis here and are
not judged. A conversation that does not reach its end scores 0, as in the benchmark.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, ClassVar

from silva.envs.gyms.tau2 import library
from silva.envs.gyms.tau2.customer import Customer, ModelCustomer, ScriptedCustomer
from silva.envs.protocol import Capabilities, Evaluation, Observation
from silva.errors import UsageError
from silva.tree import Message, Task, ToolCall, assistant, call, system, tool_result, user

MOST_STEPS = 100
"""The benchmark's default limit on steps; beyond it the conversation counts as cut off."""

MOST_ERRORS = 10
"""The benchmark's default limit on failed tool calls."""

STOP = "###STOP###"


class Tau2:
    """What the three domains share. `user_model` and `user_url` let a model play the customer.

    Args:
        user_model: Model name; "" for the scripted customer.
        user_url: Base URL of an OpenAI-compatible server (needed with `user_model`).
        user_key: Name of the environment variable that holds its key.
    """

    capabilities: ClassVar[Capabilities]
    domain: ClassVar[str]
    solo: ClassVar[bool] = False
    threaded: ClassVar[bool] = True  # fresh databases take up to a second to build

    def __init__(self, user_model: str = "", user_url: str = "", user_key: str = "SILVA_USER_API_KEY") -> None:
        library.package_folder()
        if user_model and self.solo:
            raise UsageError(f"tau2-{self.domain}: played alone, it has no customer: leave out user_model")
        if user_model and not user_url:
            raise UsageError(f"tau2-{self.domain}: user_model needs user_url, the base URL of its server")
        self._user = (user_model, user_url, user_key)
        self._task: Any = None
        self._environment: Any = None

    @classmethod
    def tasks(cls, split: str = "test") -> Iterator[Task]:
        """The package's tasks of one of its splits: test, train, base (both; what leaderboards report), and for
        telecom small (20) and full (2,285).

        Raises:
            UsageError: no such split.
            MissingError: the package is not installed.
        """
        known = library.splits(cls.domain)
        if split not in known:
            raise UsageError(f"tau2-{cls.domain}: no split {split!r}: one of {', '.join(known)}")
        for name in known[split]:
            scenario = library.tasks(cls.domain)[name]
            told = scenario.user_scenario.instructions
            instruction = scenario.ticket or f"{told.reason_for_call}\n{told.task_instructions}"
            kind = name[1 : name.index("]")] if name.startswith("[") else cls.domain
            yield Task(
                id=f"tau2/{cls.domain}/{name}",
                env=f"tau2-{cls.domain}",
                instruction=instruction,
                split=split,
                tags=(kind,),
            )

    async def reset(self, task: Task, seed: int) -> Observation:
        """Begin the conversation; `seed` is passed to a model customer and changes nothing else.

        Raises:
            UsageError: no task of that id.
            UnreachableError: a model customer cannot be asked.
        """
        self._task = library.task(self.domain, task.id)
        self._environment = library.begin(self.domain, self._task, self.solo)
        initial = self._task.initial_state
        self._trajectory: list[Any] = list(initial.message_history or ()) if initial else []
        self._steps = self._errors = self._acted = self._told = 0
        self._ended = self._cut = False
        self._customer: Customer | None = None
        if self.solo:
            opening = self._solo_opening()
        else:
            self._customer = self._new_customer(seed)
            opening = await asyncio.to_thread(self._customer.opening)
            self._record_user(opening)
        return Observation(
            messages=(system(self._system_prompt()), user(opening)), tools=library.tools(self.domain, self.solo)
        )

    async def step(self, action: Message) -> Observation:
        """Run the tool calls, or pass the words on to the customer."""
        self._playing()
        if self._ended:
            return Observation(done=True)
        self._steps += 1
        if action.tool_calls:
            messages = self._run(action)
        elif self._customer is not None:
            messages = await self._say(self._customer, action.text)
        else:
            messages = self._unheard(action.text)
        if not self._ended and (self._steps >= MOST_STEPS or self._errors >= MOST_ERRORS):
            self._ended = self._cut = True
        return Observation(messages=messages, done=self._ended, truncated=self._cut)

    async def evaluate(self) -> Evaluation:
        """The package's verdict; 0 while the conversation is going on or when it was cut off."""
        self._playing()
        counted = {"steps": float(self._steps), "tool_errors": float(self._errors)}
        if not self._ended or self._cut:
            return Evaluation(score=0.0, success=False, metrics=counted)
        score, parts = library.reward(self.domain, self._task, self._trajectory, self.solo)
        return Evaluation(score=score, success=score == 1.0, metrics=counted | parts)

    async def close(self) -> None:
        """Let go of the database."""
        self._task = self._environment = self._customer = None

    async def expert(self) -> Message:
        """The ground truth's actions one by one, then all that has to be communicated, until the customer is done."""
        self._playing()
        criteria = self._task.evaluation_criteria
        actions = criteria.actions or []
        if self._acted < len(actions):
            action = actions[self._acted]
            self._acted += 1
            return assistant("", call(action.name, action.arguments, f"call_{self._acted}"))
        if self.solo:
            return assistant("", call("done", {}, "call_done"))
        facts = criteria.communicate_info or ()
        return assistant(f"{' '.join(('All is done.', *facts))} Is there anything else?")

    async def null(self) -> Message:
        """End at once (alone), or say nothing useful until the customer hangs up."""
        return assistant("", call("done", {}, "call_done")) if self.solo else assistant("I am sorry, I cannot help.")

    def __getstate__(self) -> dict[str, Any]:
        # Of a database that is shared, only what this episode made of it; the task is the package's.
        state = dict(self.__dict__)
        kept = None if self._environment is None else library.touched(self._environment)
        if kept is not None:
            state["_environment"], state["_task"] = kept, self._task.id
        return {**state, "touched": kept is not None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        shared = state.pop("touched")
        self.__dict__.update(state)
        if shared:
            self._environment = library.sharing(self.domain, state["_environment"])
            self._task = library.tasks(self.domain)[state["_task"]]

    def _playing(self) -> None:
        if self._task is None:
            raise UsageError(f"tau2-{self.domain}: no task is being played: call reset first")

    def _system_prompt(self) -> str:
        policy = self._environment.get_policy()
        if not self.solo:
            return library.prompt("SYSTEM_PROMPT").format(
                agent_instruction=library.prompt("AGENT_INSTRUCTION"), domain_policy=policy
            )
        instruction = library.prompt("AGENT_SOLO_INSTRUCTION").format(stop_function_name="done", stop_token=STOP)
        template = library.prompt("SYSTEM_PROMPT_SOLO").partition("<ticket>")[0].strip()
        return template.format(agent_instruction=instruction, domain_policy=policy)

    def _solo_opening(self) -> str:
        # The package puts the ticket into the system prompt; many chat templates refuse to begin without a user.
        return f"<ticket>\n{self._task.ticket}\n</ticket>"

    def _new_customer(self, seed: int) -> Customer:
        model, url, key = self._user
        scenario = self._task.user_scenario
        return ModelCustomer(scenario, model, url, key, seed) if model else ScriptedCustomer(scenario)

    def _run(self, action: Message) -> tuple[Message, ...]:
        from tau2.data_model.message import AssistantMessage
        from tau2.data_model.message import ToolCall as LibraryCall

        if self.solo and any(made.name == "done" for made in action.tool_calls):
            self._trajectory.append(AssistantMessage(role="assistant", content=STOP))
            self._ended = True
            return ()
        results: list[Message] = []
        calls: list[Any] = []
        answers: list[Any] = []
        for place, made in enumerate(action.tool_calls):
            try:
                arguments = made.parsed()
            except ValueError as error:
                self._errors += 1
                results.append(tool_result(made.id, f"Error: {error}", made.name))
                continue
            # The package matches calls to answers by id, so that an id of the model's own may not do.
            requested = LibraryCall(id=f"{self._steps}.{place}", name=made.name, arguments=arguments)
            answer = self._environment.get_response(requested)
            self._errors += bool(answer.error)
            calls.append(requested)
            answers.append(answer)
            results.append(self._shown(made, answer))
        if calls:
            said = AssistantMessage(role="assistant", content=action.text or None, tool_calls=calls)
            self._trajectory += [said, *answers]
        return tuple(results)

    def _shown(self, made: ToolCall, answer: Any) -> Message:
        return tool_result(made.id, answer.content or "", made.name)

    async def _say(self, customer: Customer, words: str) -> tuple[Message, ...]:
        from tau2.data_model.message import AssistantMessage

        if not words.strip():
            self._errors += 1
            return (user("(Nothing was heard. Say something to the customer, or call a tool.)"),)
        self._trajectory.append(AssistantMessage(role="assistant", content=words))
        reply = await asyncio.to_thread(customer.reply, words)
        self._record_user(STOP if reply is None else reply)
        self._ended = reply is None
        return () if reply is None else (user(reply),)

    def _record_user(self, words: str) -> None:
        from tau2.data_model.message import UserMessage

        self._trajectory.append(UserMessage(role="user", content=words))

    def _unheard(self, words: str) -> tuple[Message, ...]:
        if STOP in words:
            return self._run(assistant("", call("done", {})))
        self._errors += 1
        return (user("Nobody is there to read this: call a tool, and `done` when the ticket is solved."),)


class Tau2Telecom(Tau2):
    """Telecom support, played alone from a ticket."""

    domain = "telecom"
    solo = True
    capabilities = Capabilities(tools=True, snapshot="deepcopy", max_turns=MOST_STEPS)


class Tau2Airline(Tau2):
    """Airline bookings, with a customer."""

    domain = "airline"
    capabilities = Capabilities(tools=True, snapshot="deepcopy", simulated_user="scripted", max_turns=MOST_STEPS)


class Tau2Retail(Tau2):
    """Retail orders, with a customer."""

    domain = "retail"
    capabilities = Capabilities(tools=True, snapshot="deepcopy", simulated_user="scripted", max_turns=MOST_STEPS)
