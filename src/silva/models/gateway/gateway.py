"""The gateway without its wire: runs, rollouts and models, and the turns that go between them.

    open_run ─▶ account ─▶ session(rollout) ─▶ answer(asked) ─▶ … ─▶ end_rollout ─▶ close_run

Embedded, it shares the lake of the run that needs it; alone, it owns one.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict

import msgspec

from silva.models.gateway.config import GatewayConfig
from silva.models.gateway.conversations import Conversations
from silva.models.gateway.endings import at_close, standing
from silva.models.gateway.keeper import Keeper
from silva.models.gateway.metrics import Metrics
from silva.models.gateway.once import Once
from silva.models.gateway.problem import Problem
from silva.models.gateway.rollout import Rollout
from silva.models.gateway.roster import NAME, Roster, check_name, unannounced
from silva.models.gateway.routes import Routes
from silva.models.gateway.runs import RunAccount, known_run, new_run, run_of
from silva.models.gateway.session import Session
from silva.models.gateway.spans import TurnSpans, open_spans
from silva.models.gateway.stored import retried, rollout_named, stored_rollouts
from silva.models.gateway.versions import run_id, swapped_of
from silva.models.gateway.witness import Witness
from silva.models.held import Held
from silva.tree import Json, Outcome, Trajectory

DEFAULT_ROLLOUT = "main"
"""The rollout of calls that name none."""

MOST_CLOSED = 64
"""Closed runs kept in memory, without their rollouts; the others are read from the lake when somebody asks for them."""

log = logging.getLogger(__name__)


class Gateway:
    """Runs, rollouts and models.

    Args:
        config: what it was told.
        keeper: where turns are kept.
        resumes: whether the lake may hold runs of this gateway's earlier life.
        announced: whether only rollouts that were opened by `open_rollout` are answered.
    """

    def __init__(self, config: GatewayConfig, keeper: Keeper, *, resumes: bool = True, announced: bool = False) -> None:
        self.config = config
        self.keeper = keeper
        self._held = Held()
        self.routes = Routes(config, self._held)
        self.route = self.routes.find
        self.metrics = Metrics(self)
        self.spans: TurnSpans | None = None
        self.closing: set[str] = set()
        """Runs that end with this gateway."""
        self.accounts: dict[str, RunAccount] = {}
        self._lost_before = 0
        self._closed: OrderedDict[str, None] = OrderedDict()
        self._resumes = resumes
        self._announced = announced
        most = int(config.limits.conversations_mb * (1 << 20))
        self.conversations = Conversations(most, self._held, self._gone, self.routes.forget)
        self._rollouts: dict[tuple[str, str], Rollout] = {}
        self.witnesses: dict[tuple[str, str], Witness] = {}
        """Who knows of what the client of a rollout says, by run and name."""
        self._once = Once()
        keeper.recovered = self._forget_sessions

    async def start(self) -> None:
        """Start the backends' providers and health checks.

        Raises:
            UsageError, MissingError: something configured cannot be had.
        """
        self.spans = open_spans(self.config.spans)
        await self.routes.start()
        if self._resumes:
            for route in self.routes.all:
                swapped = swapped_of(await self.keeper.run(run_id(route.name)))
                if swapped is not None:
                    route.restore(swapped)

    async def stop(self) -> None:
        """Stop the backends that were started here. Runs stay open, but for those in `closing`: a gateway that starts
        again on this lake goes on with them."""
        await self.routes.stop()
        await self.keeper.noted()
        try:
            for run in self.closing:
                await self.close_run(run)
            if self._resumes:
                stand = [self._standing(session) for session in self.sessions if session.turns]
                await self.keeper.write(stand, "how the rollouts at work stand")
        except Problem as problem:  # what was acknowledged is kept all the same
            log.error("%s", problem)
        if self.spans is not None:
            await asyncio.to_thread(self.spans.close)

    async def open_run(self, name: str, terms: Json | None = None, *, again: bool = False) -> tuple[RunAccount, str]:
        """Open a run; returns its account and its token, which is told this once.

        Args:
            name: the run's name.
            terms: fields of `Runs` to set instead of the gateway's own.
            again: a run of this gateway that is in the lake already is opened anew: another token, other terms, the
                same spending.

        Raises:
            Problem: the name is taken or not usable, a term is not usable, or the lake takes nothing.
        """
        if not await self.keeper.ready():
            raise Problem("store", f"no run can be opened: {self.keeper.failure}", retry_after=5.0)
        account, token = new_run(name, self.config.runs, terms or {}, time.time(), priced=self.routes.priced)
        if name in self.accounts or await self.keeper.run(name) is not None:
            if not again:
                raise Problem("conflict", f"run {name} is already in the lake: choose another name, or open it again")
            known = await self.account(name)
            account.go_on(known)
            if account.roster is None:
                account.roster = await self._roster(name)
            account.run = msgspec.structs.replace(account.standing(), started=known.run.started)
        await self.keeper.write([account.run], f"run {name}")
        self.accounts[name] = account
        self._closed.pop(name, None)
        return account, token

    def adopt(self, account: RunAccount) -> None:
        """Take in a run whose record somebody else writes."""
        self.accounts[account.id] = account

    async def account(self, name: str) -> RunAccount:
        """An open run.

        Raises:
            Problem: there is none of that name.
        """
        known = self.accounts.get(name)
        if known is None and self._resumes and NAME.fullmatch(name):
            known = await self._once(("run", name), lambda: self._remembered(name))
        if known is None:
            raise Problem("not_found", f"there is no run {name!r}: open it with POST /admin/runs")
        return known

    async def admitted(self, name: str, rollout: str, token: str) -> tuple[RunAccount, str]:
        """The run and the rollout a client may use: those of the URL, or else those its token is good for. The rollout
        is "" where the token is the whole run's and the URL names none.

        Raises:
            Problem: the token is missing, or not this run's, or another rollout's. It does not tell whether there is
                such a run.
        """
        account = self.accounts.get(name := name or run_of(token))
        if account is None and token:
            try:
                account = await self.account(name)
            except Problem:
                account = None
        if not token:
            raise Problem("auth", "a token is needed: send the run's token as the api key")
        own = None if account is None else account.opened_by(token)
        if account is None or own is None:
            what = "use the one given when the run, or its rollout, was opened"
            raise Problem("auth", f"this token is not good for this run, or its rollout has ended: {what}")
        if own and rollout not in ("", own):
            raise Problem("forbidden", f"this token is good for rollout {own} alone, not for {rollout[:100]!r}")
        return account, own or rollout

    def note_spent(self, account: RunAccount) -> None:
        """Have what broken-off calls cost stand in the lake: no turn tells of it when the gateway starts again."""
        opened_again = self.accounts.get(account.id) is not account  # the record is the other account's now
        if self._resumes and not account.run.finished and not opened_again:
            account.run = account.standing()
            self.keeper.note(account.run)

    async def close_run(self, name: str, status: str = "finished") -> RunAccount:
        """End a run: every rollout that was not ended gets its trajectory.

        Raises:
            Problem: there is no such run, or the lake cannot keep its end.
        """
        account = await self.account(name)
        if account.run.finished:
            return account
        at_work = [*self.conversations.of_run(name), *(rollout for run, rollout in self._rollouts if run == name)]
        for rollout in dict.fromkeys(at_work):
            session = await self.session(account, rollout)
            await self.end_rollout(account, rollout, at_close(session, account.lost_turns[rollout]))
        before, account.run = account.run, account.closed(status)  # nobody comes in from now on
        try:
            await self.keeper.write([account.run], f"the end of run {name}")
        except Problem:
            account.run = before
            raise
        self._note_closed(account)
        return account

    def _note_closed(self, account: RunAccount) -> None:
        """Keep the runs closed last, and let go of the others: the lake has all of them."""
        if not self._resumes:
            return
        account.roster = None
        self._closed[account.id] = None
        while len(self._closed) > MOST_CLOSED:
            name, _ = self._closed.popitem(last=False)
            self._lost_before += self.accounts.pop(name).lost
            for rollout in self.conversations.of_run(name):
                self.conversations.let_go((name, rollout))
            for key in [key for key in self._rollouts if key[0] == name]:
                del self._rollouts[key]

    def open_rollout(self, account: RunAccount, rollout: Rollout) -> str:
        """Say which task a rollout is at before its first call; without this, it is a task of its own. Returns a token
        that is good for this rollout alone, until it is dismissed.

        Raises:
            Problem: its name cannot be used, another rollout has its place, or the run was closed.
        """
        return self._claim(account, rollout).issue(account.id, rollout.name)

    def _claim(self, account: RunAccount, rollout: Rollout) -> Roster:
        check_name(rollout.name)
        if account.roster is None:
            raise account.is_closed()
        account.roster.claim(rollout)
        self._rollouts[account.id, rollout.name] = rollout
        return account.roster

    async def session(self, account: RunAccount, name: str) -> Session:
        """The session of a rollout, made when it is first asked for.

        Raises:
            Problem: its name cannot be used.
        """
        key = (account.id, name)
        session = self.conversations.get(key)
        if session is None:
            session = await self._once(key, lambda: self._new_session(account, name))
        return session

    async def asked_for(self, account: RunAccount, name: str) -> Session:
        """The session of a rollout that a model is asked in.

        Raises:
            Problem: as `session`, or the rollout is new and the run takes no more: it leaves no record then.
        """
        key, roster = (account.id, name), account.roster
        if self._announced and key not in self._rollouts:
            raise Problem("forbidden", f"there is no rollout {name[:100]!r} at work in run {account.id}")
        at_work = key in self.conversations or key in self._rollouts
        if not at_work and (roster is None or unannounced(*key).trajectory_id not in roster.trajectories):
            account.takes()
        return await self.session(account, name)

    async def end_rollout(
        self, account: RunAccount, name: str, outcome: Outcome, attributes: Json | None = None
    ) -> Trajectory:
        """Write a rollout's trajectory.

        Raises:
            Problem: the lake cannot keep it.
        """
        key = (account.id, name)
        if self._resumes and key not in self.conversations and key not in self._rollouts:
            rollout = await rollout_named(self.keeper, account.id, name)
            if rollout is not None:  # it was ended before, and its client did not hear of it
                self._rollouts[key] = rollout
        session = await self.session(account, name)
        given: Json = {"rollout": name, "leaves": session.leaves, **(attributes or {})}
        if lost := account.lost_turns[name]:
            given["lost"] = lost
        superseded = account.roster is not None and account.roster.superseded(session.rollout)
        trajectory = session.trajectory(outcome, attributes=given, superseded=superseded)
        await self.keeper.write([trajectory], f"the trajectory of rollout {name}")
        self.dismiss(session.rollout)
        return trajectory

    async def announce(self, account: RunAccount, rollout: Rollout) -> tuple[Session, str]:
        """Open a rollout, and have it stand in the lake; returns its session and its token, which is told this once
        and opens nothing else.

        Raises:
            Problem: as `open_rollout`, or the lake takes nothing.
        """
        token = self.open_rollout(account, rollout)
        begun = account.roster is not None and rollout.trajectory_id in account.roster.trajectories
        session = await self.session(account, rollout.name)
        records = await retried(self.keeper, rollout)
        records += [self._standing(session)] if begun else []  # else its first record has the token
        await self.keeper.write(records, f"rollout {rollout.name}")
        return session, token

    def dismiss(self, rollout: Rollout) -> None:
        """Let a rollout go whose trajectory somebody else writes; its token is good no longer."""
        key = (rollout.run_id, rollout.name)
        if (roster := self._roster_at(rollout.run_id)) is not None:
            roster.ended(rollout.name)
        self.conversations.let_go(key)
        self._rollouts.pop(key, None)
        self.witnesses.pop(key, None)

    @property
    def sessions(self) -> list[Session]:
        """The sessions in memory, longest unused first."""
        return list(self.conversations)

    @property
    def lost(self) -> int:
        """Turns answered and not kept, of all runs since this gateway started."""
        return self._lost_before + sum(account.lost for account in self.accounts.values())

    async def trouble(self) -> list[str]:
        """Why the gateway could not answer everything right now; nothing when it is ready."""
        found = [] if await self.keeper.ready() else [f"turns cannot be kept: {self.keeper.failure}"]
        return [*found, *self.routes.trouble()]

    async def _remembered(self, name: str) -> RunAccount | None:
        """A run of this gateway's earlier life, with the rollouts that were at work in it."""
        run = await self.keeper.run(name)
        if run is None:
            return None
        spent, requests = await self.keeper.spent(name)
        account = known_run(run, spent, requests)
        if account is None:
            return None
        account.roster = None if run.finished else await self._roster(name)
        self.accounts[name] = account
        if run.finished:
            self._note_closed(account)
        return account

    async def _roster(self, run: str) -> Roster:
        roster, at_work = await stored_rollouts(self.keeper, run)
        self._rollouts.update({(run, rollout.name): rollout for rollout in at_work})
        return roster

    async def _new_session(self, account: RunAccount, name: str) -> Session:
        rollout, roster = self._rollouts.get((account.id, name)), account.roster
        if rollout is None:
            rollout = unannounced(account.id, name)
            self._claim(account, rollout)
        begins = self._resumes and roster is not None and rollout.trajectory_id not in roster.trajectories
        if begins and account.run.finished:
            del self._rollouts[account.id, name]
            raise account.is_closed()
        tree = rollout.tree_id
        allowance = None if roster is None else roster.bounds(rollout)
        session = Session(rollout, self.conversations.stand(tree), allowance)
        session.witness = self.witnesses.get((account.id, name))
        try:
            # also where a sibling has the index: this rollout's own turns are counted
            if roster is None or tree in roster.trees:
                session.load(await self.keeper.nodes(tree))
            if begins and roster is not None:
                await self._begun(account, roster, session)
        except BaseException:
            self.conversations.leave(tree)
            raise
        self.conversations.add(session)
        return session

    async def _begun(self, account: RunAccount, roster: Roster, session: Session) -> None:
        """Have it stand in the lake that a rollout is at work; one of a run that is kept as well as can be goes on
        without."""
        try:
            await self.keeper.write([self._standing(session)], f"rollout {session.rollout.name}")
        except Problem:
            if account.terms.capture == "strict":
                raise
        else:
            roster.trajectories.add(session.rollout.trajectory_id)

    def _standing(self, session: Session) -> Trajectory:
        roster = self._roster_at(session.rollout.run_id)
        return standing(session, {} if roster is None else roster.token_of(session.rollout.name))

    def _gone(self, session: Session) -> None:
        """A session was dropped from memory; the lake has all of it."""
        if (roster := self._roster_at(session.rollout.run_id)) is not None:
            roster.trees.add(session.rollout.tree_id)

    def _roster_at(self, run: str) -> Roster | None:
        account = self.accounts.get(run)
        return None if account is None else account.roster

    def _forget_sessions(self) -> None:
        """After the lake was opened again: what it did not take must not be built upon."""
        for session in self.sessions:
            session.stale = True
            self.conversations.let_go((session.rollout.run_id, session.rollout.name))
