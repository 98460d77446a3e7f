"""Refusal of what does not fit into the machine's memory."""

import os


def check_memory(needed: int, what: str) -> None:
    """Raises ValueError with the bytes if they are more than the machine's physical memory.

    Args:
      needed: bytes.
      what: the argument, what it must be, and what it is; the message goes on with the bytes.
    """
    available = physical_memory()
    if needed > available:
        raise ValueError(
            f"{what}, which takes about {needed:,} bytes, and the machine has {available:,}."
        )


def physical_memory() -> int:
    """The physical memory of this machine in bytes."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):  # where it is not told, nothing is refused
        return 2**63
