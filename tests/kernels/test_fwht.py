"""The Walsh-Hadamard transform: the matrix, the shared arguments, and the kernel for GPUs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg

from jaxdp_kernels.fwht import IMPLEMENTATIONS, fwht
from jaxdp_kernels.fwht.arg_specs import ARG_SPECS
from jaxdp_kernels.fwht.ref import fwht_ref
from jaxdp_kernels.fwht.triton import fwht_triton
from tests.lowering import lowered_for_h200

SMALL_SPECS = [spec for spec in ARG_SPECS if np.prod(spec.shape) <= 2**15]
LARGE_SPECS = [spec for spec in ARG_SPECS if np.prod(spec.shape) > 2**15]


def transform(x):
    """The transform in int64 NumPy, one bit after another."""
    x, half = np.asarray(x).astype(np.int64), 1
    shape = x.shape
    while half < shape[-1]:
        pairs = x.reshape(*shape[:-1], -1, 2, half)
        even, odd = pairs[..., 0, :], pairs[..., 1, :]
        x = np.stack([even + odd, even - odd], axis=-2).reshape(shape)
        half *= 2
    return x


@pytest.mark.parametrize("dtype", ["float32", "int32"])
@pytest.mark.parametrize("bits", [0, 1, 5, 8])
def test_is_the_hadamard_matrix(bits, dtype):
    got = fwht(jnp.eye(2**bits, dtype=dtype))
    assert got.dtype == dtype
    np.testing.assert_array_equal(got, scipy.linalg.hadamard(2**bits))


@pytest.mark.parametrize("spec", SMALL_SPECS, ids=lambda spec: spec.name)
def test_equals_the_definition(spec):
    (x,) = spec.arguments()
    got = jax.jit(fwht)(x)
    assert (got.shape, got.dtype) == (x.shape, x.dtype)
    np.testing.assert_array_equal(got, jax.jit(fwht_ref)(x))
    np.testing.assert_array_equal(got, transform(x))


@pytest.mark.slow
@pytest.mark.parametrize("spec", LARGE_SPECS, ids=lambda spec: spec.name)
def test_equals_numpy_on_large_arguments(spec):
    (x,) = spec.arguments()
    np.testing.assert_array_equal(jax.jit(fwht)(x), transform(x))


def test_doubles_in_x64(rng):
    with jax.enable_x64(True):
        x = jnp.asarray(rng.integers(-(2**40), 2**40, (2, 2**7)).astype(np.float64))
        got = np.asarray(fwht(x))
    assert got.dtype == np.float64
    np.testing.assert_array_equal(got, transform(x))


def test_rounding_is_that_of_a_sum(rng):
    """The error of float32 is a few roundings of the sum of the magnitudes."""
    x = rng.standard_normal((3, 2**11)).astype(np.float32)
    exact = scipy.linalg.hadamard(2**11) @ x.astype(np.float64).T
    error = np.abs(np.asarray(fwht(x)).T - exact).max(axis=0)
    assert (error <= 4 * np.finfo(np.float32).eps * np.sqrt(np.square(x).sum(axis=1) * 11)).all()


def test_transformations():
    (x,), run = ARG_SPECS[3].arguments(), jax.jit(fwht)
    whole = run(x)
    np.testing.assert_array_equal(run(whole), np.float32(x.shape[-1]) * x)
    np.testing.assert_array_equal(jax.jit(jax.vmap(fwht))(x), whole)
    gradient = jax.jit(jax.grad(lambda y: jnp.vdot(fwht(y), x)))(x)
    np.testing.assert_array_equal(gradient, whole)
    tangent = jax.jit(lambda y: jax.jvp(fwht, (y,), (x,))[1])(whole)
    np.testing.assert_array_equal(tangent, whole)


def test_empty_batch_and_what_is_not_a_number():
    assert fwht(jnp.zeros((0, 8))).shape == (0, 8)
    assert np.isnan(fwht(jnp.ones(256).at[3].set(jnp.nan))).all()


def test_integers_wrap():
    x = np.full(4, 2**30, np.int32)
    np.testing.assert_array_equal(fwht(x), np.zeros(4, np.int32))


@pytest.mark.parametrize(
    ("x", "implementation", "message"),
    [
        (np.zeros(6, np.float32), None, "power of two"),
        (np.zeros((4, 0), np.float32), None, "power of two"),
        (np.float32(1), None, "power of two"),
        (np.zeros(4, np.uint8), None, "dtype"),
        (np.zeros(4, np.float32), "mosaic", "implementation must be"),
    ],
)
def test_bad_arguments(x, implementation, message):
    with pytest.raises(ValueError, match=message):
        fwht(x, implementation)


def test_too_long():
    with pytest.raises(ValueError, match="power of two"):
        jax.eval_shape(fwht, jax.ShapeDtypeStruct((2**25,), jnp.float32))
    longest = jax.eval_shape(fwht, jax.ShapeDtypeStruct((2**24,), jnp.float32))
    assert longest.shape == (2**24,)


@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_lowers_for_cuda(dtype):
    shape = jax.ShapeDtypeStruct((3, 2**11), dtype)
    exported = jax.export.export(jax.jit(fwht), platforms=["cuda"])(shape)
    assert exported.platforms == ("cuda",)


@pytest.mark.parametrize(
    "shape",
    [(2, 8, 2**6), (3, 2**10), (4, 2**8), (2**12,), (2, 2**13), (2**17,), (2**19,), (2**21,)],
    ids=str,
)
def test_triton_kernels_in_interpret_mode(shape):
    """One kernel up to 2^12, two up to 2^20, and three; products of whole numbers are exact."""
    x = jax.random.randint(jax.random.key(len(shape)), shape, -7, 8).astype(jnp.float32)
    got = jax.jit(lambda y: fwht_triton(y, interpret=True))(x)
    np.testing.assert_array_equal(got, transform(x))


def test_triton_kernels_transformations():
    (x,) = ARG_SPECS[5].arguments()
    run = jax.jit(lambda y: fwht_triton(y, interpret=True))
    np.testing.assert_array_equal(
        jax.jit(jax.vmap(run))(x.reshape(4, -1, 2**8)).reshape(x.shape), run(x)
    )
    gradient = jax.jit(jax.grad(lambda y: jnp.vdot(run(y), x)))(x)
    np.testing.assert_array_equal(gradient, run(x))


def test_triton_kernels_round_as_a_sum_does(rng):
    """Three bfloat16 numbers hold all 24 bits of a float32: two of them would err by 2^-16."""
    x = rng.standard_normal((2, 2**11)).astype(np.float32)
    exact = scipy.linalg.hadamard(2**11) @ x.astype(np.float64).T
    error = np.abs(np.asarray(fwht_triton(jnp.asarray(x), interpret=True)).T - exact).max(axis=0)
    bound = 4 * np.finfo(np.float32).eps * np.sqrt(np.square(x).sum(axis=1) * 11)
    assert (error <= bound).all()
    short = (x.view(np.uint32) & np.uint32(0xFFFFFF00)).view(np.float32)  # 16 bits
    error = np.abs(scipy.linalg.hadamard(2**11) @ short.astype(np.float64).T - exact).max(axis=0)
    assert (error > bound).all()


def test_triton_kernels_pass_on_what_is_not_a_number():
    for bad in (np.nan, np.inf, -np.inf):
        x = jnp.ones(2**11).at[77].set(bad)
        assert not np.isfinite(fwht_triton(x, interpret=True)).any()


@pytest.mark.parametrize(("shape", "kernels"), [((3, 2**10), 1), ((2**14,), 2), ((2**24,), 3)])
@pytest.mark.filterwarnings("ignore:The Pallas Triton backend:DeprecationWarning")
def test_triton_kernels_lower_for_cuda(shape, kernels):
    """The transform is so many calls of Triton kernels, on any jax, without a GPU."""
    text = lowered_for_h200(jax.jit(fwht_triton), jax.ShapeDtypeStruct(shape, jnp.float32))
    assert text.count("custom_call") == text.count("__gpu$xla.gpu.triton") == kernels


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (np.zeros(2**5, np.float32), "float32 and a length"),
        (np.zeros(2**8, np.int32), "float32 and a length"),
        (np.zeros((3, 2**8), np.float32), "rows in a number that 4 divides"),
    ],
)
def test_triton_kernels_refuse_what_they_cannot_do(x, message):
    with pytest.raises(ValueError, match=f"implementation='triton' needs {message}"):
        fwht_triton(x, interpret=True)


def test_triton_kernels_have_places_of_32_bits():
    shape = jax.ShapeDtypeStruct((2**19, 2**12), jnp.float32)
    with pytest.raises(ValueError, match=r"needs fewer than 2\*\*31 entries"):
        jax.eval_shape(fwht_triton, shape)


def test_triton_needs_a_gpu():
    if jax.default_backend() == "gpu":
        (x,) = ARG_SPECS[5].arguments()
        np.testing.assert_array_equal(fwht(x, "triton"), fwht(x))
        return
    assert "triton" in IMPLEMENTATIONS
    with pytest.raises(ValueError, match="needs a GPU"):
        fwht(np.zeros(2**8, np.float32), "triton")
