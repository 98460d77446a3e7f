"""Every shipped randomizer passes its audit, and the audit finds that it uses its input."""

import numpy as np
import pytest

from jaxdp.audit import estimate_epsilon, exact_epsilon
from tests.contracts.registry import RANDOMIZERS, ids
from tests.marks import slow

SAMPLES = 10_000
CONFIDENCE = 1 - 1e-9
DEAR = {
    "candidate-response",
    "proj-unit",
    "priv-unit",
    "priv-unit-g",
    "rappor-3",
}  # seconds to compile


def user_values(case):
    """A few values, as users hold them."""
    values = np.arange(len(case.counts), dtype=np.int32) if case.inputs is None else case.inputs
    return values[[0, 1, -1]] if len(values) > 2 else values


@pytest.mark.parametrize("case", [slow(c) if c.name in DEAR else c for c in RANDOMIZERS], ids=ids)
def test_passes(case, key):
    """Specs that state epsilon are not refuted; those that admit to more, for study, are."""
    spec, values = case.make(1.0), user_values(case)
    report = estimate_epsilon(
        spec, key, SAMPLES, inputs=values, confidence=CONFIDENCE, batch_size=SAMPLES
    )
    honest = spec.exact_epsilon() <= spec.epsilon
    assert report.violates == (not honest), str(report)
    assert not (case.unbiased and report.biased), str(report)
    assert not report.spends_nothing, str(report)


@pytest.mark.parametrize("case", RANDOMIZERS, ids=ids)
def test_exact_epsilon_is_the_stated_one(case):
    """All bins are enumerated; a spec's own number may be for more inputs, or many reports."""
    spec = case.make(1.0)
    enumerated = exact_epsilon(spec, inputs=case.inputs)
    if spec.channel(inputs=case.inputs) is None:
        assert enumerated == spec.exact_epsilon()
        return
    assert 0 < enumerated <= spec.exact_epsilon() <= 1.0
    if case.values is None and not spec.built.permanent_words:
        assert enumerated == spec.exact_epsilon()
