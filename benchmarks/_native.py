"""Frequency oracles by hand, in C++ (`native/by_hand.cpp`): the limit that a user could reach."""

import atexit
import ctypes
import functools
import os
import pathlib
import shutil
import subprocess
import tempfile

import jax
import numpy as np

from jaxdp.randomizers import KRR

SOURCE = pathlib.Path(__file__).parent / "native" / "by_hand.cpp"
_FLAGS = ("-O3", "-march=native", "-std=c++17", "-shared", "-fPIC")
_WISHES = (("-fopenmp", "-mprefer-vector-width=512"), ("-fopenmp",), ())
"""Flags that not every compiler knows, in the order in which they are tried."""

HASH_BITS = 2
"""Local hashing in C++ has 2**HASH_BITS buckets: 4 are best at ε = 1."""


@functools.cache
def _library() -> ctypes.CDLL:
    """The compiled functions; an ImportError says why there are none."""
    names = (os.environ.get("CXX"), "g++", "clang++", "c++")
    compiler = next((path for name in names if name and (path := shutil.which(name))), None)
    if compiler is None:
        raise ImportError("no C++ compiler; install one, or name it in CXX")
    folder = pathlib.Path(tempfile.mkdtemp(prefix="jaxdp-native-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    said = ""
    for wishes in _WISHES:
        command = [compiler, *_FLAGS, *wishes, str(SOURCE), "-o", str(folder / "by_hand.so")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return ctypes.CDLL(str(folder / "by_hand.so"))
        said = said or done.stderr.strip().split("\n")[0]
    raise ImportError(f"{compiler} does not compile {SOURCE.name}: {said}")


@functools.cache
def missing() -> str | None:
    """Why there is nothing compiled; None if there is."""
    try:
        _library()
    except ImportError as error:
        return str(error)
    return None


def _counted(name: str, values: np.ndarray, k: int, *numbers: int, key: jax.Array) -> np.ndarray:
    """What a function of the library counts of each of k values, int64[k]."""
    if values.size and not (values.min() >= 0 and values.max() < k):
        raise ValueError(f"values must be in [0, {k}).")
    values = np.ascontiguousarray(values, np.int32)
    counts = np.empty(k, np.uint64)
    function = getattr(_library(), name)
    function.restype = None
    function(
        values.ctypes.data_as(ctypes.c_void_p),
        ctypes.c_uint64(values.size),
        *(ctypes.c_uint32(int(x)) for x in (k, *numbers, *jax.random.key_data(key))),
        counts.ctypes.data_as(ctypes.c_void_p),
    )
    return counts.astype(np.int64)


def krr_counts(spec: KRR, values: np.ndarray, key: jax.Array) -> np.ndarray:
    """The counts of reports, int64[k]: those of `KRR` for the words of the same stream."""
    threshold = int(spec.build().threshold)
    return _counted("krr_counts", values, spec.num_values, threshold, key=key)


def krr(spec: KRR, values: np.ndarray, seed: int) -> np.ndarray:
    """Estimated counts, float64[k]."""
    p, q = map(float, spec.probabilities())
    return (krr_counts(spec, values, jax.random.key(seed)) - values.size * q) / (p - q)


def local_hashing(values: np.ndarray, k: int, epsilon: float, seed: int) -> np.ndarray:
    """Estimated counts by local hashing into `2**HASH_BITS` buckets, float64[k]."""
    buckets = KRR(2**HASH_BITS, epsilon)
    threshold, key = int(buckets.build().threshold), jax.random.key(seed)
    support = _counted("local_hashing_support", values, k, HASH_BITS, threshold, key=key)
    p, q = float(buckets.probabilities()[0]), 1 / 2**HASH_BITS
    return (support - values.size * q) / (p - q)
