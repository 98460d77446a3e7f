"""A plan as a figure."""

from typing import TYPE_CHECKING

from ..figures import Axis, short
from ._curves import curves_of
from ._plan_numbers import PlanNumbers
from ._question import as_title

if TYPE_CHECKING:  # an extra
    import matplotlib.axes

_SECONDS = 3.0


def plot(plan: PlanNumbers, axes: "matplotlib.axes.Axes | None") -> "matplotlib.axes.Axes":
    """Errors of the first options against epsilon, or against users if these were asked for."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(
            "plot draws with matplotlib: pip install 'jaxdp[sweep]', or use to_json()."
        ) from error
    if axes is None:
        axes = plt.subplots(figsize=(6.4, 4.2), layout="constrained")[1]
    best, found = plan.best, curves_of(plan, _SECONDS)
    by_users = plan.solved == "users"
    span = found.users if by_users else found.epsilon
    for curve in found.curves:
        errors = curve.by_users if by_users else curve.by_epsilon
        option = plan.options[curve.place]
        bound = " (a bound)" if option.error.kind == "bound" else ""
        if errors is None:  # a point is all that is known
            line = [option.num_users if by_users else option.epsilon], [float(option.error)]
            axes.plot(*line, "s", markersize=4, label=option.name + bound)
            continue
        axes.plot(span.points(len(errors)), errors, linewidth=1.5, label=option.name + bound)
    number = best.num_users if by_users else best.epsilon
    axes.scatter([number], [float(best.error)], 70, "none", edgecolors="black", label="the plan")
    axes.set(xscale="log", yscale="log", xlabel="users" if by_users else "ε", ylabel="error")
    at = f"ε = {best.epsilon:.3g}" if by_users else f"{best.num_users:,} users"
    axes.set_title(f"{as_title(plan.question.describe())}, {at}", fontsize="medium")
    for axis, ends in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
        ticks = Axis(*ends, 0.0, 1.0).ticks()
        axis.set_ticks(ticks, [short(tick) for tick in ticks])
    axes.minorticks_off()
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small")
    return axes
