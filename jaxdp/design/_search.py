"""The search for the number that is asked for, over all protocols."""

import collections
import dataclasses
import functools
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .._contract import Work
from .._prediction import Prediction
from .._ranking import build_all, is_noisy
from ._measure import Measure
from ._option import Goal, Option, Trust
from ._question import Maker, Question
from ._shuffler import BehindShuffler
from ._solve import least_epsilon, least_users

_CLOSED, _SIMULATED = 1e-6, 2e-3  # relative widths of what is solved for
_SEVERAL = 2  # protocols whose errors are simulated
_PATIENCE = 10e9  # nanoseconds that the simulations of a protocol may take
_PILOT, _MOST_TRIALS, _STDERR = 100, 2**13, 0.005
_BEHIND = 1.1  # times the least error, beyond which a pilot is enough
_MANY = 2**30  # users for whom data are read, where their number is asked for
_EVALUATIONS = 12  # of the error of one, to solve for a number


@dataclasses.dataclass(frozen=True)
class Search:
    """What is given, and what is asked for: the one of the three that is None."""

    measure: Measure
    users: int | None
    epsilon: float | None
    error: float | None
    num_trials: int | None
    tell: Callable[[str], None] = lambda text: None
    """Is told what is done next."""

    def best(
        self, makers: Mapping[str, tuple[Trust, Maker]]
    ) -> tuple[list[Option], list[tuple[str, str]]]:
        """The options in order, and what was left out and why."""
        question, goal = self.measure.question, self.measure.goal
        worst = question.users(self.measure.data, self.users or _MANY) is None
        if worst and goal.loss == "max":
            raise ValueError(
                "data must be given for loss='max', whose worst data are not known: one of "
                f"{', '.join(map(repr, question.NAMED_DATA))}, or what users hold."
            )
        closed = self
        if goal.loss == "max":  # first ordered by what has a closed form, and is never more
            least = dataclasses.replace(self.measure, goal=Goal("worst", goal.factor))
            closed = dataclasses.replace(self, measure=least)
        options, refused = build_all(
            {
                name: functools.partial(closed.predicted, name, *each)
                for name, each in makers.items()
            },
            lambda _, option: option,
        )
        options.sort(key=self.asked)
        if worst or self.num_trials == 0:
            return options, refused
        closed_form = goal.loss != "max"
        known = [o for o in options if closed_form and o.error.kind != "bound" and not o.noisy]
        again: dict[str, tuple[Option, Maker]] = {}
        for option in options:
            make = makers[option.name][1]
            if option not in known:
                again[option.name] = option, make
            for way in question.postprocessed(option.protocol) if option.trust == "local" else ():
                better = functools.partial(_better, question, make, way)
                again[f"{option.name}, {way}"] = option, better
        found: list[Option] = []
        done: collections.Counter[str] = collections.Counter()
        for name, (option, make) in again.items():
            way = name.removeprefix(option.name)  # what is done to the estimate; empty for nothing
            if done[way] < _SEVERAL:
                least = min((o.error for o in (*known, *found)), default=math.inf)
                simulate_it = {name: functools.partial(self.simulated, name, option, make, least)}
                simulated, unable = build_all(simulate_it, lambda _, option: option)
                found, refused = [*found, *simulated], [*refused, *unable]
                done[way] += len(simulated)
            elif name == option.name and closed_form:
                known.append(option)  # with its bound, or what the delta method says
            elif name == option.name:
                refused.append((name, "is not simulated, for others promise less."))
        return sorted([*known, *found], key=self.asked), refused

    def asked(self, option: Option) -> float:
        """The number that is asked for."""
        if self.error is None:
            return option.error
        return option.num_users if self.users is None else option.epsilon

    def predicted(self, name: str, trust: Trust, make: Maker) -> Option:
        """A protocol with the number that is asked for, by its own predictions."""
        self.tell(name)

        def measure(protocol: Any, num_users: int) -> Prediction:
            return self.measure.predicted(protocol, num_users, trust)

        like = Option(
            name,
            None,
            self.users or 10_000,
            self.epsilon or 1.0,
            Prediction(math.inf),
            1,
            trust,
            make,
        )
        found = self.solve(like, measure, _CLOSED)
        if self.measure.question.is_linear:
            return found
        root = found.error.scaled(1 / self.measure.goal.factor)
        return dataclasses.replace(found, noisy=is_noisy(root, root=True))

    def simulated(self, name: str, raw: Option, make: Maker, least: float = math.inf) -> Option:
        """The same by simulation, near what is known of the protocol.

        Args:
          name: of the option.
          raw: as far as it is known.
          make: its protocol.
          least: an error of another; what is far above it is not simulated to the last digit.
        """
        self.tell(f"{name}, simulated")
        users = self.measure.question.users(self.measure.data, raw.num_users)
        assert users is not None, "the worst data are not simulated"
        evaluations = 1 if self.error is None else _EVALUATIONS
        protocol = make(raw.epsilon, raw.num_users)
        cost = self.measure.question.trial_cost(protocol, users) * evaluations
        most = min(_MOST_TRIALS, int(_PATIENCE / cost))
        if most < _PILOT:
            raise ValueError(f"its simulation would take more than {_PATIENCE / 1e9:.0f} s.")
        trials = self.num_trials
        if trials is None:
            pilot = self.measure.simulated(protocol, raw.num_users, _PILOT)
            share = pilot.stderr / pilot / _STDERR if pilot else math.inf
            behind = self.error is None and pilot - 4 * pilot.stderr > _BEHIND * least
            trials = _PILOT if behind else int(np.clip(_PILOT * share**2, _PILOT, most))

        def measure(protocol: Any, num_users: int) -> Prediction:
            return self.measure.simulated(protocol, num_users, trials)

        like = dataclasses.replace(raw, name=name, make=make, num_trials=trials, noisy=False)
        return self.solve(like, measure, _SIMULATED)

    def solve(self, like: Option, measure: Callable[[Any, int], Prediction], tol: float) -> Option:
        """An option with the number that is asked for, from one whose numbers are guesses."""
        epsilon, users = like.epsilon, like.num_users

        make, around = like.make, None
        # The error is that of the reports before they are shuffled: where epsilon is asked for,
        # it is solved for theirs, and that of the shuffled ones follows.
        if isinstance(make, BehindShuffler) and self.epsilon is None:
            make = around = make.around

        def at(e: float, n: int) -> Prediction:
            return measure(make(e, n), n)

        if self.error is None:
            found = at(epsilon, users)
        elif self.users is None:
            users, found = least_users(functools.partial(at, epsilon), self.error, users, tol)
        else:
            name = "a local epsilon" if around else "epsilon"
            epsilon, found = least_epsilon(lambda e: at(e, users), self.error, epsilon, tol, name)
        protocol = make(epsilon, users)
        if around:
            epsilon = protocol.exact_epsilon()
            if math.isinf(epsilon):
                raise ValueError("nothing is proven of its shuffled reports.")
        rounds = len(protocol.built.rounds(Work(float(users), 1)))
        return dataclasses.replace(
            like,
            protocol=protocol,
            num_users=users,
            epsilon=epsilon,
            error=found,
            rounds=rounds,
        )


def _better(question: Question, make: Maker, way: str, epsilon: float, num_users: int) -> Any:
    return question.postprocessed(make(epsilon, num_users))[way]
