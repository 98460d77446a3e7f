"""Reading files of arrays: those that ship with the package, and those that a user has."""

import hashlib
import importlib.resources
import io
import os
import pathlib

import numpy as np


def load_arrays(name: str, sha256: str) -> dict[str, np.ndarray]:
    """The read-only arrays of a shipped .npz file.

    Args:
      name: the file's name.
      sha256: its hash, in hexadecimal.

    Raises:
      ValueError: the file is not the one that was shipped.
    """
    content = (importlib.resources.files("jaxdp.data") / name).read_bytes()
    if hashlib.sha256(content).hexdigest() != sha256:
        raise ValueError(
            f"{name} of this installation has been changed or damaged: its sha256 must be "
            f"{sha256}; install jaxdp again."
        )
    return _arrays(content)


def load_file(path: str | os.PathLike[str], sha256: str, what: str) -> dict[str, np.ndarray]:
    """The read-only arrays of an .npz file that a user has.

    Args:
      path: the file.
      sha256: its hash, in hexadecimal.
      what: the file in words, for the message.

    Raises:
      ValueError: the file is another one.
      OSError: it cannot be read.
    """
    return _arrays(read_known(path, sha256, what))


def read_known(path: str | os.PathLike[str], sha256: str, what: str) -> bytes:
    """The content of a file that a user has; see `load_file`."""
    content = pathlib.Path(path).read_bytes()
    if hashlib.sha256(content).hexdigest() != sha256:
        raise ValueError(f"{path} is not {what}: its sha256 must be {sha256}.")
    return content


def _arrays(content: bytes) -> dict[str, np.ndarray]:
    # No pickles: they would run whatever code a file holds.
    with np.load(io.BytesIO(content), allow_pickle=False) as stored:
        return read_only({key: stored[key] for key in stored.files})


def read_only(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The same arrays, made read-only."""
    for array in arrays.values():
        array.setflags(write=False)
    return arrays
