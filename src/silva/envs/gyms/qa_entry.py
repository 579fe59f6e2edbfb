"""Registers `qa`, red-teaming of a model in dialogue, and `qa-judge`, which measures those who judge there."""

from silva.envs.protocol import EnvironmentEntry

ENTRIES = [
    EnvironmentEntry(
        name="qa",
        target="silva.envs.gyms.qa.environment:Dialogue",
        summary="red-teaming of a model in dialogue: attacker, target, judge, referee; harmless goals",
        licence="Apache-2.0",
        source="Silva",
        splits=("test", "canary", "policy", "claim"),
    ),
    EnvironmentEntry(
        name="qa-judge",
        target="silva.envs.gyms.qa.judging:Judging",
        summary="replies labelled by hand, to measure a judge of qa by before it is believed",
        licence="Apache-2.0",
        source="Silva",
    ),
]
