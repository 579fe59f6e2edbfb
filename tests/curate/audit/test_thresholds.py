"""Thresholds of all checkers together: what is promised holds on items that set nothing."""

import numpy as np

from silva.curate.audit.card import Card
from silva.curate.audit.checkers.bias_judge import BiasJudge
from silva.curate.audit.checkers.harmful_judge import HarmfulJudge
from silva.curate.audit.checkers.jailbreak_judge import JailbreakJudge
from silva.curate.audit.checkers.pii_judge import PersonalDataJudge
from silva.curate.audit.checkers.sycophancy_judge import SycophancyJudge
from silva.curate.audit.checkers.toxicity_judge import ToxicityJudge
from silva.curate.audit.thresholds import thresholds

JUDGES = [BiasJudge(), HarmfulJudge(), JailbreakJudge(), PersonalDataJudge(), SycophancyJudge(), ToxicityJudge()]


def test_the_wanted_share_is_kept_on_items_that_set_no_threshold() -> None:
    alarms: list[float] = []
    for seed in range(8):
        random = np.random.default_rng(seed)
        cards = {
            each.name: Card(
                checker=each.name,
                version=each.version,
                risk=each.risk,
                threshold=0.5,
                risky=tuple(np.clip(random.normal(0.65, 0.15, 60), 0.01, 1).tolist()),
                risky_digest=each.risk,
                clean=dict(enumerate(np.clip(random.normal(0.4, 0.15, 240), 0.01, 1).tolist())),
                clean_items=240,
                clean_digest="the same",
            )
            for each in JUDGES
        }
        limits = thresholds(JUDGES, cards, 0.05)
        assert limits.alarms is not None and limits.mean_recall is not None
        assert limits.mean_recall > 0.02
        alarms.append(limits.alarms.value)
    # spending all of the wanted share on the items that set the thresholds flags 0.11 of the others
    assert np.mean(alarms) < 0.06
