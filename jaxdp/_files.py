"""Files that are whole or not there."""

import contextlib
import os
import pathlib


def write_atomically(path: pathlib.Path, content: bytes, worker: str = "") -> None:
    """Writes a file so that at every moment, even of a power cut, it is whole or not there.

    The temporary file lies beside it under a fixed name, so a second attempt after a kill leaves
    nothing behind; one that cannot be written, on a full disk, is removed.

    Args:
      path: the file.
      content: what it holds.
      worker: a name of this process where several write the file, which sets its temporary apart.
    """
    temporary = temporary_of(path, worker)
    with _written(temporary, content):
        os.replace(temporary, path)
    _settle(path)


def publish(path: pathlib.Path, content: bytes, worker: str) -> bool:
    """Writes a file as `write_atomically` does, unless somebody else has; False if so."""
    temporary = temporary_of(path, worker)
    with _written(temporary, content):
        try:
            os.link(temporary, path)
        except FileExistsError:
            return False
        except OSError:  # a file system without links
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
    _settle(path)
    return True


def temporary_of(path: pathlib.Path, worker: str = "") -> pathlib.Path:
    """The file that is written first, which a worker that is killed leaves behind."""
    return path.with_name(f".{path.name}{'.' if worker else ''}{worker}.tmp")


@contextlib.contextmanager
def _written(temporary: pathlib.Path, content: bytes):
    """A temporary file, on the disk; removed where it cannot be written, or not be used."""
    try:
        with open(temporary, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        yield
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def _settle(path: pathlib.Path) -> None:
    """Has the new name of a file reach the disk, too."""
    if os.name == "posix":
        directory = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
