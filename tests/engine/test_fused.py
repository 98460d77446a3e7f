"""`implementation="kernel"`: who is served, what is checked first, and what a GPU would run."""

import dataclasses
import functools

import jax
import numpy as np
import pytest

import jaxdp
from jaxdp import Population
from jaxdp._contract import work_of
from jaxdp.engine import _config, _fused
from jaxdp.engine._config import Config, bounded
from jaxdp.engine._plan import make_plan
from jaxdp.engine._simulate import _play_compiled
from jaxdp.engine._stream import stream_tally
from jaxdp.randomizers import KRR, Gaussian, L2Ball, PrivUnit, PrivUnitG, UnaryEncoding
from jaxdp_kernels.randomize_and_sum import randomize_and_sum
from jaxdp_kernels.randomize_and_sum.triton import randomize_and_sum_triton
from jaxdp_kernels.randomize_and_tally import randomize_and_tally
from jaxdp_kernels.randomize_and_tally.mosaic_gpu import randomize_and_tally_mosaic_gpu
from jaxdp_kernels.threefry_words import StreamKey
from tests.lowering import lowered_for_h200

KRR_5 = KRR(5, 1.0)
FUSED = Config("per_user", None, None, platform="gpu", fused=True)
VALUES = np.arange(3000, dtype=np.int32) % 5
POPULATIONS = {
    "array": lambda: Population.from_values(VALUES, num_values=5),
    "histogram": lambda: Population.from_histogram([1500, 0, 900, 500, 100]),
    "distribution": lambda: Population.from_distribution(np.full(5, 0.2), 3000),
    "long bins": lambda: Population.from_histogram([150_000, 0, 90_000, 50_000, 10_000]),
    "group": lambda: Population.from_values(VALUES, num_values=5).split(
        jax.random.key(1), [0.3, 0.7]
    )[0],
}


@pytest.fixture
def accepted(monkeypatch):
    """The kinds of rounds that the kernel is used for: none, before a test accepts some."""
    monkeypatch.setattr(_fused, "_accepted", set())
    monkeypatch.setattr(_fused, "_left", set())
    monkeypatch.setattr(_fused, "_CHECKED_USERS", 4096)


@pytest.mark.parametrize("call", [jaxdp.run, jaxdp.engine.outcome, jaxdp.simulate])
def test_it_needs_a_gpu(call, key):
    options = {"num_trials": 2} if call is jaxdp.simulate else {}
    with pytest.raises(ValueError, match="needs an NVIDIA GPU, and this would run on 'cpu'"):
        call(KRR_5, POPULATIONS["array"](), key, implementation="kernel", **options)
    with pytest.raises(ValueError, match=r"implementation must be.*'triton'"):
        call(KRR_5, POPULATIONS["array"](), key, implementation="triton", **options)


@pytest.mark.parametrize("kind", POPULATIONS)
def test_programs_with_the_kernel_have_the_same_tally_elsewhere(kind, key, accepted):
    """Whom the blocks of such a program count, on a platform that takes the default."""
    params, population = KRR_5.build(), POPULATIONS[kind]().bind(key)
    _fused.accept(params, population.source.maker)
    stream = StreamKey.of(jax.random.fold_in(key, 1))
    users = bounded(population, FUSED)
    found = stream_tally(params, users, stream, config=FUSED)
    plain = stream_tally(params, population, stream, config=Config("per_user", None, None))
    np.testing.assert_array_equal(found.numpy(), plain.numpy())


@pytest.mark.parametrize(
    ("kind", "size", "block_size", "expected"),
    [
        ("array", 2**26 + 5, None, (2**26 + 5, True)),  # all users, without a copy
        ("array", 3 * 2**29, None, (3 * 2**28, True)),
        ("array", 2**26, 2**20, (2**20, True)),
        ("array", 2**26, 2**10, (2**10, False)),  # half tiles
        ("histogram", 2**26, None, (2**26, True)),  # a value for each tile
        ("histogram", 3 * 2**29, None, (3 * 2**28, True)),
        ("distribution", 3 * 2**29, None, (3 * 2**28, True)),  # made in the kernel
        ("group", 2**26, None, (2**24, True)),
    ],
)
def test_blocks_of_the_kernel(kind, size, block_size, expected):
    if kind == "array":
        values = jax.ShapeDtypeStruct((size,), np.int32)
        users = jax.eval_shape(lambda x: Population.from_values(x, num_values=5), values)
    else:
        users = Population.from_histogram([size])
        if kind == "distribution":
            users = Population.from_distribution([0.5, 0.5], size)
        users = bounded(users, FUSED)
        users = users.split(jax.random.key(0), [0.5, 0.5])[0] if kind == "group" else users
    drawn = kind == "distribution"
    plan = make_plan(users, KRR_5.build(), 1, block_size, "gpu", fused=True, drawn=drawn)
    assert plan.drawn == drawn
    assert (plan.block, plan.fused) == expected
    assert not make_plan(users, KRR_5.build(), 1, block_size, "gpu").fused


@pytest.mark.parametrize(
    ("spec", "kind", "accept", "calls"),
    [
        (KRR_5, "array", True, 1),
        (KRR_5, "long bins", True, 1),
        (KRR_5, "distribution", True, 1),
        (KRR_5, "group", True, 1),
        (KRR(7, 1.0), "array", False, 0),
        (UnaryEncoding(5, 1.0), "array", True, 0),  # whose reports are not counted
    ],
)
def test_a_gpu_would_run_the_kernel(spec, kind, accept, calls, key, accepted):
    params, users = spec.build(), bounded(POPULATIONS[kind](), FUSED)
    if accept:
        _fused.accept(params, users.source.maker)
    play = jax.jit(lambda params, users, key: _play_compiled(params, users, key, FUSED))
    with jax.enable_x64(True):
        lowered = play.trace(params, users, key).lower(lowering_platforms=("cuda",))
    assert lowered.as_text().count("custom_call @mosaic_gpu") == calls


def test_a_kernel_is_used_after_it_is_compared(accepted, monkeypatch):
    def broken(*arguments):
        tally = randomize_and_tally(*arguments)
        return jax.tree.map(lambda x: x.at[0].add(1), tally)

    def failing(*arguments):
        raise jax.errors.JaxRuntimeError("INTERNAL: no kernel image")

    params = KRR_5.build()
    for made, message in ((broken, "another tally of KRRParams"), (failing, "does not run here")):
        monkeypatch.setattr(_fused, "fused_tally", made)
        with pytest.raises(RuntimeError, match=message):
            _fused.check_fused(params)
        assert not _fused.can_fuse(params)
    monkeypatch.setattr(_fused, "fused_tally", randomize_and_tally)
    _fused.check_fused(params)
    assert _fused.can_fuse(params)
    assert _fused.can_fuse(KRR(5, 2.0).build())  # of the same kind
    assert not _fused.can_fuse(KRR(6, 1.0).build())
    monkeypatch.setattr(_fused, "fused_tally", broken)
    _fused.check_fused(params)  # once a process
    maker = POPULATIONS["distribution"]().source.maker
    with pytest.raises(RuntimeError, match="another tally of KRRParams"):
        _fused.check_fused(params, maker)
    assert not _fused.can_fuse(params, maker)
    monkeypatch.setattr(_fused, "fused_tally", randomize_and_tally)
    _fused.check_fused(params, maker)
    assert _fused.can_fuse(params, maker)


@pytest.mark.parametrize("inside", [False, True])
def test_the_kernel_can_be_traced_where_it_is_compared(inside, accepted, monkeypatch):
    def traced(*arguments):
        jax.eval_shape(randomize_and_tally_mosaic_gpu, *arguments)
        return randomize_and_tally(*arguments)

    monkeypatch.setattr(_fused, "fused_tally", traced)
    params, maker = KRR_5.build(), POPULATIONS["distribution"]().source.maker
    if inside:
        jax.jit(lambda: _fused.check_fused(params, maker))()
    else:
        _fused.check_fused(params, maker)
    assert _fused.can_fuse(params)
    assert _fused.can_fuse(params, maker)


def test_by_default_a_kernel_that_is_not_right_is_left_with_a_warning(accepted, monkeypatch):
    def failing(*arguments):
        raise NotImplementedError("no such instruction")

    monkeypatch.setattr(_fused, "fused_tally", failing)
    params, bits = KRR_5.build(), UnaryEncoding(5, 1.0).build()
    with pytest.warns(RuntimeWarning, match=r"does not run here: NotImpl.* XLA's programs run in"):
        _fused.try_fused(params)
    _fused.try_fused(params)  # known by now
    _fused.try_fused(bits)  # whose reports are not counted
    with pytest.raises(RuntimeError, match="no such instruction"):
        _fused.check_fused(params)
    monkeypatch.setattr(_fused, "fused_tally", randomize_and_tally)
    _fused.try_fused(params)
    assert not _fused.can_fuse(params)
    _fused.try_fused(KRR(7, 1.0).build())
    assert _fused.can_fuse(KRR(7, 1.0).build())


VECTORS = np.eye(16, dtype=np.float32)[:5]
OF_VECTORS = {
    "array": lambda: Population.from_values(VECTORS[VALUES]),
    "histogram": lambda: Population.from_histogram([1500, 0, 900, 500, 100], VECTORS),
    "long bins": lambda: Population.from_histogram([150_000, 0, 90_000, 50_000, 10_000], VECTORS),
    "distribution": lambda: Population.from_distribution(np.full(5, 0.2), 3000, VECTORS),
}


@pytest.mark.parametrize("kind", OF_VECTORS)
def test_programs_that_add_by_the_kernel_have_the_same_sums_elsewhere(kind, key, accepted):
    params, population = Gaussian(16, 1.0, 1e-6).build(), OF_VECTORS[kind]().bind(key)
    _fused.accept(params)
    stream = StreamKey.of(jax.random.fold_in(key, 1))
    found = stream_tally(params, bounded(population, FUSED), stream, config=FUSED)
    plain = stream_tally(params, population, stream, config=Config("per_user", None, None))
    for name in ("sum", "users"):
        np.testing.assert_array_equal(found[name].numpy(), plain[name].numpy())


@pytest.mark.filterwarnings("ignore:The Pallas Triton backend:DeprecationWarning")
@pytest.mark.parametrize(
    ("spec", "kind", "accept", "calls"),
    [
        (Gaussian(16, 1.0, 1e-6), "array", True, 1),
        (PrivUnitG(16, 1.0), "long bins", True, 1),
        (PrivUnitG(16, 1.0), "distribution", True, 1),
        (PrivUnitG(16, 1.0), "array", False, 0),
        (PrivUnit(16, 1.0), "array", True, 0),  # does not say what it adds
    ],
)
def test_a_gpu_would_add_by_the_kernel(spec, kind, accept, calls, key, accepted):
    params, users = spec.build(), bounded(OF_VECTORS[kind](), FUSED)
    if accept:
        _fused.accept(params)
    play = jax.jit(lambda params, users, key: _play_compiled(params, users, key, FUSED))
    with jax.enable_x64(True):
        text = lowered_for_h200(play, params, users, key)
    assert text.count("custom_call @__gpu$xla.gpu.triton") == calls


def test_a_kernel_that_adds_is_used_after_it_is_compared(accepted, monkeypatch):
    def one_user_less(round, key, start, values, members, row):
        if members.ndim == 0:
            members = members - np.uint32(1)
        return randomize_and_sum(round, key, start, values, members, row)

    def one_tile_less(round, key, start, values, members, row):
        if members.ndim == 1:
            members = members.at[1].set(0)
        return randomize_and_sum(round, key, start, values, members, row)

    params = PrivUnitG(16, 1.0).build()
    for broken in (one_user_less, one_tile_less):
        monkeypatch.setattr(_fused, "fused_sums", broken)
        with pytest.raises(RuntimeError, match="another tally of PrivUnitGParams"):
            _fused.check_fused(params)
        assert not _fused.can_fuse(params)
    monkeypatch.setattr(
        _fused, "fused_sums", functools.partial(randomize_and_sum_triton, interpret=True)
    )
    _fused.check_fused(params)
    assert _fused.can_fuse(params)
    assert not _fused.can_fuse(PrivUnitG(32, 1.0).build())


@pytest.mark.parametrize(
    ("round", "reason"),
    [
        (PrivUnitG(16, 1.0).build(), None),
        (PrivUnitG(20, 1.0).build(), "a power of two of entries"),
        (L2Ball(16, 1.0).build(), "neither counted nor added"),
        (UnaryEncoding(16, 1.0).build(), "kernels of its own"),
    ],
)
def test_whose_vectors_the_kernel_adds(round, reason, monkeypatch):
    found = _fused._unserved(round, None)
    assert found is None if reason is None else reason in found
    if reason is None:
        summed = dataclasses.replace(round.summed, bound=2**21)
        monkeypatch.setattr(type(round), "summed", summed)
        assert "more than 32 bits hold" in _fused._unserved(round, None)


class Device:
    def __init__(self, capability=None):
        if capability is not None:
            self.compute_capability = capability


@pytest.mark.parametrize(
    ("capabilities", "expected"),
    [
        (["9.0"], True),
        (["10.0", "9.0"], True),
        (["8.6"], False),
        (["9.0", "8.0"], False),
        (["gfx90a"], False),
        ([None], False),
    ],
)
def test_gpus_that_have_the_kernel(capabilities, expected):
    assert _fused.have_kernel([Device(c) for c in capabilities]) == expected


@pytest.mark.parametrize(
    ("spec", "implementation", "users", "trials", "asked"),
    [
        (KRR_5, None, 2**28, 1, "try"),
        (KRR_5, None, 2**27, 1, ""),
        (KRR_5, None, 2**20, 2**8, "try"),
        (KRR_5, "xla", 2**28, 1, ""),
        (KRR_5, "kernel", 100, 1, "check"),
        (PrivUnitG(16, 1.0), None, 2**29, 1, "try"),  # who add 16 numbers each
        (PrivUnitG(16, 1.0), None, 2**28, 1, ""),
        (PrivUnitG(16, 1.0), "kernel", 100, 1, "check"),
    ],
)
def test_who_takes_a_kernel_on_a_gpu(spec, implementation, users, trials, asked, monkeypatch):
    called = []
    monkeypatch.setattr(_config, "try_fused", lambda *kind: called.append("try"))
    monkeypatch.setattr(_config, "check_fused", lambda *kind: called.append("check"))
    monkeypatch.setattr(_config, "have_kernel", lambda devices: True)
    monkeypatch.setattr(_config, "_on", lambda platform: [Device("9.0")])
    monkeypatch.setattr(_config, "work_of", lambda users: dataclasses.replace(work, platform="gpu"))
    vectors = None if spec is KRR_5 else VECTORS
    population = Population.from_distribution(np.full(5, 0.2), users, vectors)
    work = work_of(population)
    config = _config.configure(
        spec.build(), population, "per_user", None, None, 20, implementation, trials
    )
    assert called == [asked] * bool(asked)
    assert config.fused == (implementation != "xla")


def test_what_cannot_be_compared_is_left_to_xla(accepted):
    bits = UnaryEncoding(5, 1.0).build()
    _fused.check_fused(bits)
    _fused.accept(bits)
    assert not _fused.can_fuse(bits)
    jax.jit(_fused.check_fused)(KRR_5.build())  # traced
    assert not _fused.can_fuse(KRR_5.build())
