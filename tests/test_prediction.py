"""Predictions: numbers that say what they are worth."""

import copy
import json
import pickle

import jax.numpy as jnp
import numpy as np
import pytest

import jaxdp
from jaxdp.engine import Prediction
from jaxdp.linear import (
    FactorizedQueries,
    HistogramQuery,
    LaplaceQueries,
    MarginalQueries,
    Projected,
    ProjectedHadamard,
)
from jaxdp.pairwise import (
    AUC,
    BilinearAUC,
    GiniDiversity,
    HierarchicalAUC,
    OneReport,
    OneStep,
    QuantizedRR,
    TwoReport,
)
from jaxdp.randomizers import FREQUENCY_ORACLES, KRR, PrivUnit

PREFIX = jaxdp.workloads.prefix(4)


def test_a_prediction_is_a_float():
    error = Prediction(2.5, "bound")
    assert isinstance(error, float)
    assert error == 2.5
    assert error.kind == "bound"
    assert error.stderr == 0.0
    assert repr(error) == "Prediction(2.5, 'bound')"
    assert str(error) == "2.5"
    assert f"{error:.2f}" == "2.50"
    assert json.loads(json.dumps(error)) == 2.5
    assert jnp.asarray(error) == 2.5


@pytest.mark.parametrize(
    "result", [Prediction(2.0, "bound") * 2, -Prediction(2.0), 1.0 + Prediction(2.0)]
)
def test_arithmetic_forgets_the_kind(result):
    assert type(result) is float


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))]
)
def test_copies_keep_the_kind(copied):
    found = copied(Prediction(2.5, "simulated", 0.25))
    assert (found, found.kind, found.stderr) == (2.5, "simulated", 0.25)
    assert repr(found) == "Prediction(2.5, 'simulated', stderr=0.25)"


def test_scaled_keeps_the_kind():
    found = Prediction(2.0, "simulated", 0.5).scaled(-3.0)
    assert (found, found.kind, found.stderr) == (-6.0, "simulated", 1.5)


def test_other_numbers_claim_to_be_exact():
    given = Prediction(1.0, "delta")
    assert Prediction.of(given) is given
    assert Prediction.of(np.float64(3.0)).kind == "exact"


@pytest.mark.parametrize("name", FREQUENCY_ORACLES)
def test_oracles_predict_exactly(name):
    oracle = FREQUENCY_ORACLES[name](5, 1.0)
    assert oracle.worst_case_variance(10).kind == "exact"
    assert oracle.worst_case_total_variance(10).kind == "exact"
    assert oracle.variance_kind == "exact"


WORST = {
    "histogram": (HistogramQuery(KRR(4, 1.0)), "exact"),
    "laplace": (LaplaceQueries(PREFIX, 1.0), "exact"),
    "projected": (Projected(LaplaceQueries(PREFIX, 1.0)), "bound"),
    "projected raw": (Projected(LaplaceQueries(PREFIX, 1.0), below=10), "exact"),
    "hadamard": (ProjectedHadamard(4, 1.0), "bound"),
    "hadamard raw": (ProjectedHadamard(4, 1.0, postprocess="none"), "exact"),
    "marginals": (MarginalQueries(4, 2, 1.0), "exact"),
    "factorized": (FactorizedQueries(PREFIX, 1.0), "exact"),
    "randomized response": (QuantizedRR(GiniDiversity(), 1.0, 4), "bound"),
    "one report": (OneReport(GiniDiversity(), 1.0, 4, randomizer=PrivUnit), "exact"),
    "one report, v": (OneReport(GiniDiversity(), 1.0, 4, form="v"), "bound"),
    "two reports": (TwoReport(GiniDiversity(), 1.0, 4, randomizer=PrivUnit), "exact"),
    "one step": (OneStep(GiniDiversity(), 1.0, 4), "bound"),
    "public labels": (BilinearAUC(4, 1.0), "exact"),
    "private labels": (BilinearAUC(4, 1.0, "private"), "bound"),
    "tree": (HierarchicalAUC(4, 1.0), "bound"),
}


@pytest.mark.parametrize("name", WORST)
def test_worst_cases_say_what_they_are(name):
    spec, kind = WORST[name]
    found = spec.worst_case_variance(100)
    assert isinstance(found, Prediction)
    assert found.kind == kind


GIVEN = {
    "histogram": (HistogramQuery(KRR(4, 1.0)), "exact"),
    "projected": (Projected(LaplaceQueries(PREFIX, 1.0)), "bound"),
    "linear kernel": (QuantizedRR(GiniDiversity(), 1.0, 4), "exact"),
    "plug-in": (QuantizedRR(AUC(), 1.0, (2, 4)), "delta"),
    "one step": (OneStep(GiniDiversity(), 1.0, 4), "delta"),
    "one step, clipped": (OneStep(GiniDiversity(), 1.0, 4, tau=3.0), "bound"),
    "public labels": (BilinearAUC(4, 1.0), "exact"),
    "private labels": (BilinearAUC(4, 1.0, "private"), "delta"),
    "tree": (HierarchicalAUC(4, 1.0, threshold=0.0), "exact"),
    "even tree": (HierarchicalAUC(4, 1.0, split="even", threshold=0.0), "exact"),
    "private tree": (HierarchicalAUC(4, 1.0, "private", threshold=0.0), "delta"),
    "pruned tree": (HierarchicalAUC(4, 1.0), "delta"),
}


@pytest.mark.parametrize("name", GIVEN)
def test_errors_for_given_users_say_what_they_are(name):
    spec, kind = GIVEN[name]
    assert spec.variance_kind == kind
