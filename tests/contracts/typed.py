"""Plays the contract cases in a process in which jaxdp checks its annotations as it runs.

jaxtyping's hook makes each function check what it is given and what it returns: classes, dtypes,
ranks, and that axes of one name have one length. It acts on what is imported after it, hence a
process of its own: `python -c "from tests.contracts import typed; typed.main()" [CASE ...]`.
"""

import json
import random
import sys
import traceback
from collections.abc import Callable
from typing import Any

import jaxtyping
import numpy as np
from beartype import BeartypeConf, FrozenDict, beartype
from beartype.door import is_bearable
from beartype.roar import BeartypeDecorHintException
from numpy.typing import ArrayLike

from tests import conftest  # jax's strict modes  # noqa: F401

CONF = BeartypeConf(
    is_pep484_tower=True,  # an int is a float, as pyright has it
    hint_overrides=FrozenDict(
        {
            np.ndarray: np.ndarray | np.generic,  # numpy makes scalars of arrays without axes
            ArrayLike: ArrayLike | tuple,  # its protocol of sequences overlooks tuples
        }
    ),
)
SHAPED: set[str] = set()
CALLED: set[str] = set()


def checked(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorates what the hook finds; notes whose annotations have shapes, and which were called."""
    if function.__name__ == "__init__":
        return function  # jax makes params of tracers, of shapes and of None
    for argument, hint in list(function.__annotations__.items()):
        try:
            is_bearable(None, hint, conf=CONF)
        except BeartypeDecorHintException:  # nothing tells an instance of `Self`, or of a protocol
            del function.__annotations__[argument]
    checker = beartype(function, conf=CONF)
    if "jaxtyping" not in str(function.__annotations__):
        return checker
    name = f"{function.__module__}.{function.__qualname__}"
    SHAPED.add(name)

    def noted(*args: Any, **kwargs: Any) -> Any:
        CALLED.add(name)
        return checker(*args, **kwargs)

    return noted


def main() -> None:
    """Prints, as JSON, the error of each play that fails, and how many functions have shapes."""
    random.seed(0)  # beartype looks at one entry of a list, drawn at random
    modules = ["jaxdp", "tests.contracts.plays"]
    jaxtyping.install_import_hook(modules, "tests.contracts.typed.checked")
    from tests.contracts.plays import PLAYS

    errors = {}
    for name in sys.argv[1:] or PLAYS:
        try:
            PLAYS[name]()
        except Exception as error:
            errors[name] = "".join(traceback.format_exception(error, limit=-3, chain=False))
    print(json.dumps({"errors": errors, "shaped": len(SHAPED), "called": len(CALLED)}))
