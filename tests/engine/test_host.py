"""What a TPU leaves to its host: tallies that are drawn at once, and estimates, in true float64."""

import jax
import numpy as np
import pytest

import jaxdp
from jaxdp.engine import _config, _simulate
from jaxdp.engine._config import configure
from tests.engine.probes import TwoRounds
from tests.marks import slow

KRR = jaxdp.randomizers.KRR(5, 1.0)
TWO = TwoRounds(KRR.build(), KRR.build())
COUNTS = np.array([2**40 + 1, 7, 0, 3, 12])
USERS = jaxdp.Population.from_values(np.arange(3000, dtype=np.int32) % 5, num_values=5)


@pytest.fixture
def ran_on(monkeypatch):
    """The devices of what each program left, where the last of the CPU's devices is the TPU."""
    used: dict[str, set[jax.Device]] = {"play": set(), "finish": set()}

    def seen(name, function):
        def called(*arguments):
            found = function(*arguments)
            leaves = [x for x in jax.tree.leaves(found) if isinstance(x, jax.Array)]
            used[name] |= {device for x in leaves for device in x.devices()}
            return found

        if name == "finish":
            called.eval_shape, called.lower = function.eval_shape, function.lower
        return called

    own = _simulate.OwnProgram
    monkeypatch.setattr(_simulate, "OwnProgram", lambda f, c: seen("play", own(f, c)))
    for name in ("_finish_trials", "_estimate_compiled"):
        monkeypatch.setattr(_simulate, name, seen("finish", getattr(_simulate, name)))
    monkeypatch.setattr(jax, "default_backend", lambda: "tpu")
    with jax.default_device(jax.devices()[-1]):
        yield used


HOST, TPU = {jax.devices()[0]}, {jax.devices()[-1]}


def on_tpu(population: jaxdp.Population) -> jaxdp.Population:
    return jax.device_put(population, jax.devices()[-1])


@pytest.mark.parametrize(("method", "where"), [("tally", HOST), ("per_user", TPU)])
def test_draws_and_estimates_are_made_on_the_host(ran_on, key, method, where):
    assert HOST != TPU
    found = jaxdp.run(KRR, on_tpu(USERS), key, method=method)
    assert ran_on == {"play": where, "finish": HOST}
    for used in ran_on.values():
        used.clear()
    trials = jaxdp.simulate(KRR, on_tpu(USERS), key, num_trials=3, method=method)
    assert ran_on == {"play": where, "finish": HOST}
    assert trials.method == method
    assert found.dtype == trials.estimates.dtype == np.float64


@pytest.mark.parametrize(
    ("spec", "method"),
    [(KRR, "tally"), slow(KRR, "per_user"), (TWO, "per_user"), slow(TWO, "tally")],
    ids=["one-tally", "one-per_user", "two-per_user", "two-tally"],
)
def test_results_are_those_of_a_cpu(ran_on, key, spec, method):
    users = USERS if method == "per_user" else jaxdp.Population.from_histogram(COUNTS)
    with pytest.MonkeyPatch.context() as patch, jax.default_device(jax.devices()[0]):
        patch.setattr(jax, "default_backend", lambda: "cpu")
        expected = jaxdp.simulate(spec, users, key, num_trials=3, method=method)
    found = jaxdp.simulate(spec, users, key, num_trials=3, method=method)
    np.testing.assert_array_equal(found.estimates, expected.estimates)
    np.testing.assert_array_equal(
        jaxdp.run(spec, users, jax.random.fold_in(key, 2), method=method), expected.estimates[2]
    )


def test_a_mesh_serves_users_but_no_draws(ran_on, monkeypatch, key):
    mesh = jax.sharding.Mesh(np.array(jax.devices()[-2:]), ("trials",))
    monkeypatch.setattr(_config, "_platform_of", lambda mesh: "tpu")
    one = jaxdp.simulate(KRR, USERS, key, num_trials=4, method="per_user")
    split = jaxdp.simulate(KRR, USERS, key, num_trials=4, method="per_user", mesh=mesh)
    assert ran_on["play"] == set(jax.devices()[-2:])
    assert ran_on["finish"] == HOST
    np.testing.assert_array_equal(one.estimates, split.estimates)
    ran_on["play"].clear()
    jaxdp.simulate(KRR, USERS, key, num_trials=4, method="tally", mesh=mesh)
    assert ran_on["play"] == HOST


def test_without_a_cpu_all_stays_on_the_device(ran_on, monkeypatch, key):
    def missing(backend=None):
        raise RuntimeError(f"Unknown backend {backend}")

    monkeypatch.setattr(jax, "local_devices", missing)
    config = configure(KRR.build(), USERS, "tally", None, None)
    assert (config.platform, config.host) == ("tpu", False)
    assert jaxdp.run(KRR, USERS, key, method="tally").shape == (5,)
    assert ran_on == {"play": TPU, "finish": TPU}


def test_inside_jit_all_stays_in_the_callers_program(monkeypatch, key):
    monkeypatch.setattr(jax, "default_backend", lambda: "tpu")
    program = jax.jit(lambda users, key: jaxdp.run(KRR, users, key, method="tally"))
    assert program.eval_shape(USERS, key).shape == (5,)
