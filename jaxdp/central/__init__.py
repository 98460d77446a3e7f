"""Mechanisms of the central model, where a trusted curator holds the users' values."""

from ._factorization_mechanism import FactorizationMechanism as FactorizationMechanism
from ._factorization_mechanism import (
    FactorizationMechanismParams as FactorizationMechanismParams,
)
