"""Running a protocol: once, or in many trials."""

import dataclasses
import functools
import math
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

import jax
import jax.extend.core
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.custom_derivatives import SymbolicZero

from .._contract import Params, Runnable, work_of
from .._meshes import on_auto_axes, traced_on_auto_axes
from .._spec import Tree, check_int, check_items, is_traced, physical_memory
from ..population import DistributionSource, Population
from ._cast import Cast, cast_of
from ._config import (
    Config,
    Implementation,
    Mesh,
    Method,
    Rounds,
    bounded,
    build_params,
    configure,
    for_trials,
    prepare,
)
from ._play import play, play_on_host
from ._programs import OwnProgram, on_all_cores, while_tracing
from ._progress import progress_bar
from ._trials import Trials
from ._truth import check_given, find_truth, known_histogram, truth_kind

T = TypeVar("T")

_CHUNK_LIMBS = 2**26  # 32-bit numbers of tallies, or of estimates, that a device keeps at once
_CHUNK_TRIALS = 2**14  # compiled trials hear no interrupt: not more than some seconds of them
_LONG = 5e7  # nanoseconds of draws, which are worth the start of threads
_BATCH_NUMBERS = 2**22  # of the outcomes and the estimates that an accelerator makes at once,
_BATCH_TRIALS = 2**10  # of not more trials than these


@on_auto_axes
def run(
    protocol: Runnable,
    population: Population,
    key: jax.Array,
    *,
    method: Method = "auto",
    mesh: Mesh = None,
    block_size: int | None = None,
    rounds: Rounds = 20,
    implementation: Implementation = None,
) -> Any:
    """Runs a protocol once over all users.

    Usable inside jit and vmap, where nothing is checked beyond shapes: pass the population and the
    key, and the protocol's params (`spec.build()`) if they vary, as arguments. An interactive
    protocol that calls Python between its rounds (`traceable=False`) is not; its rounds are
    compiled, once.

    Args:
      protocol: a randomizer's or protocol's spec, or its params.
      population: the users.
      key: a typed threefry key.
      method: "per_user" simulates every user; "tally" draws the tally at once, exact in law, where
        every round has a `law`; "auto" does so where it expects that to take half the time or less.
      mesh: devices to split the users over, along all axes of a mesh, "trials" included; "local"
        for all devices of this process; None for one device.
      block_size: users per block, a power of two; None for a good default. Tallies are the same
        bits for every mesh and block size, but for reports that are rounded from floats (sphere
        mechanisms), of which a few may move by one grid step from one program to another.
      rounds: of threefry2x32, the cipher that makes the words of the users' reports: 20, or 13,
        which make other words in two thirds of the time. 13 rounds are for simulation only: they
        have no known flaw, but a thin margin (see `jaxdp_kernels.threefry_words.StreamKey`), and
        the privacy of real reports rests on 20. Random users, their groups, and tallies that are
        drawn at once always take 20.
      implementation: of the per-user path on an NVIDIA GPU. "kernel" for one kernel that makes
        the reports and counts them (`jaxdp_kernels.randomize_and_tally`), or adds them
        (`jaxdp_kernels.randomize_and_sum`), on chip; "xla" for the programs of XLA; None for the
        kernel from Hopper on, where a call has 2**28 users whose reports are counted, or adds
        2**33 numbers. The bits are the same (of rounded floats, all but the few above): before a
        process first uses the kernel for a kind of reports, its tally is compared with XLA's.

    Returns:
      The estimate: NumPy float64, or a jax array of the caller's precision inside jit.

    Raises:
      ValueError: the population does not fit the protocol, or an option is out of range, or an
        implementation is asked for that the device does not have.
      RuntimeError: the kernel is asked for, and has another tally than XLA, or does not run.
      TypeError: an argument is of the wrong kind, such as a legacy key; or a derivative is taken,
        of which reports, being integers, leave nothing.

    Example:
      >>> import jax, jaxdp
      >>> pop = jaxdp.Population.from_histogram([600_000, 300_000, 100_000])
      >>> krr = jaxdp.randomizers.KRR(num_values=3, epsilon=2.0)
      >>> estimate = jaxdp.run(krr, pop, jax.random.key(0))
      >>> bool(abs(estimate - pop.counts().numpy()).max() < 10_000)
      True
    """
    params = prepare(protocol, population, key)
    config = configure(params, population, method, mesh, block_size, rounds, implementation)
    population = bounded(population, config)
    if _inside_transformation(params, population, key):  # compiled, also under a bare vmap
        if not params.traceable:
            raise TypeError(
                f"{type(params).__name__} calls Python between its rounds and cannot be traced; "
                "run it outside of jit and vmap, or build it with traceable=True where what it "
                "calls is written in jax."
            )
        params, population = _refuse_derivatives(*_copied((params, population)))

        def whole(params, population, key):
            return _estimate_compiled(params, _play_compiled(params, population, key, config)[0])

        program = functools.partial(_without_varying_types, whole)
        return traced_on_auto_axes(program, params, population, key)
    found, _ = _play_once(params, population, key, config)
    finish = _estimate_compiled if params.traceable else _estimate
    with jax.enable_x64(True):
        return jax.tree.map(np.asarray, _where(config.host, finish)(params, found))


@on_auto_axes
def outcome(
    protocol: Runnable,
    population: Population,
    key: jax.Array,
    *,
    method: Method = "auto",
    mesh: Mesh = None,
    block_size: int | None = None,
    rounds: Rounds = 20,
    implementation: Implementation = None,
) -> Any:
    """The outcome of a run before it is reduced to the estimate, on the host.

    Args:
      protocol: as in `run`.
      population: as in `run`.
      key: as in `run`; the same key gives the outcome of the same run.
      method: as in `run`.
      mesh: as in `run`.
      block_size: as in `run`.
      rounds: as in `run`.
      implementation: as in `run`.

    Returns:
      The tally, or what an interactive protocol's `play` returned; its leaves are NumPy arrays.
    """
    params = prepare(protocol, population, key)
    config = configure(params, population, method, mesh, block_size, rounds, implementation)
    return _play_once(params, bounded(population, config), key, config)[0]


@on_auto_axes
def simulate(
    protocol: Runnable,
    population: Population,
    key: jax.Array,
    *,
    num_trials: int,
    first_trial: int = 0,
    method: Method = "auto",
    mesh: Mesh = None,
    block_size: int | None = None,
    rounds: Rounds = 20,
    implementation: Implementation = None,
    trial_batch: int | None = None,
    truth: Any = None,
    progress: bool = False,
) -> Trials:
    """Runs a protocol in many independent trials.

    Trial t has the key `jax.random.fold_in(key, t)`: on the per-user path its estimate is that of
    `run` with that key. Protocols that call Python between their rounds run a trial at a time.

    The axis of a mesh that is called "trials" splits the trials, and all others split the users of
    each trial: `jax.make_mesh((8,), ("trials",))` runs 8 trials at a time, and
    `jax.make_mesh((2, 4), ("trials", "users"))` two, each over four devices. No device waits for
    another one's trials; users cost a sum over their devices in each round. Every device of
    "trials" needs all users. Tallies that are drawn at once take all axes for trials, unless the
    users lie split over some; protocols that call Python take all axes for users.

    Args:
      protocol: a randomizer's or protocol's spec, or its params.
      population: the users; the same in every trial, but for `from_distribution`.
      key: a typed threefry key.
      num_trials: how many trials, at least 1.
      first_trial: the number of the first one. Trials `first_trial` to `first_trial + num_trials -
        1` are the same bits as in a call that runs more of them, where those of `mesh` are: so
        machines can share the trials of one key.
      method: as in `run`.
      mesh: devices to split trials and users over, as above; "local" for trials over all devices of
        this process; None for one device. The results are the same bits for every mesh, and in
        every process of it, where those of `run` are; on accelerators but for last digits of what
        estimates compute in floats.
      block_size: as in `run`.
      rounds: as in `run`.
      implementation: as in `run`.
      trial_batch: how many trials run side by side on a device, or on the devices that share their
        users; None for as many as a core's cache holds on CPU, and elsewhere for so many that they
        take a quarter of the device's memory at most.
      truth: what errors are measured against. "sample": the statistic of the users at hand, the
        default for given users. "population": that of the distribution they are drawn from, the
        default for `from_distribution`. Or an array.
      progress: whether to show a progress bar over trials; needs the extra `sweep`.

    Returns:
      The `Trials`; with the labels of the population, if it has any, where the entries of the
      estimate of a spec are of its bins.

    Raises:
      ValueError: the population does not fit the protocol, or an option is out of range.
      TypeError: an argument is of the wrong kind, or is traced; inside jit use
        `jax.vmap(lambda k: jaxdp.run(protocol, population, k))`.

    Example:
      >>> import jax, jaxdp
      >>> pop = jaxdp.Population.from_distribution([0.5, 0.3, 0.2], num_users=10**12)
      >>> krr = jaxdp.randomizers.KRR(num_values=3, epsilon=1.0)
      >>> trials = jaxdp.simulate(krr, pop, jax.random.key(1), num_trials=100)
      >>> trials.estimates.shape, trials.method
      ((100, 3), 'tally')
    """
    num_trials = check_int("num_trials", num_trials, low=1, high=2**32 - 1)
    first_trial = check_int("first_trial", first_trial, low=0, high=2**32 - num_trials)
    if trial_batch is not None:
        trial_batch = check_int("trial_batch", trial_batch, low=1)
    params = prepare(protocol, population, key)
    if _inside_transformation(params, population, key):
        raise TypeError(
            "simulate runs on the host and cannot be traced; inside jit use "
            "jax.vmap(lambda k: jaxdp.run(protocol, population, k))(keys)."
        )
    config = configure(
        params, population, method, mesh, block_size, rounds, implementation, num_trials
    )
    population = bounded(population, config)
    source = population.source
    if truth is None:
        truth = "population" if isinstance(source, DistributionSource) else "sample"
    want = truth_kind(protocol, population, truth, params.has_target)
    config = dataclasses.replace(config, want_counts=want == "each")
    cast = cast_of(params, population, config)
    config = for_trials(config, cast.params, cast.population, trial_batch)
    if want == "given" and params.traceable:
        truth = check_given(truth, _estimate_shape(params, cast, key, config), num_trials)
    users = (None, None)
    if params.has_target:
        users = known_histogram(population, want), population.inputs
    span = range(first_trial, first_trial + num_trials)
    estimates, targets, counts = _run_trials(params, cast, key, span, config, progress, users)
    if want == "given":
        truth = check_given(truth, estimates.shape[1:], num_trials)
    if targets is None:
        targets = find_truth(protocol, population, truth, want, counts)
    estimates = np.asarray(estimates, np.float64)
    named = population.labels is not None and protocol.answers_bins
    labels = population.labels if named else None
    return Trials(estimates, targets, config.method, population.num_users, labels)


def stack(specs) -> Any:
    """The params of several specs in one pytree with a leading axis, for `jax.vmap`.

    A grid of epsilons is one compilation:
    `jax.vmap(lambda p: jaxdp.run(p, population, key))(jaxdp.stack(specs))`.

    Args:
      specs: specs whose params have one structure and equal shapes.

    Returns:
      Params whose leaves have a leading axis of `len(specs)`.

    Raises:
      ValueError: there are no specs, or their structures or shapes differ.

    Example:
      >>> import jaxdp
      >>> grid = jaxdp.stack([jaxdp.randomizers.KRR(4, epsilon) for epsilon in (0.5, 1.0, 2.0)])
      >>> grid.threshold.shape
      (3,)
    """
    specs = check_items("specs", specs, "a sequence of specs")
    built = [build_params(spec, f"specs[{i}]") for i, spec in enumerate(specs)]
    if not built:
        raise ValueError("specs must hold at least one spec.")
    first = jax.tree.structure(built[0])
    shapes = [np.shape(leaf) for leaf in jax.tree.leaves(built[0])]
    for spec, params in zip(specs, built, strict=True):
        same = jax.tree.structure(params) == first
        if not same or [np.shape(leaf) for leaf in jax.tree.leaves(params)] != shapes:
            raise ValueError(
                f"specs must have params of one structure, but {spec} differs from {specs[0]}; pin "
                "the fields that set shapes, such as num_values, or run them one by one."
            )
    return jax.tree.map(lambda *leaves: np.stack([np.asarray(x) for x in leaves]), *built)


def _inside_transformation(*arguments: Tree) -> bool:
    """Whether the caller is inside jit, or has given values that a transformation follows."""
    return is_traced((arguments, jnp.zeros(())))


def _copied(tree: T) -> T:
    """The tree, its NumPy arrays copied.

    jax remembers, for one and the same array, the constant it became while tracing: of 32 bits in
    the caller's program, and wrong for a later run outside of it, which computes in 64.
    """
    return jax.tree.map(lambda x: x.copy() if isinstance(x, np.ndarray) else x, tree)


@jax.custom_jvp
def _refuse_derivatives(*arguments: Tree) -> Tree:
    """The arguments; a TypeError where a derivative is taken with respect to a number of theirs."""
    return arguments


@functools.partial(_refuse_derivatives.defjvp, symbolic_zeros=True)
def _refuse(primals: Tree, tangents: Tree) -> Tree:
    if all(isinstance(tangent, SymbolicZero) for tangent in jax.tree.leaves(tangents)):
        return primals, tangents
    raise TypeError(
        "jaxdp.run cannot be differentiated: reports are integers, so that its derivatives would "
        "be 0. What can be: the estimate of a given tally, "
        "params.estimate(jaxdp.engine.outcome(protocol, population, key)), and jaxdp.projections; "
        "or hold an argument fixed by jax.lax.stop_gradient."
    )


def _without_varying_types(function: Callable[..., T], *arguments: Tree) -> T:
    """`function`, whose loops may begin with constants, inside `shard_map` with its default check.

    The check has every loop begin with values that vary over the mesh as its later ones do. The
    program is traced on values that do not vary, and only its results are said to.
    """
    axes = frozenset[str]().union(
        *(jax.typeof(x).manual_axis_type.varying for x in jax.tree.leaves(arguments))
    )
    if not axes:
        return function(*arguments)
    shapes = jax.tree.map(
        lambda x: jax.ShapeDtypeStruct(jnp.shape(x), jnp.result_type(x)), arguments
    )
    program, shape = jax.make_jaxpr(function, return_shape=True)(*shapes)
    found = jax.extend.core.jaxpr_as_fun(program)(*jax.tree.leaves(arguments))
    found = lax.pcast(found, tuple(axes), to="varying")
    return jax.tree.unflatten(jax.tree.structure(shape), found)


def _play_once(params, population, key, config: Config):
    """`play`, with NumPy leaves: one program takes them from there, whatever devices made them."""
    params, population, key = _host_arrays(config.mesh, (params, population, key))
    drawn_on_host = config.host and config.method == "tally"
    if not params.traceable:
        return _where(drawn_on_host, play_on_host)(params, population, key, config)
    with jax.enable_x64(True):
        program = _where(drawn_on_host, OwnProgram(play, config))
        return jax.tree.map(np.asarray, program(params, population, key))


def _where(host: bool, function: Callable[..., T]) -> Callable[..., T]:
    """A function as it is, or called on the host's CPU, whatever device jax computes on."""
    if not host:
        return function
    (device, *_) = jax.local_devices(backend="cpu")

    def called(*arguments: Tree) -> T:
        moved = jax.tree.map(
            lambda x: jax.device_put(x, device) if isinstance(x, jax.Array) else x, arguments
        )
        with jax.default_device(device):
            return function(*moved)

    return called


def _finish(params, users, outcome, counts):
    """The estimate of an outcome, and its target where params have one (else None).

    Args:
      params: of the trials.
      users: the histogram, None where each trial has its own, and what its bins stand for.
      outcome: of a trial.
      counts: of its users; None where all have one histogram, or params have no target.
    """
    histogram, inputs = users
    found = params.estimate(outcome)
    if counts is not None:
        histogram = counts.f64() / jnp.sum(counts.f64())
    return found, None if histogram is None else params.target(outcome, histogram, inputs)


def _estimate(params: Params[Any], outcome: Tree) -> Tree:
    return params.estimate(outcome)


_play_compiled = jax.jit(play, static_argnames="config")
# Inlined: a program of trials is cut between the equations of one.
_play_trial = jax.jit(play, static_argnames="config", inline=True)
_estimate_compiled = jax.jit(_estimate)


def _play_trials(params, population, key, trials, config: Config):
    """The outcomes, and the true counts where the config wants them, of some trials.

    Where trials are split over a mesh their number is a multiple of that of the parts, and so are
    the results; between the parts there is no collective.
    """

    def share(params, population, key, trials):
        def trial(t):
            # As the call that asked for its shapes: traced once.
            return _play_trial(params, population, jax.random.fold_in(key, t), config=config)

        number, batch = trials.shape[0], config.trial_batch
        if batch is not None and batch >= number:
            return jax.vmap(trial)(trials)
        if batch is None or batch == 1:
            return lax.map(trial, trials)
        # Batches of equal size: a last, smaller one would be a second program to compile.
        return _in_batches(trial, trials, -(-number // -(-number // batch)))

    if config.trial_axes:
        split = jax.P(config.trial_axes)
        specs = (jax.P(), jax.P(), jax.P(), split)
        # Users' axes stay the compiler's, until a round splits its users over them.
        share = _manual(share, config, specs, split, config.trial_axes)
    return share(params, population, key, trials)


@functools.partial(jax.jit, static_argnames="config")
def _finish_trials(params, users, outcomes, counts, config: Config):
    """The estimates and the targets of trials, split over the mesh as the trials are.

    Memory holds the intermediate results of one batch: a trial on CPU, elsewhere as many lanes on
    any mesh and for any number of trials.
    """

    def share(params, users, outcomes, counts):
        finish = functools.partial(_finish, params, users)
        return _mapped(finish, (outcomes, counts), config)

    if config.trial_axes:
        assert config.mesh is not None
        split = jax.P(config.trial_axes)
        share = _manual(
            share, config, (jax.P(), jax.P(), split, split), split, config.mesh.axis_names
        )
    return share(params, users, outcomes, counts)


def _manual(function: Callable[..., T], config: Config, specs, split, axes) -> Callable[..., T]:
    return jax.shard_map(
        function,
        mesh=config.mesh,
        in_specs=specs,
        out_specs=split,
        axis_names=set(axes),
        check_vma=False,
    )


def _mapped(finish: Callable[..., T], trials: tuple[Any, ...], config: Config) -> T:
    """`finish` of every trial: one by one on CPU, elsewhere in batches of equal size."""
    finish = jax.jit(finish)  # traced once, though asked for its shapes
    number = jax.tree.leaves(trials)[0].shape[0]
    one = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), trials)
    shapes = jax.eval_shape(finish, *one)
    if config.platform == "cpu":
        # A loop also where a device has one trial only: out of loops last digits may differ.
        trials = jax.tree.map(lambda x: _padded(x, 2), trials)

        def step(t, found):
            trial = jax.tree.map(lambda x: x[t], trials)
            return jax.tree.map(lambda whole, x: whole.at[t].set(x), found, finish(*trial))

        empty = jax.tree.map(lambda x: jnp.zeros((number, *x.shape), x.dtype), shapes)
        return lax.fori_loop(0, lax.optimization_barrier(np.int32(number)), step, empty)
    numbers = sum(x.size for x in jax.tree.leaves((one, shapes)))
    lanes = min(max(_BATCH_NUMBERS // max(numbers, 1), 1), _BATCH_TRIALS)
    return _in_batches(lambda trial: finish(*trial), trials, lanes)


def _in_batches(function: Callable[[Tree], T], rows: Tree, lanes: int) -> T:
    """`function` of every row, as many at a time; the last batch is filled up with its last row."""
    number = jax.tree.leaves(rows)[0].shape[0]
    batches = -(-number // lanes)

    def cut(x):
        return _padded(x, batches * lanes).reshape(batches, lanes, *x.shape[1:])

    found = lax.map(jax.vmap(function), jax.tree.map(cut, rows))
    return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:])[:number], found)


def _padded(x: jax.Array, rows: int) -> jax.Array:
    """The array with its last row repeated, if it has fewer rows."""
    return jnp.pad(x, [(0, max(rows - x.shape[0], 0)), *[(0, 0)] * (x.ndim - 1)], "edge")


def _compiled_trials(params, cast, key, trials, config, users):
    """The estimates, the targets and the true counts of some trials, as far as they exist."""
    with jax.enable_x64(True):
        program = OwnProgram(_play_trials, config)
        # Rounds played user by user use all cores by themselves, draws of tallies one.
        on_one_core = config.platform == "cpu" and config.mesh is None and config.method == "tally"
        if on_one_core and not config.host:
            if cast.params.cost(work_of(cast.population)).tally * trials.size > _LONG:
                program = functools.partial(on_all_cores, program)
        ready = None
        if config.mesh is None and not config.host:
            ready = _compiled_beside(params, cast, key, trials.size, config, users)
        outcomes, counts = program(cast.params, cast.population, key, trials)
        if not config.trial_axes or config.host:
            # One program takes them from here, whatever mesh made them.
            outcomes, counts = jax.tree.map(_gathered, (outcomes, counts))
            outcomes = cast.cut(outcomes)
        used = counts if params.has_target else None
        if ready is not None:
            ready.result()
        finish = _where(config.host, _finish_trials)
        found = *finish(params, users, outcomes, used, config.finishing), counts
        return jax.tree.map(_gathered, found)


def _compiled_beside(params, cast: Cast, key, number: int, config: Config, users) -> Future[None]:
    """Has a thread compile what finishes so many trials, beside the program that plays them.

    jax keeps it for the call that follows: outcomes have the shapes that are known before.
    """
    one = _play_trial.eval_shape(cast.params, cast.population, key, config=config)
    outcomes, counts = _without_memory(one, number)
    arguments = params, users, cast.cut(outcomes), counts if params.has_target else None
    leaves, structure = jax.tree.flatten(arguments)
    return _in_thread(structure, tuple((np.shape(x), x.dtype) for x in leaves), config.finishing)


@functools.lru_cache(maxsize=1024)
def _in_thread(structure, leaves: tuple[tuple[Any, Any], ...], config: Config) -> Future[None]:
    """Begins to compile `_finish_trials`, once for arguments of these shapes and types."""
    arguments = jax.tree.unflatten(structure, [jax.ShapeDtypeStruct(*leaf) for leaf in leaves])
    with while_tracing():
        finish = _finish_trials.lower(*arguments, config)
    thread = ThreadPoolExecutor(1)
    compiling = thread.submit(lambda: finish.compile() and None)  # jax keeps it, or drops it
    thread.shutdown(wait=False)
    return compiling


def _gathered(x: jax.Array | np.ndarray) -> np.ndarray:
    """All trials as a NumPy array, in every process, whichever devices have them."""
    if isinstance(x, jax.Array) and not (x.is_fully_addressable or x.is_fully_replicated):
        assert isinstance(x.sharding, jax.NamedSharding)
        x = jax.jit(lambda x: x, out_shardings=jax.NamedSharding(x.sharding.mesh, jax.P()))(x)
    return np.asarray(x)


def _host_trial(params, cast, key, trials, config, users):
    """`_compiled_trials` for the one trial of `trials`, on the host."""
    key = jax.random.fold_in(key, trials[0])
    played, counts = play_on_host(params, cast.population, key, config)
    with jax.enable_x64(True):
        used = counts if params.has_target else None
        found = *_where(config.host, _finish)(params, users, played, used), counts
        return jax.tree.map(lambda x: np.asarray(x)[None], found)


def _run_trials(params, cast, key, span: range, config, progress, users):
    """The estimates, the targets and the true counts of all trials, as far as they exist."""
    params, cast, key = _host_arrays(config.mesh, (params, cast, key))
    num_trials = len(span)
    if params.traceable:
        with while_tracing():
            shape = _estimate_shape(params, cast, key, config)
        _check_room(shape, num_trials)
        chunk = _chunk(cast, key, shape, num_trials, config, progress)
        step = _compiled_trials
    else:
        step, chunk = _host_trial, 1
    step = _where(config.host and config.method == "tally", step)
    bar = progress_bar(num_trials) if progress else None
    found: Any = None
    try:
        for begin in range(0, num_trials, chunk):
            # The excess is dropped, and may wrap.
            trials = (span.start + begin + np.arange(chunk)).astype(np.uint32)
            piece = step(params, cast, key, trials, config, users)
            number = min(chunk, num_trials - begin)
            if found is None:
                found = jax.tree.map(lambda x: np.empty((num_trials, *x.shape[1:]), x.dtype), piece)
            for whole, part in zip(jax.tree.leaves(found), jax.tree.leaves(piece), strict=True):
                whole[begin : begin + number] = part[:number]
            if bar is not None:
                bar.advance(number)
    finally:
        if bar is not None:
            bar.close()
    return found


def _estimate_shape(params, cast: Cast, key, config: Config) -> tuple[int, ...]:
    with jax.enable_x64(True):  # in which trials are traced: the next call finds both traces
        found, _ = _play_trial.eval_shape(cast.params, cast.population, key, config=config)
        return _estimate_compiled.eval_shape(params, cast.cut(_without_memory(found))).shape


def _without_memory(shapes: Tree, *lead: int) -> Tree:
    """Arrays of these shapes after leading axes, which take no memory; `cut` takes their slices.

    So it says its own shapes, and nothing is traced.
    """
    return jax.tree.map(lambda x: np.broadcast_to(np.zeros((), x.dtype), (*lead, *x.shape)), shapes)


def _check_room(shape: tuple[int, ...], num_trials: int) -> None:
    needed = 8.0 * num_trials * math.prod(shape)
    available = physical_memory()
    if needed > available / 2:  # the estimates, and their errors
        raise ValueError(
            f"num_trials must be fewer than {num_trials}, whose estimates of shape {shape} take "
            f"{needed:.3g} bytes, with {available:.3g} of memory; run some of them at a time, with "
            "first_trial."
        )


def _chunk(cast: Cast, key, shape, num_trials: int, config: Config, progress: bool) -> int:
    """Trials in one call: as many as fit into memory, or a hundredth where progress is shown."""
    with jax.enable_x64(True):
        one = _play_trial.eval_shape(cast.params, cast.population, key, config=config)
    size = max(sum(leaf.size for leaf in jax.tree.leaves(one)), 2 * math.prod(shape), 1)
    parts = config.num_shares
    chunk = min(num_trials, parts * min(max(_CHUNK_LIMBS // size, 1), _CHUNK_TRIALS))
    if progress:
        chunk = min(chunk, -(-num_trials // 100))
    even = -(-num_trials // -(-num_trials // chunk))
    return -(-even // parts) * parts


def _host_arrays(mesh, tree):
    """The arguments of a program over several processes: arrays of one device as NumPy arrays."""
    if mesh is None or not mesh.is_multi_process:
        return tree

    def convert(leaf):
        local = isinstance(leaf, jax.Array) and leaf.is_fully_addressable
        plain = local and not jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key)
        return np.asarray(leaf) if plain else leaf

    return jax.tree.map(convert, tree)
