"""Counts of 1,414,593 members of the US armed forces."""

import numpy as np

from ._stored import load_arrays

SHA256 = "01a7f42fb65c42abfc286599d198354f4bafe264c96902f60147b95c6ebb6d58"


def load_military() -> dict[str, np.ndarray]:
    """Counts of the 1,414,593 members of the US armed forces by six attributes.

    The Army, Navy, Air Force and Marine Corps, as in the table `military` of the R package
    openintro. Of the 3,696 combinations of grade, branch, gender, race, hispanic origin and rank,
    1,646 occur: they are the cells.

    Licence: public domain, a work of the US government (Department of Defense, Personnel trends by
    gender and race).

    Returns:
      Read-only arrays by name.

      * cells: uint8[1646, 6], the levels of the attributes of each cell, in the order above.
      * counts: int32[1646], the members in each cell, at least 1.
      * levels_grade, levels_branch, levels_gender, levels_race, levels_hisp, levels_rank: str[3],
        [4], [2], [7], [2] and [11], the names of the levels. A rank is a number within a grade,
        and the levels are in the order of their names: '10' follows '1'.

    Raises:
      ValueError: the file is not the one that was shipped.

    Example:
      >>> from jaxdp.data import load_military
      >>> military = load_military()
      >>> int(military["counts"].sum()), military["levels_gender"].tolist()
      (1414593, ['female', 'male'])
    """
    arrays = load_arrays("military.npz", SHA256)
    return {name.removeprefix("military_"): array for name, array in arrays.items()}
