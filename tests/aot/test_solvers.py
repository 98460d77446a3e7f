"""Every solver of norms and every iterated projection compiles for an H200 in moderate time."""

import jax
import numpy as np
import pytest

from tests.factorization.test_lowering import NORMS, SEARCHES
from tests.projections.test_lowering import SOLVERS, VERTICES

from ._budgets import SHARED
from ._device import compile_for, missing

SECONDS = 20
FACTORIZATIONS = {**NORMS, **SEARCHES}


@pytest.mark.skipif(missing("cuda") is not None, reason=str(missing("cuda")))
@pytest.mark.parametrize("name", [*FACTORIZATIONS, *SOLVERS])
def test_compiles_for_an_h200(name):
    """In a 32-bit program, of CPU seconds; a decomposition unrolled once took 150."""
    solve = {**FACTORIZATIONS, **SOLVERS}[name]
    shape = (64, 64) if name in FACTORIZATIONS else (len(VERTICES),) * 2
    given = jax.ShapeDtypeStruct(shape, np.float32)
    compiled = compile_for("cuda", jax.jit(lambda w: jax.tree.leaves(solve(w))), given)
    assert compiled.seconds <= SECONDS * SHARED
