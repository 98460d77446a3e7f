"""Which of the processes of a sweep this one is, as what has started it says."""

from collections.abc import Mapping

Shard = tuple[int, int | None]
"""A number, from 0 on, and of how many; None where that is not known."""

_VARIABLES = (
    ("SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_COUNT", "SLURM_ARRAY_TASK_MIN"),
    ("JOB_COMPLETION_INDEX", None, None),  # of an indexed job of Kubernetes
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", None),
    ("RANK", "WORLD_SIZE", None),  # of torchrun
)


def shard_of(environment: Mapping[str, str]) -> Shard:
    """The shard that a scheduler's variables name; (0, 1) without any.

    Args:
      environment: such as `os.environ`.
    """
    for index, number, first in _VARIABLES:
        if (given := environment.get(index, "")).isdecimal():
            of = environment.get(number or "", "")
            start = environment.get(first or "", "0")
            place = int(given) - (int(start) if start.isdecimal() else 0)
            if not of.isdecimal():
                return max(place, 0), None
            # The numbers of an array may have gaps.
            return place % max(int(of), 1), max(int(of), 1)
    return 0, 1


def read_shard(text: str) -> Shard:
    """The shard of a text such as "3/8".

    Raises:
      ValueError: the text is no such thing.
    """
    index, _, number = text.partition("/")
    if index.isdecimal() and number.isdecimal() and int(index) < int(number):
        return int(index), int(number)
    raise ValueError(f"must be i/N, as 0/4, 1/4, 2/4 and 3/4 for four processes, got {text!r}")
