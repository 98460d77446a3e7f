"""Reports of given inputs, and the numbers that events are made of."""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from numpy.typing import ArrayLike

from jaxdp_kernels import register_dataclass

from .._contract import Round, Tree, round_of
from .._spec import check_items
from ..random import Count, user_words, words
from ..randomizers import Randomizer

MAX_DECODED = 4096  # entries of an estimate, above which single reports are not decoded
SYMBOL_COLUMNS, REAL_COLUMNS = 16, 8
LARGEST = 1e150  # stands for infinity
FAR = 1e6  # stands for an infinite coordinate of a direction, which float32 has to multiply

Reporter = Callable[[jax.Array, jax.Array], Tree]
"""`(key, value) -> report`: one user's report."""


@register_dataclass
@dataclasses.dataclass(frozen=True)
class Samples:
    """What is kept of n reports of one input.

    Attributes:
      reals: name to float64[n].
      symbols: name to int64[n].
      crossed: name to int64[n] in [0, 64), the ends of a column's words, which are tried together
        with the decoded report where inputs are bins.
      fits: float64[n, m], the decoded report at each of the m inputs: its entry where these are
        bins, else its inner product with them; or None.
      projections: float64[n, m], inner products of the report with the inputs; or None.
      log_densities: float64[n, m], of each input at the report; or None.
    """

    reals: dict[str, np.ndarray]
    symbols: dict[str, np.ndarray]
    crossed: dict[str, np.ndarray]
    fits: np.ndarray | None
    projections: np.ndarray | None
    log_densities: np.ndarray | None


@dataclasses.dataclass(frozen=True)
class Sampler:
    """Draws reports in batches and reduces each batch to `Samples`.

    Attributes:
      spec: the spec, for its `log_density`; None for bare params and functions.
      params: the params, or a function.
      inputs: the inputs that are compared, stacked along axis 0.
      inside: how many of them are in the domain; they come first.
      statistics: functions of a batch of reports to float[n].
      batch: users in a batch.
    """

    spec: Randomizer[Any] | None
    params: Round[Any] | Reporter
    inputs: np.ndarray
    inside: int
    statistics: Sequence[Callable]
    batch: int

    def draw(self, key: jax.Array, index: int, num_samples: int) -> Samples:
        """Reports of the input with this index; the same key and index give the same reports."""
        stream, value = jax.random.fold_in(key, index), jnp.asarray(self.inputs[index])
        if (params := round_of(self.params)) is not None:
            report = functools.partial(_reports, params)
        else:
            report = functools.partial(_called, cast(Reporter, self.params))
        parts, start = [], 0
        while start < num_samples:
            users = Count.of(np.uint32(start)) + Count.of(lax.iota(jnp.uint32, self.batch))
            # The last batch is drawn whole and cut: one shape is one compiled program.
            reports = report(stream, users, value)
            parts.append(_first(self._reduce(reports), num_samples - start))
            start += self.batch
        return jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)

    def _reduce(self, reports: Tree) -> Samples:
        host = jax.tree.map(np.asarray, reports)
        leaves, _ = jax.tree_util.tree_flatten_with_path(host)
        named = {f"report{jax.tree_util.keystr(path)}": leaf for path, leaf in leaves}
        reals, symbols, crossed = columns(named, numbers=self.inputs.dtype == np.float32)
        reals |= apply(self.statistics, host)
        densities = None
        if self.spec is not None:
            tables = [self.spec.log_density(host, value) for value in self.inputs[: self.inside]]
            known = [column for column in tables if column is not None]
            densities = np.stack(known, axis=1) if known else None
        fits, projections = self._decode(reports), self._project(host)
        return Samples(reals, symbols, crossed, fits, projections, densities)

    def _moved(self) -> np.ndarray:
        """The inputs as directions: bins moved into the domain, and numbers made finite."""
        if np.issubdtype(self.inputs.dtype, np.integer):
            known = self.inputs[: self.inside]
            return np.clip(self.inputs, known.min(), known.max())
        return np.nan_to_num(self.inputs, posinf=FAR, neginf=-FAR)

    def _project(self, reports: Tree) -> np.ndarray | None:
        """Inner products with the inputs, where both are vectors of one size."""
        flat = self._moved().reshape(len(self.inputs), -1)
        for leaf in jax.tree.leaves(reports):
            table = leaf.reshape(len(leaf), -1)
            if flat.dtype == np.float32 and table.shape[1] == flat.shape[1]:
                return finite(table) @ flat.T.astype(np.float64)
        return None

    def _decode(self, reports: Tree) -> np.ndarray | None:
        """Each report, decoded alone, at each input."""
        params = round_of(self.params)
        if params is None:
            return None
        # The size of an estimate, without making one.
        entries = jax.eval_shape(_decode_one, params, _row(reports)).size
        directions = input_directions(self._moved(), entries)
        if directions is None or entries > MAX_DECODED:
            return None
        return np.asarray(_decoded(params, reports, directions), np.float64)


def check_statistics(given: object) -> tuple[Callable, ...]:
    """A caller's statistics as a tuple, or raises TypeError unless all are functions."""
    statistics = check_items("statistics", given, "a sequence of functions")
    for i, statistic in enumerate(statistics):
        if not callable(statistic):
            raise TypeError(f"statistics[{i}] must be a function of reports, got {statistic!r}.")
    return statistics


def apply(statistics: Sequence[Callable], batch: Tree, prefix: str = "") -> dict[str, np.ndarray]:
    """A caller's statistics of a batch, by name."""
    return {
        f"{prefix}{getattr(f, '__name__', 'statistic')} ({number})": finite(f(batch)).ravel()
        for number, f in enumerate(statistics)
    }


def finite(values: ArrayLike) -> np.ndarray:
    """As float64, 0 for NaN, and with infinities that can be multiplied and have a successor."""
    return np.clip(np.nan_to_num(np.asarray(values, np.float64)), -LARGEST, LARGEST)


def input_directions(inputs: np.ndarray, entries: int) -> np.ndarray | None:
    """A column for each input: its indicator where inputs are bins, else the input itself.

    None where estimates of this many entries are not comparable with the inputs.
    """
    flat = inputs.reshape(len(inputs), -1)
    if not np.issubdtype(flat.dtype, np.integer):
        return flat.T if flat.shape[1] == entries else None
    if flat.shape[1] > 1 or flat.min() < 0 or flat.max() >= entries:
        return None
    return (np.arange(entries)[:, None] == flat[:, 0]).astype(np.float32)


@jax.jit
def _reports(params: Round[Any], key: jax.Array, users: Count, value: jax.Array) -> Tree:
    """Reports of one value, by the words of the users."""
    if params.lazy_words:

        def report(user: Count) -> Tree:
            return params.from_bits(user_words(key, user, params.num_words), value)

        return jax.vmap(report)(users)
    rows = words(key, users[0], users.shape[0], params.num_words)
    return jax.vmap(params.from_bits, in_axes=(-1, None))(rows, value)


@functools.partial(jax.jit, static_argnums=0)
def _called(function: Reporter, key: jax.Array, users: Count, value: jax.Array) -> Tree:
    """Reports of one value by a function, a key for each user."""
    # There are at most 2**31 samples, so the lower limb is the number of the user.
    keys = jax.vmap(lambda user: jax.random.fold_in(key, user))(users.lo)
    return jax.vmap(function, in_axes=(0, None))(keys, value)


def _row(reports: Tree) -> Tree:
    """The shape of one report of a batch."""
    return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), reports)


def _decode_one(params: Round[Any], report: Tree) -> jax.Array:
    """The estimate from one report, flat."""
    estimate = params.estimate(params.tally(jax.tree.map(lambda x: x[None], report)))
    return jnp.concatenate([jnp.ravel(x) for x in jax.tree.leaves(estimate)])


@jax.jit
def _decoded(params: Round[Any], reports: Tree, directions: jax.Array | np.ndarray) -> jax.Array:
    """Each report alone, decoded, along each direction; float32[n, m]."""

    def one(report):
        flat = jnp.nan_to_num(_decode_one(params, report)).astype(jnp.float32)
        return jnp.matmul(flat, directions, precision="highest")

    # As many estimates at a time as have about 2**20 entries together.
    return lax.map(one, reports, batch_size=max(2**20 // len(directions), 1))


def columns(
    reports: Mapping[str, np.ndarray], numbers: bool
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Columns of the reports, by name: as numbers, as symbols, and as the ends of words.

    Args:
      reports: the arrays of a batch, by name.
      numbers: whether integers are looked at as numbers too.
    """
    reals, symbols, crossed = {}, {}, {}
    for name, leaf in reports.items():
        table = leaf.reshape(len(leaf), -1)
        names = [name] if leaf.ndim == 1 else [f"{name}[{j}]" for j in range(table.shape[1])]
        floats = np.issubdtype(leaf.dtype, np.floating)
        if floats or numbers:
            entries = finite(table)
            reals.update(zip(names[:REAL_COLUMNS], entries.T, strict=False))
            if leaf.ndim > 1:
                reals[f"|{name}|"] = _to_16_bits(np.linalg.norm(entries, axis=1))
        if floats:
            # Samplers of floats can betray a value by exact zeros, and by what is not finite.
            symbols[f"{name} is zero"] = np.all(table == 0, axis=1).astype(np.int64)
            symbols[f"{name} is finite"] = np.all(np.isfinite(table), axis=1).astype(np.int64)
        else:
            whole = table.astype(np.int64)
            symbols.update(zip(names[:SYMBOL_COLUMNS], whole.T, strict=False))
            if leaf.ndim > 1:
                symbols[f"{name} as a whole"] = hashed(whole)
            if not numbers:
                ends = (whole >> 26) & 56 | whole & 7  # bits 29 to 31 and 0 to 2
                crossed.update(zip(names[:REAL_COLUMNS], ends.T, strict=False))
        if leaf.dtype != np.bool_:
            last = last_bits(table)
            lows = [f"last bits of {n}" for n in names[:REAL_COLUMNS]]
            symbols.update(zip(lows, last.T, strict=False))
            if leaf.ndim > 1:
                # A parity of many coordinates is fair as soon as any of them is, taken alone.
                symbols[f"parity of {name}"] = np.bitwise_xor.reduce(last & 1, axis=1)
    return reals, symbols, crossed


def last_bits(table: np.ndarray) -> np.ndarray:
    """The low end of each number: its last three bits in memory, and the place of the last one set.

    A flag may be hidden there. And a float plus float noise is a multiple of what the float can
    resolve, which may be coarser than the noise (Mironov 2012): for floats the place is absolute.
    """
    bits = np.ascontiguousarray(table).view(f"u{table.dtype.itemsize}").astype(np.uint64)
    lowest = bits & (~bits + np.uint64(1))
    place = np.log2(np.maximum(lowest, 1).astype(np.float64)).astype(np.int64)  # exact powers
    if np.issubdtype(table.dtype, np.floating):
        place += np.frexp(finite(table))[1]
    return (bits & np.uint64(7)).astype(np.int64) + 8 * np.where(bits > 0, place, 64)


def _to_16_bits(numbers: np.ndarray) -> np.ndarray:
    """Numbers rounded relatively: the last bits of a constant norm tell how floats are rounded."""
    fractions, exponents = np.frexp(numbers)
    return np.ldexp(np.rint(fractions * 2**16), exponents - 16)


def hashed(table: np.ndarray) -> np.ndarray:
    """One number for each row; rows that collide make an event weaker, never wrong."""
    multipliers = np.random.default_rng(0).integers(1, 2**62, table.shape[1]) * 2 + 1
    with np.errstate(over="ignore"):
        return (table + 1) @ multipliers


def _first(samples: Samples, size: int) -> Samples:
    return jax.tree.map(lambda leaf: leaf[:size], samples)
