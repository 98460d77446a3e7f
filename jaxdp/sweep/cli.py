"""The `jaxdp` command."""

import io
import os
import sys
from collections.abc import Sequence

from .._version import __version__

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

    missing = [name for name in EXTRAS if importlib.util.find_spec(name) is None]
    if missing:
        return _refuse(f"needs {', '.join(missing)}: pip install 'jaxdp[sweep]'")

    if arguments == ["list"]:  # not worth the wait for tyro, which reads all other arguments
        from ._catalog import print_catalog

        return print_catalog()

    from ._commands import Mistake

    try:
        return _parse(arguments or ["--help"])()
    except Mistake as mistake:
        return _refuse(str(mistake))
    except KeyboardInterrupt:
        import shlex

        again = shlex.join(["jaxdp", *arguments])
        print(f"\njaxdp: interrupted; finished cells are kept: to go on, {again}", file=sys.stderr)
        sys.stdout.flush()
        os._exit(130)  # not to wait for threads in the middle of a cell, of which nothing is kept


def _parse(arguments: list[str]):
    """The subcommand; of wrong arguments, tyro's message in one line."""
    import contextlib

    import tyro

    from ._commands import List, Mistake, New, Run, Show, Status
    from ._plan_command import Plan

    shown = io.StringIO()
    try:
        with contextlib.redirect_stderr(shown):
            return tyro.cli(
                Run | Status | Show | List | New | Plan,
                args=arguments,
                prog="jaxdp",
                description="Simulates local differential privacy: experiments by name, and plans. "
                "`jaxdp --version` prints the version.",
            )
    except SystemExit as stop:
        if not stop.code:
            raise
        raise Mistake(_one_line(shown.getvalue())) from None


def _one_line(boxed: str) -> str:
    """What tyro says in a box, without its title and what follows the message itself."""
    import re

    text = re.sub(r"\x1b\[[0-9;]*m", "", boxed).partition("\n")[2]
    text = re.split("Argument helptext|For full helptext", text)[0]
    return re.sub(r"[│╰╯─]+", " ", text).replace("Error parsing ", "").replace(": must", " must")


def _refuse(message: str) -> int:
    print(f"jaxdp: {' '.join(message.split())}", file=sys.stderr)
    return 2
