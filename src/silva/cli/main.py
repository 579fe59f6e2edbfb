"""The root of the command line: which commands there are, and how each of them ends.

    silva NAME … ─▶ root finds `silva.cli.NAME` ─▶ its `app` runs ─▶ exit code (silva.errors.Exit)
                                                      └─ SilvaError ─▶ one line on stderr, its code

A command's module is imported only when that command runs, so `silva --help` and completion answer at once.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperGroup

from silva import __version__
from silva.errors import Exit, SilvaError


class _Lazy(NamedTuple):
    """A command that is not loaded yet: where it lives, the one line that help shows, and the part of help it is in."""

    module: str
    summary: str
    part: str = "Commands"


_RUN, _LOOK, _LEARN, _MACHINE = "Run agents", "Look and steer", "Make data, train, improve", "This machine"

COMMANDS = {
    "rollout": _Lazy("silva.cli.rollout", "Run an agent on the tasks of environments; keep every turn.", _RUN),
    "envs": _Lazy("silva.cli.envs", "List, install and test environments; begin one of your own.", _RUN),
    "models": _Lazy("silva.cli.models", "Serve a scripted or local model; make a tiny one; test an endpoint.", _RUN),
    "gateway": _Lazy("silva.cli.gateway", "One door between agents and models; every turn is kept.", _RUN),
    "redteam": _Lazy("silva.cli.redteam", "Attack and disturb agents in any environment; see what came of it.", _RUN),
    "qa": _Lazy("silva.cli.qa", "Red-teaming in dialogue: safety by strategy, judges by labels.", _LOOK),
    "report": _Lazy("silva.cli.report", "Sum up a run: figures here, or one HTML page.", _LOOK),
    "trees": _Lazy("silva.cli.trees", "List, show, export, import, replay and branch what was grown.", _LOOK),
    "console": _Lazy("silva.cli.console", "See and steer what is grown, from a browser.", _LOOK),
    "guide": _Lazy("silva.cli.guide", "Say something to a running agent; pause, stop, forbid, approve.", _LOOK),
    "lake": _Lazy("silva.cli.lake", "Query a lake, check it, see what it holds.", _LOOK),
    "audit": _Lazy("silva.cli.audit", "Audit data for thirteen risks; every verdict has a measured error.", _LEARN),
    "curate": _Lazy("silva.cli.curate", "Judge what was grown: mask turns not worth learning.", _LEARN),
    "elf": _Lazy("silva.cli.elf", "Say what to do with data: a checked plan, its run, its report.", _LEARN),
    "data": _Lazy("silva.cli.data", "Data sets: split, mix, upsample, check for leaks, release.", _LEARN),
    "tasks": _Lazy(
        "silva.cli.tasks", "Tasks that loops made: where from, and a person's word on those that wait.", _LEARN
    ),
    "skills": _Lazy("silva.cli.skills", "Skills: short texts that runs taught, tried before they are kept.", _LEARN),
    "science": _Lazy("silva.cli.science", "Data of five sciences, in one form.", _LEARN),
    "train": _Lazy("silva.cli.train", "Samples, the buffer, and training runs.", _LEARN),
    "policy": _Lazy("silva.cli.policy", "Policy versions: list, promote, roll back, export, publish.", _LEARN),
    "loop": _Lazy("silva.cli.loop", "Closed loops: run, train, prove, promote, and round again.", _LEARN),
    "doctor": _Lazy("silva.cli.doctor", "Say what this machine can do, and what to install for the rest.", _MACHINE),
    "sandbox": _Lazy("silva.cli.sandbox", "Run commands isolated; list and clean up what was left.", _MACHINE),
}
"""Every command, in the order of a first day."""


class LazyGroup(TyperGroup):
    """A group that knows its commands' names and summaries, and imports a command when it is called."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        for name, lazy in COMMANDS.items():
            # A light stand-in: enough for help and completion of the name.
            self.add_command(TyperGroup(name=name, help=lazy.summary, rich_help_panel=lazy.part), name)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Find the command named first and load it."""
        name, command, rest = super().resolve_command(ctx, args)
        if name in COMMANDS:
            command = load(name)
        return name, command, rest


def load(name: str) -> Any:
    """Import a command's module and build the command.

    Raises:
        KeyError: no such command.
    """
    module = importlib.import_module(COMMANDS[name].module)
    command = typer.main.get_command(module.app)
    command.name = name
    # Completion is installed once, at the root.
    command.params = [p for p in command.params if p.name not in ("install_completion", "show_completion")]
    return command


app = typer.Typer(
    name="silva",
    cls=LazyGroup,
    help="Grow LLM agents: run them in real environments, keep every turn, turn what happened into data.",
    epilog="A first run: silva rollout --env arithmetic --policy expert --limit 3 --run first; then: silva report",
    invoke_without_command=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"silva {__version__}")
        raise typer.Exit()


@app.callback()
def _root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit with one of `silva.errors.Exit`.

    Args:
        arguments: the words after `silva`; the process's own when None.

    Raises:
        SystemExit: always.
    """
    sys.exit(run(arguments))


def run(arguments: list[str] | None = None) -> int:
    """Run the command line; return its exit code. A command that returns an integer returns its code."""
    try:
        result = typer.main.get_command(app).main(arguments, prog_name="silva", standalone_mode=False)
        sys.stdout.flush()
        return int(result) if isinstance(result, int) and not isinstance(result, bool) else Exit.OK
    except SilvaError as error:
        return _refused(str(error), error.code, arguments)
    except (KeyboardInterrupt, typer.Abort):
        # Typer turns Ctrl-C into its own Exit(130); this is for the moments outside it.
        return Exit.INTERRUPTED
    except typer.TyperException as error:
        return _usage(error, arguments)
    except SystemExit as leaving:
        # Typer turns a closed pipe into exit code 1, which here would mean a fault of our own.
        if isinstance(leaving.__context__, BrokenPipeError):
            return _closed_pipe()
        raise
    except BrokenPipeError:
        return _closed_pipe()
    except Exception as error:  # noqa: BLE001 - the last boundary: whatever arrives here is reported, never swallowed
        return _fault(error, arguments)


def _refused(message: str, code: int, arguments: list[str] | None) -> int:
    """Say why a command gave nothing: one line on stderr, and for a reader of `--json` an object on stdout."""
    _say(message)
    words = sys.argv[1:] if arguments is None else arguments
    if "--json" in (words[: words.index("--")] if "--" in words else words):
        from silva.cli.as_json import print_json

        print_json({"error": message, "code": int(code)})
    return code


def _usage(error: typer.TyperException, arguments: list[str] | None) -> int:
    # Click's usage errors carry a message and know the command; "no arguments" has printed the help already.
    text = getattr(error, "format_message", lambda: str(error))()
    context = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError":
        sys.stdout.write(f"{text}\n" if text.strip() else "")
        return Exit.USAGE
    hint = f" (see: {context.command_path} --help)" if context is not None else ""
    return _refused(f"{' '.join(text.split())}{hint}", int(getattr(error, "exit_code", Exit.USAGE)), arguments)


def _closed_pipe() -> int:
    # The reader (head, less) went away. Point stdout at nothing so that the interpreter's last flush is quiet too.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return Exit.OK


def _fault(error: Exception, arguments: list[str] | None) -> int:
    from silva.redact import redact

    if os.environ.get("SILVA_TRACEBACK"):
        import traceback

        sys.stderr.write(redact("".join(traceback.format_exception(error))))
    where = " (set SILVA_TRACEBACK=1 to see where)" if not os.environ.get("SILVA_TRACEBACK") else ""
    line = " ".join(str(error).split())
    return _refused(f"a fault of Silva's own: {type(error).__name__}: {redact(line)}{where}", Exit.FAULT, arguments)


def _say(message: str) -> None:
    line = f"error: {message}"
    colour = sys.stderr.isatty() and not os.environ.get("NO_COLOR")
    sys.stderr.write(f"\033[31m{line}\033[0m\n" if colour else f"{line}\n")


if __name__ == "__main__":
    main()
