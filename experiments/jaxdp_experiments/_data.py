"""Where the data lies that the project may not carry."""

import os
import pathlib


def data_folder(file: str) -> pathlib.Path:
    """The folder that the environment variable `JAXDP_DATA` names.

    Args:
      file: what is to be read from it, for the message.

    Raises:
      ValueError: the variable is not set.
    """
    folder = os.environ.get("JAXDP_DATA")
    if not folder:
        raise ValueError(
            f"the environment variable JAXDP_DATA must name the folder that holds {file}; the "
            "loaders of jaxdp.data say where it comes from."
        )
    return pathlib.Path(folder)
