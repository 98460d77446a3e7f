"""Reading the files that ship with the package."""

import hashlib
import importlib.resources
import io

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
    with np.load(io.BytesIO(content), allow_pickle=False) as stored:
        arrays = {key: stored[key] for key in stored.files}
    for array in arrays.values():
        array.setflags(write=False)
    return arrays
