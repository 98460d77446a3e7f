"""Every invalid argument raises, and the message names it."""

import jax.numpy as jnp
import numpy as np
import pytest

from jaxdp import projections as pj

X, A = np.ones(3), np.ones((3, 5))
S = np.eye(3)

BAD = {
    "nan": (lambda: pj.simplex([1.0, np.nan]), r"x must be finite, got nan at index \(1,\)"),
    "inf": (lambda: pj.psd([[np.inf]]), "x must be finite"),
    "scalar": (lambda: pj.simplex(1.0), r"x must have shape \[..., k\]"),
    "empty": (lambda: pj.l1_ball(np.zeros((2, 0))), "at least one entry"),
    "radius 0": (lambda: pj.simplex(X, 0.0), "radius must be a finite number > 0"),
    "radius nan": (lambda: pj.l2_ball(X, np.nan), "radius must be a finite number > 0"),
    "radius shape": (lambda: pj.l1_ball(X, [1.0, 2.0]), "broadcast to the leading axes"),
    "trace": (lambda: pj.spectraplex(S, -1.0), "trace must be a finite number > 0"),
    "vector for a matrix": (lambda: pj.column_norm_ball(X), r"x must have shape \[..., m, k\]"),
    "not square": (lambda: pj.psd(A), "x must be square"),
    "correlation": (lambda: pj.correlation(A), "x must be square"),
    "dual": (lambda: pj.correlation(S, dual=[1.0]), r"dual must have shape \(3,\)"),
    "box order": (lambda: pj.box(X, 1.0, 0.0), "low must be <= high"),
    "box large": (lambda: pj.box(X, low=1e308), "low must be within the range of float32"),
    "box nan": (lambda: pj.box(X, np.nan), "low must not be NaN"),
    "box shape": (lambda: pj.box(X, np.ones((2, 3))), "low must broadcast"),
    "y and a": (lambda: pj.hull(np.ones(4), A), "y has 4 entries, a has 3 rows and 5 columns"),
    "a of rank 3": (lambda: pj.hull(X, A[None]), "a must be one matrix"),
    "a nan": (lambda: pj.symmetric_polytope(X, A * np.nan), "a must be finite"),
    "weights": (lambda: pj.hull(X, A, weights=X), r"weights must have shape \(5,\)"),
    "method": (lambda: pj.hull(X, A, method="newton"), "method must be one of 'fista'"),
    "tol": (lambda: pj.hull(X, A, tol=-1.0), "tol must be a finite number >= 0"),
    "max_steps": (lambda: pj.hull(X, A, max_steps=0), "max_steps must be an integer in"),
    "dual nan": (lambda: pj.correlation(S, dual=X * np.nan), "dual must be finite"),
    "no projection": (lambda: pj.dykstra(X, []), "at least one function"),
    "projection shape": (lambda: pj.dykstra(X, [jnp.sum]), r"projections\[0\] must return"),
}


@pytest.mark.parametrize("name", BAD)
def test_message(name):
    call, message = BAD[name]
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize(
    "call",
    [
        lambda: pj.simplex(np.array([1j, 2.0])),
        lambda: pj.simplex(np.array(["a"])),
        lambda: pj.simplex(X, "one"),
        lambda: pj.alternating_average(X, [3]),
        lambda: pj.hull(X, A, max_steps=2.5),
    ],
)
def test_types(call):
    with pytest.raises(TypeError):
        call()


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("projections", lambda: pj.dykstra(X, 3)),
        ("parallel", lambda: pj.dykstra(X, [pj.simplex], parallel=[])),
        ("at_most", lambda: pj.spectraplex(S, at_most=X)),
        ("low", lambda: pj.box(X, low="0")),
        ("high", lambda: pj.box(X, high=object())),
        ("dual", lambda: pj.correlation(S, dual="none")),
    ],
)
def test_types_are_refused_by_name(name, call):
    with pytest.raises(TypeError, match=f"{name} must be"):
        call()


def test_a_batch_of_none():
    assert pj.simplex(np.zeros((0, 3))).shape == (0, 3)
    assert pj.l1_ball(np.zeros((0, 3))).shape == (0, 3)


def test_integers_and_half_precision_are_floats():
    assert pj.simplex([3, 1]).dtype == jnp.float32
    assert pj.l2_ball(jnp.ones(3, jnp.bfloat16)).dtype == jnp.float32
