"""`silva sandbox view`: look at a running desktop from a browser."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from silva.cli.as_json import print_json


def view(
    sandbox: Annotated[
        str, typer.Argument(help="Its sandbox's id, or how that begins; the only one when left out.")
    ] = "",
    control: Annotated[bool, typer.Option("--control", help="Let the browser's keys and pointer act on it.")] = False,
    port: Annotated[int, typer.Option(help="On loopback; 0 for a free one.", min=0, max=65535)] = 0,
    listed: Annotated[bool, typer.Option("--list", help="Only list the desktops that run.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="With --list: print JSON.")] = False,
) -> None:
    """Show a running desktop in the browser (noVNC), on loopback and behind a token; only to look at, unless told."""
    import asyncio

    from silva.envs.gyms.desktop.view import chosen, desktops

    if listed:
        there = desktops()
        if as_json:
            import msgspec

            print_json([msgspec.to_builtins(each) for each in there])
            return
        for each in there:
            sys.stdout.write(f"{each.sandbox}  {each.task}\n")
        if not there:
            sys.stdout.write("no desktops\n")
        return
    asyncio.run(_served(chosen(sandbox), control, port))


async def _served(desktop: object, control: bool, port: int) -> None:
    import asyncio
    import secrets
    import signal

    from aiohttp import web

    from silva.envs.gyms.desktop.view import Seen, View, listening

    assert isinstance(desktop, Seen)
    token = secrets.token_urlsafe(24)
    door = listening(port)
    runner = web.AppRunner(View(desktop, token, control).app, access_log=None)
    await runner.setup()
    try:
        await web.SockSite(runner, door).start()
        how = "keys and pointer act on it" if control else "only to look at"
        sys.stdout.write(f"{desktop.task} in sandbox {desktop.sandbox}, {how}\n")
        sys.stdout.write(f"http://127.0.0.1:{door.getsockname()[1]}/{token}/\n")
        sys.stdout.flush()
        ended = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, ended.set)
        await ended.wait()
    finally:
        await runner.cleanup()
