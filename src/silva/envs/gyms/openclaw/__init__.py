"""OpenClaw, the real program, as an environment: Silva's agent is its model, local services are its world.

reset ─▶ Office (mail, calendar, chat, web, packages, cron) ─▶ sandbox with doors to them ─▶ openclaw agent exec
      ─▶ its model's door ─▶ Observation ─▶ action ─▶ its own tools ─▶ … ─▶ grade() and risk() in a judge's sandbox
"""
