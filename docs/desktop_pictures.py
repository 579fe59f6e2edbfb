"""Makes the picture of the desktop gym's guide from a real desktop: `python docs/desktop_pictures.py`.

expert ─▶ HostPool ─▶ a desktop with Calc ─▶ the screenshot an agent is shown ─▶ docs/images/desktop/calc-total.png

Needs `silva envs install desktop` and Debian's packages.
"""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

from silva.envs import HostPool, Registry


async def picture(task: str, moves: int) -> bytes:
    """The screen after so many of the expert's moves."""
    async with HostPool(Registry.load().entry("desktop"), step_timeout=300) as pool, pool.lease() as env:
        (found,) = await pool.tasks(ids=[f"desktop/{task}"])
        seen = await env.reset(found, 0)
        for _ in range(moves):
            seen = await env.step(await env.expert())
        (content,) = seen.blobs.values()
        return content


def main() -> None:
    """Write the picture."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--task", default="calc-total")
    options.add_argument("--moves", type=int, default=3)
    options.add_argument("--output", type=Path, default=Path(__file__).parent / "images" / "desktop")
    given = options.parse_args()
    given.output.mkdir(parents=True, exist_ok=True)
    (given.output / f"{given.task}.png").write_bytes(asyncio.run(picture(given.task, given.moves)))


if __name__ == "__main__":
    main()
