"""One of several processes that run protocols over one mesh and write what they found.

`python process_worker.py PROCESS NUM_PROCESSES PORT LOCAL_DEVICES OUT FAILING`: process 0 writes
OUT, an npz file; the process of number FAILING raises after its first run.
"""

import os
import sys
import traceback

import numpy as np

COUNTS = (9001, 0, 4003, 20_011, 3)
TRIALS = 5


def populations(jax, jaxdp, place) -> dict:
    """One population of each kind, with users that do not divide evenly; `place` puts an array."""
    users = np.repeat(np.arange(len(COUNTS), dtype=np.int32), COUNTS)
    users = np.random.default_rng(0).permutation(users)[: len(users) // 4 * 4]
    counts = np.asarray(COUNTS)
    return {
        "histogram": jaxdp.Population.from_histogram(counts),
        "distribution": jaxdp.Population.from_distribution(counts / counts.sum(), counts.sum()),
        "array": jaxdp.Population.from_values(place(users), num_values=len(counts)),
    }


def results(jax, jaxdp, mesh, place, fails=False) -> dict[str, np.ndarray]:
    """Estimates of every kind of population, from one run and from trials, split both ways."""
    over_trials = None if mesh is None else jax.sharding.Mesh(mesh.devices, ("trials",))
    krr = jaxdp.randomizers.KRR(len(COUNTS), 1.0)
    key = jax.random.key(2024)
    found = {}
    for name, population in populations(jax, jaxdp, place).items():
        found[f"{name}-run"] = jaxdp.run(krr, population, key, method="per_user", mesh=mesh)
        if fails:
            raise RuntimeError("fails on purpose")
        trials = jaxdp.simulate(
            krr, population, key, num_trials=TRIALS, method="per_user", mesh=mesh
        )
        found[f"{name}-trials"] = trials.estimates
        found[f"{name}-truth"] = trials.truth
    users = populations(jax, jaxdp, place)["histogram"]  # all devices have them
    for method in ("per_user", "tally"):
        trials = jaxdp.simulate(krr, users, key, num_trials=TRIALS, method=method, mesh=over_trials)
        found[f"{method}-split"] = trials.estimates
    return found


def main(process, num_processes, port, local_devices, out, failing) -> None:
    import jax

    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", int(local_devices))
    jax.distributed.initialize(
        f"127.0.0.1:{port}",
        num_processes=int(num_processes),
        process_id=int(process),
        initialization_timeout=60,
        heartbeat_timeout_seconds=20,
        shutdown_timeout_seconds=20,
    )
    import jaxdp

    auto = (jax.sharding.AxisType.Auto,)
    mesh = jax.make_mesh((jax.device_count(),), ("users",), axis_types=auto)
    over_users = jax.sharding.NamedSharding(mesh, jax.P("users"))

    def place(array):
        return jax.make_array_from_callback(array.shape, over_users, lambda index: array[index])

    found = results(jax, jaxdp, mesh, place, fails=process == failing)
    if jax.process_index() == 0:
        np.savez(out, **found)
    jax.distributed.shutdown()


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except BaseException:  # an exception that reached the exit barrier would wait for the others
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
    os._exit(0)
