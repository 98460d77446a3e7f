"""A simulation over the devices of all processes, of which each runs this program.

`python many_hosts.py` under SLURM, Open MPI and on Cloud TPUs; elsewhere `python many_hosts.py
HOST:PORT PROCESSES ME`, where HOST is that of process 0 and ME the number of the process.
"""

import sys

import jax
import numpy as np

import jaxdp


def simulate(mesh: jax.sharding.Mesh) -> dict[str, np.ndarray]:
    """The errors of trials whose users are split, of split trials, and an estimate."""
    key = jax.random.key(2026)  # the same in every process
    krr = jaxdp.randomizers.KRR(num_values=4, epsilon=1.0)

    # Users made on the fly: every process describes all of them.
    users = jaxdp.Population.from_distribution([0.4, 0.3, 0.2, 0.1], num_users=100_000)
    trials = jaxdp.simulate(krr, users, key, num_trials=3, method="per_user", mesh=mesh)

    # Many short trials: these are split, and nothing is sent until the end.
    over_trials = jax.sharding.Mesh(mesh.devices, ("trials",))
    many = jaxdp.simulate(krr, users, key, num_trials=1000, mesh=over_trials)

    # Users given one by one: every process reads its own share of the rows.
    rows = np.arange(100_000, dtype=np.int32) % 4  # np.load("users.npy", mmap_mode="r")
    share = len(rows) // jax.process_count()
    mine = rows[share * jax.process_index() :][:share]
    over_users = jax.NamedSharding(mesh, jax.P("users"))
    given = jax.make_array_from_process_local_data(over_users, mine)
    population = jaxdp.Population.from_values(given, num_values=4)
    estimate = jaxdp.run(krr, population, key, method="per_user", mesh=mesh)
    return {"errors": trials.errors, "many_errors": many.errors, "estimate": estimate}


if __name__ == "__main__":
    if len(sys.argv) > 1:
        address, processes, me = sys.argv[1:]
        jax.distributed.initialize(address, num_processes=int(processes), process_id=int(me))
    else:
        jax.distributed.initialize()
    found = simulate(jax.make_mesh((jax.device_count(),), ("users",)))
    if jax.process_index() == 0:  # all of them have the results; one writes
        np.savez("found.npz", **found)
