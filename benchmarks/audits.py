"""Audits of clients: the epsilon that is claimed against what their code, or their reports, show.

    python -m benchmarks.audits                    # all sections, a quarter of an hour
    python -m benchmarks.audits --only enumerated  # one section, half a minute

Prints Markdown tables and writes them, with the machine and the versions, to
benchmarks/results/audits/. Sections that are not run keep their last results. Libraries come with
the extra `bench`; sok_ldp_analysis has no release on PyPI and is found where a copy of its
repository is on PYTHONPATH. One that is not installed is named in a row of its own.

"enumerated" plays a client's own code on all outcomes of its draws, for small domains. "sampled"
takes as many reports of each of two inputs as show an excess of 5 % with a power of 0.99; so does
"counted", of up to 10**9 reports that are made and counted in blocks. Both also run each client
with an epsilon that is larger than its claim by the excess, which has to be found.
"""

import importlib
import math
import time
from typing import Any

from jaxdp.audit import exact_epsilon

from . import _clients, _counting, _reporting
from ._report import RESULTS, Rows, choose_sections

FOLDER = RESULTS / "audits"
CLAIMS = (0.5, 1.0, 2.0, 4.0)
COUNTED_CLAIMS = (0.1, 1.0, 4.0)
RAPPOR_CLAIMS = (0.1, 0.5, 1.0, 2.0, 3.0, 4.0, 6.0, 9.0, 10.0, 11.0, 12.0)
ROUNDING = 1e-9  # of a claim, by which float probabilities may exceed it


def shown(found: float, claim: float) -> str:
    """A number, in bold where it is above the claim."""
    number = "∞" if math.isinf(found) else f"{found:.4f}"
    return f"**{number}**" if found > claim * (1 + ROUNDING) else number


def enumerated() -> Rows:
    """Exact ε of the code of small clients, by the ε that is claimed; above it in bold."""
    rows: Rows = []
    for library, listed in _clients.LIBRARIES.items():
        try:
            clients = listed()
        except ImportError as error:
            rows.append({"library": library, "client": f"not installed: {error}"})
            continue
        for name, domain, make in clients:
            found = {claim: make(claim).exact_epsilon() for claim in CLAIMS}
            rows.append(_row(library, name, domain, found))
    for name, spec in _clients.OURS.items():
        found = {claim: exact_epsilon(spec(claim)) for claim in CLAIMS}
        rows.append(_row("jaxdp", name, "k = 100", found))
    return rows


def _row(library: str, name: str, domain: str, found: dict[float, float]) -> dict[str, Any]:
    numbers = {f"ε = {claim:g}": shown(epsilon, claim) for claim, epsilon in found.items()}
    return {"library": library, "client": name, "domain": domain} | numbers


def rappor() -> Rows:
    """RAPPOR of pure-ldp: f for an ε, and the ε of that f, by its own two conversions."""
    try:
        client = importlib.import_module("pure_ldp.frequency_oracles").RAPPORClient
    except ImportError as error:
        return [{"ε": f"not installed: {error}"}]
    rows = []
    for claim in RAPPOR_CLAIMS:
        f = client.convert_eps_to_f(None, claim)
        back = [client.convert_f_to_eps(None, f, k) if f > 0 else math.inf for k in (1, 2)]
        rows.append(
            {
                "ε": f"{claim:g}",
                "f": f"{f:g}",
                "ε of f, one hash": shown(back[0], claim),
                "ε of f, two hashes": shown(back[1], claim),
            }
        )
    return rows


def sampled() -> Rows:
    """Lower bounds on ε at confidence 1 - 1e-6, by reports of two inputs; above a claim in bold."""
    rows: Rows = []
    for library, listed in _reporting.LIBRARIES.items():
        try:
            clients, planted = listed(0.0), listed(_reporting.EXCESS)
        except ImportError as error:
            rows.append({"library": library, "client": f"not installed: {error}"})
            continue
        for client, leaky in zip(clients, planted, strict=True):
            start = time.perf_counter()
            report = client.audit()
            seconds = time.perf_counter() - start
            # A client that breaks its claim need not be made to break it.
            found = "" if report.violates else shown(leaky.audit().epsilon_lower, client.epsilon)
            rows.append(
                {
                    "library": library,
                    "client": client.name,
                    "domain": client.domain,
                    "ε claimed": f"{client.epsilon:.4f}",
                    "ε at least": shown(report.epsilon_lower, client.epsilon),
                    "at least, of 5 % more": found,
                    "reports of each": f"{report.num_samples:,}",
                    "seconds": f"{seconds:.0f}",
                    "event": report.worst.event,
                }
            )
            print(rows[-1], flush=True)
    return rows


def counted() -> Rows:
    """As above, of this package's vectorised clients, whose reports are counted as they come."""
    rows: Rows = []
    for audit in _counting.audits(COUNTED_CLAIMS):
        size = audit.size()
        start = time.perf_counter()
        report = audit.audit(size)
        seconds = time.perf_counter() - start
        planted = audit.audit(size, planted=True, seed=1)
        rows.append(
            {
                "client": audit.name,
                "domain": f"k = {_counting.CLIENTS[audit.name].num_values}",
                "ε claimed": f"{audit.epsilon:.4f}",
                "ε at least": shown(report.epsilon_lower, audit.epsilon),
                "excess": f"{100 * audit.excess:.2g} %",
                "at least, with the excess": shown(planted.epsilon_lower, audit.epsilon),
                "reports of each": f"{report.num_samples:,}",
                "seconds": f"{seconds:.0f}",
                "event": report.worst.event,
            }
        )
        print(rows[-1], flush=True)
    return rows


SECTIONS = {"enumerated": enumerated, "rappor": rappor, "sampled": sampled, "counted": counted}


def main() -> None:
    """Runs the chosen sections and keeps earlier results of the others."""
    choose_sections(__doc__, SECTIONS, FOLDER)


if __name__ == "__main__":
    main()
