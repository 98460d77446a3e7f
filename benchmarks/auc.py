"""The area under the ROC curve of two million users, at Figure 5 of Bell et al. (2020).

    python -m benchmarks.auc                # five minutes
    python -m benchmarks.auc --trials 20    # does it run at all?

Prints a Markdown table and, of 1,000 trials, writes it with the machine and the versions to
benchmarks/results/auc/.
"""

import argparse
import functools
import pathlib

import jax

from jaxdp.pairwise import HierarchicalAUC
from jaxdp_experiments._auc import trials_of
from jaxdp_experiments.bell_fig5 import BENCHES, PER_CLASS, users_of

from ._report import Rows, rows_table, run_sections
from ._timing import timed

FOLDER = pathlib.Path(__file__).parent / "results" / "auc"
LOG_SCORES = (12, 20)
AIMS = {12: 60.0, 20: 180.0}
"""Seconds that a thousand trials may take on two cores."""


def figure_5(num_trials: int = 1000) -> Rows:
    """`HierarchicalAUC` at ε = 1, compilation included: every trial visits two million users."""
    rows: Rows = []
    for log_scores in LOG_SCORES:
        for bench in BENCHES:
            users = users_of(bench, 2**log_scores, PER_CLASS)
            protocol = HierarchicalAUC(users.num_scores, 1.0, ties="zero")
            run = functools.partial(trials_of, protocol, users, jax.random.key(0), num_trials)
            _, seconds, busy = timed(run, first=lambda: None)
            rows.append(
                {
                    "data": bench,
                    "d": f"2^{log_scores}",
                    "trials": num_trials,
                    "seconds": f"{seconds:.1f}",
                    "processor seconds": f"{busy:.1f}",
                    "ns a user": f"{1e9 * seconds / num_trials / len(users.cells):.0f}",
                    "seconds of 1,000 trials, aim": f"{AIMS[log_scores]:.0f}",
                }
            )
    return rows


def main() -> None:
    """Measures and writes the results; with another number of trials it prints them only."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--trials", type=int, help="instead of 1,000, and nothing is written")
    options = parser.parse_args()
    if options.trials is not None:
        print(rows_table(figure_5(options.trials)), flush=True)
        return
    run_sections({"figure_5": figure_5}, ["figure_5"], FOLDER)


if __name__ == "__main__":
    main()
