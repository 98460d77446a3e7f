"""The size of a dense workload."""

MAX_ENTRIES = 2**28  # 2 GiB; what protocols take at most, too


def check_dense(
    arguments: str, shape: tuple[int, int], instead: str = "fewer values or queries"
) -> None:
    """Raises ValueError where a dense workload would have more than 2**28 entries.

    Args:
      arguments: those that set its shape, and their values, for the message.
      shape: of the workload.
      instead: what to use instead.
    """
    if shape[0] * shape[1] > MAX_ENTRIES:
        raise ValueError(
            f"{arguments} is too large for a dense workload: it would have the shape {shape}, and "
            f"at most 2**28 entries are made; use {instead}."
        )
