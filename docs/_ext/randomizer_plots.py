"""Plots for the pages of the randomizers: channels, densities, clouds of reports."""

import jax
import matplotlib.pyplot as plt
import numpy as np

WIDE = (6.4, 2.8)


def heat(specs):
    """The channels of finite randomizers side by side: a row an input, a column a report."""
    figure, axes = plt.subplots(
        1, len(specs), figsize=WIDE, layout="constrained", squeeze=False, sharey=True
    )
    for axis, spec in zip(axes[0], specs, strict=True):
        channel = np.array([[float(p) for p in row] for row in spec.channel()])
        picture = axis.imshow(channel, cmap="Blues", vmin=0, vmax=channel.max(), aspect="auto")
        figure.colorbar(picture, ax=axis, shrink=0.9)
        axis.set(xlabel="report", title=f"ε = {spec.epsilon:g}")
    axes[0, 0].set_ylabel("value")


def response(specs, low, high, probability_of=1):
    """The probability of one report against a real input."""
    figure, axis = plt.subplots(figsize=WIDE, layout="constrained")
    inputs = np.linspace(low, high, 101, dtype=np.float32)
    for spec in specs:
        law = [float(row[probability_of]) for row in spec.channel(inputs=inputs)]
        axis.plot(inputs, law, label=f"ε = {spec.epsilon:g}")
    axis.set(xlabel="value", ylabel=f"Pr[report = {probability_of}]", ylim=(0, 1))
    axis.legend(frameon=False)


def densities(spec, values, low, high):
    """The density of the report of a number, for several values."""
    figure, axis = plt.subplots(figsize=WIDE, layout="constrained")
    reports = np.linspace(low, high, 2001)
    for value in values:
        density = np.exp(spec.log_density(reports, value))
        total = np.sum(density) * (reports[1] - reports[0])  # the base measure is not normalised
        axis.plot(reports, density / total, label=f"value {value:g}")
    axis.set(xlabel="report", ylabel=f"density, ε = {spec.epsilon:g}", ylim=(0, None))
    axis.legend(frameon=False)


def cloud(specs, value=(0.8, 0.0), num_reports=4000):
    """Reports of one point of the disc, decoded, with their mean."""
    figure, axes = plt.subplots(
        1, len(specs), figsize=(6.4, 3.3), layout="constrained", squeeze=False
    )
    point = np.asarray(value, np.float32)
    for axis, spec in zip(axes[0], specs, strict=True):
        keys = jax.random.split(jax.random.key(0), num_reports)
        reports = jax.jit(jax.vmap(spec.build().privatize, in_axes=(0, None)))(keys, point)
        x, y = np.asarray(reports)[:, :2].T
        axis.scatter(x, y, s=1, alpha=0.3, rasterized=True)
        axis.plot(*point, "k+", markersize=10, label="value")
        axis.set(aspect="equal", title=f"ε = {spec.epsilon:g}")
    axes[0, 0].legend(frameon=False, loc="upper left")
