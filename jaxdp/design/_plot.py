"""A plan as a figure."""

from typing import TYPE_CHECKING, Any

from .. import figures
from .._install import install
from ._curves import curves_of
from ._plan_numbers import PlanNumbers
from ._question import as_title

if TYPE_CHECKING:  # an extra
    import matplotlib.axes

_SECONDS = 3.0
_DASHES = ("-", "--", ":", "-.")


def plot(plan: PlanNumbers, axes: "matplotlib.axes.Axes | None") -> "matplotlib.axes.Axes":
    """Errors of the first options against epsilon, or against users if these were asked for."""
    if axes is None:
        try:
            import matplotlib.pyplot as plt
        except ImportError as error:
            raise ImportError(
                f"plot draws with matplotlib: {install('sweep')}, or use to_json()."
            ) from error
        with figures.style():
            return plot(plan, plt.subplots(figsize=(0.75 * figures.PAGE, 3.6))[1])
    best, found = plan.best, curves_of(plan, _SECONDS)
    by_users = plan.solved == "users"
    span = found.users if by_users else found.epsilon
    for number, curve in enumerate(found.curves):
        look = figures.mark(number)
        errors = curve.by_users if by_users else curve.by_epsilon
        option = plan.options[curve.place]
        bound = " (a bound)" if option.error.kind == "bound" else ""
        if errors is None:  # a point is all that is known
            line = [option.num_users if by_users else option.epsilon], [float(option.error)]
            axes.plot(*line, "s", color=look.color, label=option.name + bound)
            continue
        style: dict[str, Any] = dict(color=look.color, linestyle=_DASHES[number % len(_DASHES)])
        axes.plot(span.points(len(errors)), errors, label=option.name + bound, **style)
    place = best.num_users if by_users else best.epsilon
    ring: dict[str, Any] = dict(edgecolors=figures.LIGHT.mark, zorder=3, label="the plan")
    axes.scatter([place], [float(best.error)], 60, "none", **ring)
    axes.set(xscale="log", yscale="log", xlabel="users" if by_users else "ε", ylabel="error")
    at = f"ε = {best.epsilon:.3g}" if by_users else f"{best.num_users:,} users"
    axes.set_title(f"{as_title(plan.question.describe())}, {at}", fontsize="medium")
    figures.tidy(axes)
    axes.legend()
    return axes
