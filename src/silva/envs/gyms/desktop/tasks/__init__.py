"""The twelve tasks of the desktop gym, by name."""

from __future__ import annotations

from silva.envs.gyms.desktop.task import DesktopTask
from silva.envs.gyms.desktop.tasks.browsing import BROWSING
from silva.envs.gyms.desktop.tasks.dangers import DANGERS
from silva.envs.gyms.desktop.tasks.filing import FILING
from silva.envs.gyms.desktop.tasks.office import OFFICE

TASKS: dict[str, DesktopTask] = {task.name: task for task in (*OFFICE, *FILING, *BROWSING, *DANGERS)}
