"""Runs k-RR user by user over a histogram and prints the peak resident memory in bytes."""

import pathlib
import sys


def main(num_users: int) -> None:
    import jax
    import numpy as np

    jax.config.update("jax_platforms", "cpu")
    import jaxdp

    counts = np.full(16, num_users // 16)
    population = jaxdp.Population.from_histogram(counts)
    krr = jaxdp.randomizers.KRR(16, 1.0)
    estimate = jaxdp.run(krr, population, jax.random.key(0), method="per_user")
    deviation = np.sqrt(krr.worst_case_variance(int(counts.sum())))
    assert np.abs(estimate - counts).max() < 8 * deviation
    print(peak_memory())


def peak_memory() -> int:
    """Peak memory of this program; `ru_maxrss` would include the parent that started it."""
    status = pathlib.Path("/proc/self/status").read_text()
    fields = dict(line.split(":", 1) for line in status.splitlines())
    return int(fields["VmHWM"].removesuffix("kB")) * 1024


if __name__ == "__main__":
    main(int(sys.argv[1]))
