"""The `jaxdp` command."""

import io
import os
import sys
from collections.abc import Callable, Sequence

from .._version import __version__

TYPE_CHECKING = False  # that of `typing`, which takes long to import
if TYPE_CHECKING:
    from typing import Any

EXTRAS = ("pyarrow", "rich", "matplotlib", "tyro")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command.

    Args:
      arguments: what follows `jaxdp` on the command line; None for those of this process.

    Returns:
      The exit code: 0; 1 when a cell failed; 2 when the arguments are wrong; 130 after Ctrl-C.
    """
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without ε shows a question mark
    if arguments == ["--version"]:
        print(f"jaxdp {__version__}")
        return 0
    import importlib.util  # only now, as all that `--version` can do without

    from .._install import install

    missing = [name for name in EXTRAS if importlib.util.find_spec(name) is None]
    if missing:
        return _refuse(f"needs {', '.join(missing)}: {install('sweep')}")

    if arguments == ["list"]:  # not worth the wait for tyro, which reads all other arguments
        from ._catalog import print_catalog

        return print_catalog()

    from ._words import Mistake

    try:
        return parse(arguments or ["--help"])()
    except Mistake as mistake:
        return _refuse(str(mistake))
    except KeyboardInterrupt:
        import shlex

        again = shlex.join(["jaxdp", *arguments])
        print(f"\njaxdp: interrupted; finished cells are kept: to go on, {again}", file=sys.stderr)
        sys.stdout.flush()
        os._exit(130)  # not to wait for threads in the middle of a cell, of which nothing is kept


def parse(arguments: list[str]) -> Callable[[], int]:
    """The subcommand; of wrong arguments, what is wrong in one line."""
    import contextlib

    import tyro

    from ._about_commands import Completion, Describe, Version
    from ._clean_command import Clean
    from ._commands import List, New, Run, Status
    from ._look_commands import Plot, Report, Show
    from ._plan_command import Plan
    from ._words import Mistake

    def read(arguments: list[str]) -> "Any":
        return tyro.cli(
            Run
            | Status
            | Show
            | Plot
            | Report
            | List
            | Describe
            | New
            | Clean
            | Plan
            | Completion
            | Version,
            args=arguments,
            prog="jaxdp",
            description="Simulates local differential privacy: experiments by name, and plans.",
        )

    shown = io.StringIO()
    try:
        with contextlib.redirect_stderr(shown):
            command = read(arguments)
            # What knows all words, tyro's parser, prints them.
            if isinstance(command, Completion):
                command = read(["--tyro-print-completion", command.shell])
            return command
    except SystemExit as stop:
        if not stop.code:
            raise
        raise Mistake(_meant(arguments, read) or _one_line(shown.getvalue())) from None


def _meant(arguments: list[str], read: Callable[[list[str]], object]) -> str | None:
    """What is said of a word that is not known but like one; None if there is none."""
    import contextlib
    import difflib
    import re

    def known(*words: str) -> str:
        """The help of the command, or of a subcommand."""
        shown = io.StringIO()
        with contextlib.suppress(SystemExit), contextlib.redirect_stdout(shown):
            read([*words, "--help"])
        return re.sub(r"\x1b\[[0-9;]*m", "", shown.getvalue())

    command, *rest = arguments
    usage = "".join(known().partition("\n\n")[0].split())
    commands = re.findall(r"\{(.*)\}", usage)[0].split(",")
    if command not in commands:
        close = difflib.get_close_matches(command, commands, n=1)
        if command.startswith("-") or not close:
            return None
        return f"there is no subcommand {command}; did you mean {close[0]}?"
    options = sorted(set(re.findall(r"(?<!\S)--[a-z][\w-]*", known(command))))
    for word in rest:
        name = word.partition("=")[0]
        if name.startswith("--") and options and name not in options:
            close = difflib.get_close_matches(name, options, n=1)
            return f"{command} has no option {name}; did you mean {close[0]}?" if close else None
    return None


def _one_line(boxed: str) -> str:
    """What tyro says in a box, without its title and what follows the message itself."""
    import re

    text = re.sub(r"\x1b\[[0-9;]*m", "", boxed).partition("\n")[2]
    text = re.split("Argument helptext|For full helptext", text)[0]
    return re.sub(r"[│╰╯─]+", " ", text).replace("Error parsing ", "").replace(": must", " must")


def _refuse(message: str) -> int:
    print(f"jaxdp: {' '.join(message.split())}", file=sys.stderr)
    return 2
