"""Files that are whole or not there."""

import os
import pathlib


def write_atomically(path: pathlib.Path, content: bytes) -> None:
    """Writes a file so that at every moment, even of a power cut, it is whole or not there.

    The temporary file lies beside it under a fixed name, so a second attempt after a kill leaves
    nothing behind; one that cannot be written, on a full disk, is removed.
    """
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        with open(temporary, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    if os.name == "posix":  # the new name, too, must reach the disk
        directory = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
