"""Plots for the pages of the randomizers: channels, densities, clouds of reports, variances."""

import jax
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import LogLocator, NullFormatter

from jaxdp import figures
from jaxdp import randomizers as rz

WIDE = (6.4, 2.8)


def heat(specs, titles=None):
    """The channels of finite randomizers side by side: a row an input, a column a report."""
    titles = titles or [f"ε = {spec.epsilon:g}" for spec in specs]
    figure, axes = plt.subplots(
        1, len(specs), figsize=WIDE, layout="constrained", squeeze=False, sharey=True
    )
    for axis, spec, title in zip(axes[0], specs, titles, strict=True):
        channel = np.array([[float(p) for p in row] for row in spec.channel()])
        picture = axis.imshow(channel, cmap="Blues", vmin=0, vmax=channel.max(), aspect="auto")
        figure.colorbar(picture, ax=axis, shrink=0.9)
        axis.grid(visible=False)
        axis.set(xlabel="report", title=title)
    axes[0, 0].set_ylabel("value")


def response(specs, low, high, probability_of=1):
    """The probability of one report against a real input."""
    _, axis = plt.subplots(figsize=WIDE, layout="constrained")
    inputs = np.linspace(low, high, 101, dtype=np.float32)
    for spec in specs:
        law = [float(row[probability_of]) for row in spec.channel(inputs=inputs)]
        axis.plot(inputs, law, label=f"ε = {spec.epsilon:g}")
    axis.set(xlabel="value", ylabel=f"Pr[report = {probability_of}]", ylim=(0, 1))
    axis.legend(frameon=False)


def masses(spec, values):
    """The probabilities of the reports of a number, for several values, where they stand."""
    _, axis = plt.subplots(figsize=WIDE, layout="constrained")
    decoded = spec.build().decode(spec.reports())
    for value, law in zip(values, spec.channel(inputs=values), strict=True):
        masses = [float(mass) for mass in law]
        axis.plot(decoded, masses, "o-", markersize=3, linewidth=0.8, label=f"value {value:g}")
    axis.set(xlabel="what a report stands for", ylabel=f"Pr[report], ε = {spec.epsilon:g}")
    axis.set_ylim(0, None)
    axis.legend(frameon=False)


def cloud(specs, value=(0.8, 0.0), num_reports=2000):
    """Decoded reports of one point of the disc, whose mean is the point; two coordinates."""
    figure, axes = plt.subplots(
        1, len(specs), figsize=(6.4, 3.3), layout="constrained", squeeze=False
    )
    point = np.asarray(value, np.float32)
    keys = jax.random.split(jax.random.key(0), num_reports)
    angles = np.linspace(0, 2 * np.pi, 201)
    for axis, spec in zip(axes[0], specs, strict=True):
        params = spec.build()
        reports = jax.jit(jax.vmap(params.privatize, in_axes=(0, None)))(keys, point)
        x, y = np.asarray(params.decode(reports)).T[:2]
        axis.scatter(x, y, s=1, alpha=0.3, rasterized=True, label="reports")
        axis.plot(np.cos(angles), np.sin(angles), "k", linewidth=0.8, label="unit ball")
        axis.plot(*point[:2], "k+", markersize=10, markeredgewidth=1.2, label="value")
        axis.set(aspect="equal", title=f"ε = {spec.epsilon:g}")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(
        handles, labels, frameon=False, loc="outside lower center", ncols=3, markerscale=2
    )


def along(specs, sphere):
    """The density of a report's coordinate along a unit vector, with its mean dashed.

    Args:
      specs: a cap mechanism at several ε.
      sphere: whether reports are relative to the uniform law on the sphere, or a normal one.
    """
    _, axis = plt.subplots(figsize=WIDE, layout="constrained")
    size = specs[0].dim + 1
    reach = min(1.0, 6 / size**0.5) if sphere else 4.5
    t = np.linspace(-reach, reach, 1202)[1:-1]
    base = (1 - t**2) ** ((size - 3) / 2) if sphere else np.exp(-(t**2) / 2)
    base /= np.sum(base) * (t[1] - t[0])
    axis.plot(t, base, "k:", linewidth=0.9, label="ε = 0")
    value = np.eye(1, size - 1)[0]
    for spec in specs:
        reports = t[:, None] * np.eye(1, size) * spec.build().grid
        density = base * np.exp(spec.log_density(reports, value))
        (line,) = axis.plot(t, density, label=f"ε = {spec.epsilon:g}")
        mean = np.sum(t * density) * (t[1] - t[0])
        axis.axvline(mean, color=line.get_color(), linestyle="--", linewidth=0.8)
    axis.set(xlabel="coordinate of the report along the value", ylabel="density", ylim=(0, None))
    axis.legend(frameon=False)


def support(makes, num_values=128, low=0.25, high=6.0):
    """How often a report supports one's own value (p) and another one (q), against ε.

    Args:
      makes: specs by label, as functions of the number of values and ε.
      num_values: the size of the domain.
      low: the least ε.
      high: the largest one.
    """
    figure, axis = plt.subplots(figsize=WIDE, layout="constrained")
    epsilons = np.linspace(low, high, 41)
    for label, make in makes.items():
        laws = [make(num_values, e).probabilities() for e in epsilons.tolist()]
        own, other = np.array([[float(p) for p in law] for law in laws]).T
        (line,) = axis.plot(epsilons, own, label=f"{label}, p")
        axis.plot(epsilons, other, "--", color=line.get_color(), label=f"{label}, q")
    axis.set(xlabel="ε", ylabel="probability", ylim=(0, 1))
    figure.legend(frameon=False, loc="outside right center")


def rounds(spec, most=64):
    """What the reports of several rounds reveal, and the covariance of one user's estimate."""
    figure, (left, right) = plt.subplots(1, 2, figsize=WIDE, layout="constrained")
    numbers = np.unique(np.rint(np.geomspace(1, most, 20)).astype(int))
    revealed = [spec.report_epsilon(int(r)) for r in numbers]
    left.plot(numbers, revealed, marker="o", markersize=3, label="reports of R rounds")
    left.axhline(spec.exact_epsilon(), color="k", linestyle=":", label="all rounds")
    left.set(xlabel="rounds R", ylabel="ε", xscale="log", ylim=(0, None))
    left.xaxis.set_major_formatter("{x:g}")
    left.legend(frameon=False)
    covariance = spec.covariance(0)
    scale = np.abs(covariance).max()
    picture = right.imshow(covariance, cmap="RdBu_r", vmin=-scale, vmax=scale)
    figure.colorbar(picture, ax=right, shrink=0.9)
    right.grid(visible=False)
    right.set(title="covariance of an estimate", xlabel="value", ylabel="value")


def curves(laws, numbers, xlabel, ylabel="variance", least=False, limits=()):
    """Functions of one number on log axes.

    Args:
      laws: the functions, by label.
      numbers: where they are evaluated, ascending.
      xlabel: what the number is.
      ylabel: what the functions are.
      least: whether to mark the least value of each.
      limits: a level for each, drawn dotted.
    """
    figure, axis = plt.subplots(figsize=(6.4, 3.2), layout="constrained")
    for label, law in laws.items():
        values = [law(number) for number in numbers]
        (line,) = axis.plot(numbers, values, label=label)
        if least:
            i = int(np.argmin(values))
            axis.plot(numbers[i], values[i], "o", color=line.get_color())
    for limit, line in zip(limits, axis.get_lines(), strict=False):
        axis.axhline(limit, color=line.get_color(), linestyle=":")
    axis.set(xlabel=xlabel, ylabel=ylabel)
    log_axes(axis)
    figure.legend(frameon=False, loc="outside right center")


def compare(laws, epsilons, reference):
    """Worst-case variances for one user against ε, and their ratios to one of them.

    Args:
      laws: specs by label, as functions of ε.
      epsilons: where they are evaluated.
      reference: the label to compare with.
    """
    figure, axes = plt.subplots(1, 2, figsize=(7.6, 3.2), layout="constrained")
    variances = {
        label: np.array([make(e).worst_case_variance(num_users=1) for e in epsilons])
        for label, make in laws.items()
    }
    for label, values in variances.items():
        axes[0].plot(epsilons, values, label=label)
        axes[1].plot(epsilons, values / variances[reference])
    axes[0].set(xlabel="ε", ylabel="variance")
    axes[1].set(xlabel="ε", ylabel=f"relative to {reference}")
    for axis in axes:
        log_axes(axis)
    figure.legend(frameon=False, loc="outside lower center", ncols=len(laws), fontsize="small")


def log_axes(axis):
    """Log axes with ticks at 1, 2 and 5 on a short axis, else at powers of ten."""
    axis.set(xscale="log", yscale="log")
    for side, (low, high) in ((axis.xaxis, axis.get_xlim()), (axis.yaxis, axis.get_ylim())):
        side.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 300 * low else (1,)))
        side.set_major_formatter("{x:g}")
        side.set_minor_formatter(NullFormatter())


def kept(specs, titles, values=(-1.0, 0.0, 1.0)):
    """How likely a normal draw is to be kept, given the user's number."""
    _, axes = plt.subplots(
        1, len(specs), figsize=WIDE, layout="constrained", squeeze=False, sharey=True
    )
    for axis, spec, title in zip(axes[0], specs, titles, strict=True):
        draws = np.linspace(-4, 4, 1001)  # standard normal
        reports = np.stack([draws * 2**10, np.ones_like(draws)], axis=1)  # steps in sigma
        for value in values:
            law = np.exp(spec.log_density(reports, np.array([value])))
            axis.plot(draws * spec.sigma, law, label=f"value {value:g}")
        axis.set(xlabel="draw", title=title, ylim=(0, 1.05))
    axes[0, 0].set_ylabel("Pr[kept | draw]")
    axes[0, 0].legend(frameon=False, fontsize="small")


def above_subset_selection():
    """How far three oracles with short reports are above subset selection, by the values."""
    sizes = np.unique(np.geomspace(4, 1024, 40).astype(int))
    makers = {
        "ProjectiveGeometryResponse": rz.ProjectiveGeometryResponse,
        "AffineHashing": rz.AffineHashing,
        "AffineSubsets": rz.AffineSubsets,
    }
    figure, axes = plt.subplots(1, 3, figsize=(6.4, 2.6), layout="constrained", sharey=True)
    for axis, epsilon in zip(axes, (1.0, 3.0, 5.0), strict=True):
        totals = {
            name: np.array([make(int(k), epsilon).worst_case_total_variance(1) for k in sizes])
            for name, make in (makers | {"": rz.SubsetSelection}).items()
        }
        for place, name in enumerate(makers):
            mark = figures.mark(place)
            axis.plot(
                sizes,
                100 * (totals[name] / totals[""] - 1),
                label=name if epsilon == 1 else None,
                color=mark.color,
                linestyle=mark.linestyle,
            )
        axis.set(xscale="log", xlabel="values", title=f"ε = {epsilon:g}")
    axes[0].set_ylabel("percent above")
    figure.legend(frameon=False, loc="outside lower center", ncols=3, fontsize="small")
