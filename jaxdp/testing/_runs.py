"""Checks of runs: the same bits for any cut into blocks, and however they are compiled."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._contract import Params, Tree
from ..engine import outcome, run, simulate
from ..population import Population
from ..random import Count, Stream, merge, user_words
from ._subject import Method, Subject, T, check, given

SHARES = ((2**9, 8), (2**13, 2), (2**15, 1), (2**16, 4))
"""Block sizes, below a tile of users and above, and the numbers of devices they go with."""


def _equal(actual: Tree, expected: Tree, what: str) -> None:
    """Asserts equal leaves."""
    assert jax.tree.structure(actual) == jax.tree.structure(expected), what
    for mine, other in zip(jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True):
        np.testing.assert_array_equal(np.asarray(mine), np.asarray(other), err_msg=what)


def _as_arrays(subject: Subject, counts: np.ndarray) -> Population | None:
    """The users one by one, in the order of the bins; None where values are pytrees."""
    if subject.inputs is not None and not isinstance(subject.values, np.ndarray):
        return None
    array = np.repeat(subject.values, counts, axis=0)
    return Population.from_values(
        array, num_values=None if subject.inputs is not None else len(counts)
    )


def _in_turn(subject: Subject, size: int) -> Tree:
    """The values of as many users, who hold the rows in turn."""
    index = np.arange(size) % len(subject.counts)
    return jax.tree.map(lambda x: jnp.asarray(x[index]), subject.values)


@check("protocol", lambda s: s.round is not None)
def tallies_merge(subject: Subject) -> None:
    """Reports cut in two anywhere, or sorted out by a mask: the merged tallies are the whole's.

    Bit for bit, and in either order.
    """
    params, key = given(subject.round), subject.stream("tallies_merge")
    size = 60
    held = _in_turn(subject, size)
    words = jax.random.bits(key, (size, params.num_words), jnp.uint32)
    reports = jax.jit(jax.vmap(params.from_bits))(words, held)
    mask = jax.random.bernoulli(key, 0.4, (size,))

    @jax.jit
    def tallies(reports: Tree) -> tuple[Tree, dict[str, Tree]]:
        parts = {
            "sorted out by a mask": (params.tally(reports, mask), params.tally(reports, ~mask))
        }
        for cut in (1, 23):
            first, rest = (
                jax.tree.map(lambda x, at=at: x[at], reports)
                for at in (slice(cut), slice(cut, None))
            )
            parts[f"cut after {cut} reports"] = params.tally(first, None), params.tally(rest, None)
        merged = {what: merge(*pair) for what, pair in parts.items()}
        merged |= {f"{what}, the other way round": merge(*p[::-1]) for what, p in parts.items()}
        return params.tally(reports, None), merged

    whole, merged = tallies(reports)
    for what, parts in merged.items():
        _equal(parts, whole, what)


@check("protocol", lambda s: s.round is not None)
def outcome_is_the_tally_of_the_reports(subject: Subject) -> None:
    """The outcome of the per-user path is `tally` of what `from_bits` makes of the users' words.

    The definition of a run, written out: the words of user u are those of its number in the stream
    of the round. The estimate is `estimate` of the outcome. Bit for bit; where reports are rounded
    from floats, the estimates are compared.
    """
    params, key = given(subject.round), subject.stream("outcome_is_the_tally_of_the_reports")
    population = subject.population
    users = jnp.arange(population.num_users, dtype=jnp.uint32)
    stream = jax.random.fold_in(key, Stream.ROUND)

    def report(user: jax.Array, value: Tree) -> Tree:
        words = user_words(stream, Count.of(user), params.num_words)
        # As the engine hands them over.
        return params.from_bits(words if params.lazy_words else words[:], value)

    values = population.at(np.arange(population.num_users))
    reports = jax.jit(jax.vmap(report))(users, values)
    with jax.enable_x64(True):
        expected = jax.tree.map(np.asarray, jax.jit(params.tally)(reports, None))
        estimate = np.asarray(jax.jit(_estimate)(params, expected))
    if not subject.floats:
        played = outcome(subject.spec, population, key, method="per_user")
        _equal(played, expected, "the outcome")
    subject.close(run(subject.spec, population, key, method="per_user"), estimate)


def _estimate(params: Params[T], played: T) -> Any:
    return params.estimate(played)


@check("protocol")
def estimate_is_that_of_the_outcome(subject: Subject) -> None:
    """`run` gives `estimate` of what `outcome` gives for the same key, bit for bit."""
    population, key = subject.population, subject.stream("estimate_is_that_of_the_outcome")
    for method in subject.paths:
        played = outcome(subject.spec, population, key, method=method)
        with jax.enable_x64(True):
            finish = jax.jit(_estimate) if subject.params.traceable else _estimate
            expected = np.asarray(finish(subject.params, played))
        np.testing.assert_array_equal(run(subject.spec, population, key, method=method), expected)


@check("protocol")
def bits_do_not_depend_on_blocks_and_devices(
    subject: Subject,
    *,
    kinds: tuple[str, ...] = ("values", "histogram", "distribution"),
    shares: tuple[tuple[int, int], ...] = SHARES,
) -> None:
    """The same estimate, bit for bit, for any block size and any number of devices there are.

    Where reports are rounded from floats, programs of other shapes may round some otherwise: then
    estimates are compared as far as `Subject.close` says.

    Args:
      subject: what is checked; with 71 times the users, so that there are several blocks.
      kinds: of the population.
      shares: users in a block, and how many devices; all there are where there are fewer.
    """
    key = subject.stream("bits_do_not_depend_on_blocks_and_devices")
    spec, counts = subject.spec, subject.counts * 71
    total = int(counts.sum())
    populations = {
        "values": lambda: _as_arrays(subject, counts),
        "histogram": lambda: Population.from_histogram(counts, subject.inputs),
        "distribution": lambda: Population.from_distribution(counts / total, total, subject.inputs),
    }
    for kind in kinds:
        users = populations[kind]()
        if users is None:
            continue
        expected = run(spec, users, key, method="per_user")
        for size, devices in shares:
            mesh = _mesh(min(devices, jax.device_count()))
            found = run(spec, users, key, method="per_user", block_size=size, mesh=mesh)
            subject.same(found, expected, f"{kind}, blocks of {size} on {devices} devices")


def _mesh(number: int, axis: str = "users") -> jax.sharding.Mesh:
    auto = (jax.sharding.AxisType.Auto,)
    return jax.make_mesh((number,), (axis,), axis_types=auto, devices=jax.devices()[:number])


@check("protocol", lambda s: s.inputs is None or isinstance(s.values, np.ndarray))
def given_users_are_the_counted_ones(subject: Subject) -> None:
    """An array in the order of the bins is the population of its histogram, user by user."""
    key = subject.stream("given_users_are_the_counted_ones")
    given = _as_arrays(subject, subject.counts)
    assert given is not None
    subject.same(
        run(subject.spec, given, key, method="per_user"),
        run(subject.spec, subject.population, key, method="per_user"),
    )


@check("protocol")
def trials_are_runs(subject: Subject) -> None:
    """Trial t of `simulate` is the run with the key folded with t, in batches of any size.

    On both paths it is so too where trials are split over up to four devices.
    """
    spec, population = subject.spec, subject.population
    key = subject.stream("trials_are_runs")
    trials = simulate(spec, population, key, num_trials=7, method="per_user")
    again = simulate(spec, population, key, num_trials=7, method="per_user", trial_batch=2)
    subject.close(again.estimates, trials.estimates)
    mesh = _mesh(min(4, jax.device_count()), "trials")
    for method in subject.paths:
        whole = simulate(spec, population, key, num_trials=7, method=method)
        split = simulate(spec, population, key, num_trials=7, method=method, mesh=mesh)
        subject.same(split.estimates, whole.estimates, f"{method}, trials split over devices")
    for t in (0, 6):
        alone = run(spec, population, jax.random.fold_in(key, t), method="per_user")
        subject.close(trials.estimates[t], alone)


@check("protocol", lambda s: s.params.traceable)
def runs_agree_inside_jit_and_vmap(subject: Subject) -> None:
    """Compiled by the caller, and vmapped over keys: the same estimates up to float32."""
    spec, population = subject.spec, subject.population
    keys = jax.random.split(subject.stream("runs_agree_inside_jit_and_vmap"), 3)
    for method in subject.paths:

        def once(population: Population, key: jax.Array, method: Method = method) -> Any:
            return run(spec, population, key, method=method)

        alone = np.stack([run(spec, population, k, method=method) for k in keys])
        inside = jax.jit(jax.vmap(once, in_axes=(None, 0)))(population, keys)
        # A 32-bit program of the caller has no float64 to return.
        assert inside.dtype == np.float32
        subject.close(inside, alone, 1e-6, method)


@check("protocol")
def results_do_not_depend_on_the_x64_flag(subject: Subject) -> None:
    """The same float64 bits with jax's 64-bit mode and without."""
    population, key = subject.population, subject.stream("results_do_not_depend_on_the_x64_flag")
    narrow = run(subject.spec, population, key)
    with jax.enable_x64(True):
        wide = run(subject.spec, population, key)
    assert narrow.dtype == wide.dtype == np.float64
    np.testing.assert_array_equal(narrow, wide)


@check("protocol")
def runs_agree_however_they_are_made(subject: Subject, *, methods: Sequence[Method] = ()) -> None:
    """The first of many trials is the run of its key, compiled by the caller in 64-bit mode.

    The run has the params in place of the spec. On the per-user path it also takes its users one
    by one, unless their values are pytrees, in blocks of 32 on all devices but one. Estimates are
    equal but for the last digits of a program's sums, and have the shape of the truth.

    Args:
      subject: what is checked.
      methods: the paths; all of them if there are none given.
    """
    for method in methods or subject.paths:
        trials, population, options = subject.simulated(method), subject.population, {}
        if method == "per_user":
            population = _as_arrays(subject, subject.counts) or population
            # A number that is no power of two, as blocks are.
            devices = max(jax.device_count() - 1, 1)
            options = dict(mesh=_mesh(devices), block_size=2**5)

        def once(
            population: Population,
            key: jax.Array,
            method: Method = method,
            options: dict[str, Any] = options,
        ) -> Any:
            return run(subject.params, population, key, method=method, **options)

        with jax.enable_x64(True):
            made = jax.jit(once) if subject.params.traceable else once
            found = np.asarray(made(population, jax.random.fold_in(subject.stream(method), 0)))
        assert trials.truth is not None, "the spec gives no truth"
        assert found.shape == np.shape(trials.truth), f"{method}: not the shape of the truth"
        subject.close(trials.estimates[0], found, what=method)


@check("protocol", lambda s: s.round is not None)
def reports_agree_under_every_transformation(
    subject: Subject, *, without_jit: bool = False
) -> None:
    """Reports under vmap are those of a loop, bit for bit; one in a hundred off by one for floats.

    Args:
      subject: what is checked.
      without_jit: whether to compare with operations that are compiled one by one, too.
    """
    params, key = given(subject.round), subject.stream("reports_agree_under_every_transformation")
    held = _in_turn(subject, 40)
    words = jax.random.bits(key, (40, params.num_words), jnp.uint32)
    batched = jax.jit(jax.vmap(params.from_bits))(words, held)
    looped = jax.jit(lambda: jax.lax.map(lambda wv: params.from_bits(*wv), (words, held)))()
    _same_reports(subject, looped, batched)
    if without_jit:
        _same_reports(subject, jax.vmap(params.from_bits)(words, held), batched)
        first = jax.tree.map(lambda x: x[0], (words, held, batched))
        _same_reports(subject, params.from_bits(first[0], first[1]), first[2])


def _same_reports(subject: Subject, actual: Tree, expected: Tree) -> None:
    for mine, other in zip(jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True):
        if not subject.floats:
            np.testing.assert_array_equal(mine, other)
        elif jnp.issubdtype(other.dtype, jnp.floating):
            np.testing.assert_allclose(mine, other, rtol=1e-5, atol=1e-6 * np.abs(other).max())
        else:
            # In 64 bits, where differences of words do not wrap.
            apart = np.abs(np.asarray(mine, np.int64) - np.asarray(other, np.int64))
            assert apart.max() <= 1, f"reports differ by {apart.max()}"
            assert (apart > 0).mean() <= 0.01, f"{(apart > 0).mean():.1%} of the entries differ"
