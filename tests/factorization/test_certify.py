"""`certify` accepts every honest result and rejects every tampered one."""

import dataclasses
import functools

import jax
import numpy as np
import pytest

from jaxdp import factorization as fz
from jaxdp import workloads

W = workloads.prefix(8)
S = workloads.lipschitz(8)
SOLVERS = {
    "gamma2": (W, fz.gamma2),
    "gamma_f": (W, fz.gamma_f),
    "gamma2_approx": (W, lambda w: fz.gamma2_approx(w, 0.1)),
    "zeta": (W, lambda w: fz.zeta(w, weight=1.5)),
    "signed": (S, fz.signed),
    "gamma2_dual": (W, fz.gamma2_dual),
}


@functools.cache
def solved(kind):
    """A matrix and what is claimed of it."""
    matrix, solve = SOLVERS[kind]
    return matrix, solve(matrix)


def scale(field, factor):
    return lambda f: dataclasses.replace(f, **{field: getattr(f, field) * factor})


def bump(field, amount):
    def tamper(f):
        changed = getattr(f, field).copy()
        changed[0, 0] += amount
        return dataclasses.replace(f, **{field: changed})

    return tamper


def overstate_gap(f):
    return dataclasses.replace(f, lower=0.9 * f.lower)


TAMPERS = {
    "left scaled up": (scale("left", 1.01), set()),
    "left entry": (bump("left", 0.05), set()),
    "right scaled": (scale("right", 0.97), {"gamma2_dual"}),
    "upper lowered": (scale("upper", 0.999), set()),
    "lower raised": (scale("lower", 1.001), set()),
    "gap hidden behind a weak lower": (overstate_gap, set()),
    "gap negative": (lambda f: dataclasses.replace(f, gap=-0.5 * np.ones(())), set()),
    "dual scaled down": (scale("dual", 0.9), {"gamma2_dual"}),
    "dual negated": (scale("dual", -1.0), {"gamma2_dual"}),
    "dual entry": (bump("dual", 0.3), {"gamma2_dual"}),
    "weights too heavy": (scale("row_weights", 2.0), set()),
    "weights negative": (scale("col_weights", -1.0), set()),
    "core entry": (bump("core", 0.1), set(SOLVERS) - {"gamma2_dual"}),
    "alpha too small": (scale("alpha", 0.9), set(SOLVERS) - {"gamma2_approx", "zeta"}),
    "signs flipped": (scale("signs", -1.0), set(SOLVERS) - {"signed"}),
    "not a number": (scale("upper", np.nan), set()),
}


@pytest.mark.parametrize("kind", SOLVERS)
def test_honest_results_pass(kind):
    matrix, result = solved(kind)
    certificate = fz.certify(matrix, result)
    np.testing.assert_allclose(certificate.upper, result.upper, rtol=1e-9)
    np.testing.assert_allclose(certificate.lower, result.lower, rtol=1e-9)
    np.testing.assert_allclose(certificate.gap, result.gap, atol=1e-9)
    assert certificate.residual <= 1e-9


@pytest.mark.parametrize(
    ("tamper", "kind"),
    [
        (name, kind)
        for name, (_, spared) in TAMPERS.items()
        for kind in SOLVERS
        if kind not in spared
    ],
)
def test_tampered_results_fail(tamper, kind):
    matrix, result = solved(kind)
    with pytest.raises(fz.CertificateError):
        fz.certify(matrix, TAMPERS[tamper][0](result))


def test_one_bad_member_of_a_stack_is_found():
    stack = np.stack([W, S])
    result = fz.gamma2(stack)
    fz.certify(stack, result)
    lower = result.lower.copy()
    lower[1] *= 1.01
    with pytest.raises(fz.CertificateError, match="lower is claimed"):
        fz.certify(stack, dataclasses.replace(result, lower=lower))


def test_a_result_of_another_matrix_is_rejected():
    with pytest.raises(fz.CertificateError, match="differs by"):
        fz.certify(W + 0.1 * np.eye(8), solved("gamma2")[1])
    with pytest.raises(ValueError, match="must have shape"):
        fz.certify(W[:, :7], solved("gamma2")[1])
    with pytest.raises(ValueError, match="one factorization for each"):
        fz.certify(np.stack([W, W]), solved("gamma2")[1])


def test_certify_is_for_the_host():
    with pytest.raises(TypeError, match="outside jit"):
        jax.jit(lambda f: fz.certify(W, f).upper)(solved("gamma2")[1])


@pytest.mark.parametrize("shape", [(1, 1), (2, 2), (6, 6), (3, 9)])
def test_no_tolerance_ends_at_what_rounding_allows(shape, rng):
    """The last steps leave the cone by rounding; the one before them is the answer."""
    for matrix in (rng.normal(size=shape), np.ones(shape), np.eye(*shape)):
        result = fz.gamma2_dual(matrix, tol=0.0, max_steps=200)
        assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(result))
        assert float(result.gap) < 1e-6
