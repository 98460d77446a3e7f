"""The question for marginals of binary features."""

import dataclasses
import functools
from typing import Any, ClassVar

import numpy as np

from .._checks import Integer
from .._contract import Work, field, spec
from .._features import all_rows, rows_of_users
from .._prediction import Prediction
from .._spec import check_choice, check_int
from .._subsets import num_subsets, subsets
from ..central import Marginals as CentralMarginals
from ..central import MomentSet
from ..linear import MarginalQueries, post_processed
from ..linear import candidates as linear_candidates
from ..randomizers import CandidateResponse, PrivUnitG
from ._question import HARD_VALUES, Data, Errors, Helper, Maker, Question, Users

_MOST_CELLS = 2**8  # of the table of all features, for protocols that need it
_MOST_QUERIES = 2**12
_TABLES = ("SubsetSelection", "ProjectiveGeometryResponse", "HadamardResponse", "KRR")


@spec
class Marginals(Question):
    """The shares of the users who have all of some binary features, for every set of a few.

    Data are rows of features, each as frequent as the others; or a share of each of the 2**n rows,
    in binary order with the first feature first, such as `jaxdp.population.maximum_entropy` has of
    some known marginals.

    Args:
      num_features: n >= 1.
      order: the most features in a set, in [1, n].

    Example:
      >>> from jaxdp.design import Marginals, plan
      >>> found = plan(Marginals(6, 2), users=100_000, epsilon=1.0)
      >>> print(f"{found.best.error:.4f}")
      0.0138
    """

    num_features: int = field(Integer(1, 64))
    order: int = field(Integer(1))

    NAMED_DATA: ClassVar[tuple[str, ...]] = ("uniform",)

    def validate(self) -> None:
        """Raises ValueError unless the order is at most the number of features."""
        check_int("order", self.order, low=1, high=self.num_features)
        if self.num_answers > _MOST_QUERIES:
            raise ValueError(
                f"order must leave at most {_MOST_QUERIES} sets of features, got "
                f"{self.num_answers:,}."
            )

    @property
    def num_answers(self) -> int:
        """The number of nonempty sets."""
        return num_subsets(self.num_features, self.order) - 1

    @property
    def answer_labels(self) -> tuple[str, ...]:
        """The numbers of the features in each set."""
        sets = subsets(self.num_features, self.order)[1:]
        return tuple("+".join(str(i) for i in row if i < self.num_features) for row in sets)

    @property
    def typical(self) -> float:
        """The mean of the answers for users of uniform features."""
        missing = subsets(self.num_features, self.order)[1:] == self.num_features
        return float(np.mean(0.5 ** (self.order - missing.sum(axis=1))))

    def describe(self) -> str:
        """The question in words."""
        return (
            f"the shares of the users with each set of at most {self.order} of "
            f"{self.num_features} features"
        )

    def candidates(self, delta: float | None = None, norm: str = "mean") -> dict[str, Maker]:
        """Vectors of all answers; of a few features also oracles of their table."""
        n, order = self.num_features, self.order
        makers: dict[str, Maker] = {
            f"MarginalQueries, {make.__name__}": lambda e, _, make=make: MarginalQueries(
                n, order, e, randomizer=make
            )
            for make in (PrivUnitG, CandidateResponse)
        }
        if 2**n <= _MOST_CELLS:
            of_tables = linear_candidates(_workload(n, order), delta, norm=norm)
            factored = [name for name in of_tables if name == "FactorizedQueries, PrivUnit"]
            makers |= {name: of_tables[name] for name in (*_TABLES, *factored)}
        return makers

    def trusting_candidates(self, trust: Helper, delta: float) -> dict[str, Maker]:
        """The noisy answers of a curator."""
        if trust != "central":
            return {}
        return {
            "Marginals": lambda e, _: CentralMarginals(
                self.num_features, self.order, e, delta, method="none"
            )
        }

    def users(self, data: Data, num_users: int) -> Users | None:
        """Users who hold these rows."""
        if isinstance(data, str):
            if check_choice("data", data, ("worst", *self.NAMED_DATA)) == "worst":
                return None
        return Users(*rows_of_users(data, self.num_features, num_users, name="data"))

    def errors(self, protocol: Any, num_users: int, users: Users | None) -> Errors:
        """The predicted mean squared errors of the answers."""
        if users is not None:
            each = protocol.variance(*self._held(protocol, users))[-self.num_answers :]
            return Errors.of(each, protocol.variance_kind)
        if _of_rows(protocol):
            total = protocol.total_variance(num_users)
        else:
            total = protocol.worst_case_total_variance(num_users)
        largest = Prediction.of(protocol.worst_case_variance(num_users))
        return Errors(largest, Prediction.of(total).scaled(1 / self.num_answers))

    def runs(self, protocol: Any, users: Users) -> tuple[tuple[float, Users], ...]:
        """The users, as the protocol knows what they hold."""
        return ((1, Users(*self._held(protocol, users))),)

    def answers(self, estimates: Any) -> np.ndarray:
        """All but the share of the users with any features, which a curator has before them."""
        return np.asarray(estimates)[..., -self.num_answers :]

    def postprocessed(self, protocol: Any) -> dict[str, Any]:
        """Moves answers to the nearest that satisfy what holds for pairs of sets."""
        if isinstance(protocol, MarginalQueries):
            onto = MomentSet(self.num_features, self.order)
            return {"projected": dataclasses.replace(protocol, onto=onto)}
        return {} if _of_rows(protocol) else dict(post_processed(protocol))

    def _held(self, protocol: Any, users: Users) -> tuple[np.ndarray, np.ndarray | None]:
        """What users hold, as the protocol knows it."""
        if _of_rows(protocol):
            return users.counts, users.inputs
        assert users.inputs is not None
        cells = (users.inputs.astype(np.int64) << np.arange(self.num_features)).sum(axis=1)
        counts = np.zeros(2**self.num_features, np.int64)
        np.add.at(counts, cells, users.counts)
        return counts, None

    def _hard_queries(self) -> np.ndarray | None:
        if 2**self.num_features > HARD_VALUES:
            return None
        return _workload(self.num_features, self.order)

    def _of_one_value(self, num_users: int) -> list[Users]:
        rows = all_rows(self.num_features) if self.num_features <= 9 else np.eye(self.num_features)
        return [Users(np.array([num_users]), row[None].astype(np.float32)) for row in rows]


def _of_rows(protocol: Any) -> bool:
    """Whether a protocol's users hold rows of features, not cells of their table."""
    return protocol.built.rounds(Work(1.0, 1))[0].round.num_bins is None


@functools.lru_cache(maxsize=4)
def _workload(num_features: int, order: int) -> np.ndarray:
    """A row for each set of features, a column for each cell."""
    rows = np.pad(all_rows(num_features), ((0, 0), (0, 1)), constant_values=True)
    members = rows[:, subsets(num_features, order)[1:]]  # of a set's features, for each cell
    return np.all(members, axis=2).T.astype(np.float64)
