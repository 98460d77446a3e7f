"use strict";
(() => {
  const plan = JSON.parse(document.getElementById("data").textContent);
  const get = (id) => document.getElementById(id);

  const digits = (x, n) => {
    if (!(x > 0)) return "–";
    if (x >= 10 ** n) return Math.round(x).toLocaleString("en-US");
    return x >= 1e-4 ? String(Number(x.toPrecision(n))) : x.toExponential(n - 1);
  };
  // An axis is [low, high, start, end], on a log scale.
  const place = ([low, high, start, end], x) =>
    start + (Math.log(x / low) / Math.log(high / low)) * (end - start);
  const between = (low, high, share) => low * (high / low) ** share;

  // Errors are known at equal steps of log epsilon and log users; between them, log errors are
  // interpolated.
  const errorAt = (grid, e, n) => {
    if (!grid) return null;
    const at = (share, size) => {
      const x = share * (size - 1);
      const i = Math.min(Math.floor(x), size - 2);
      return [i, x - i];
    };
    const [i, a] = at(e, grid.length);
    const [j, b] = at(n, grid[0].length);
    let sum = 0;
    for (const [row, column, weight] of [
      [i, j, (1 - a) * (1 - b)], [i + 1, j, a * (1 - b)],
      [i, j + 1, (1 - a) * b], [i + 1, j + 1, a * b],
    ]) {
      if (weight < 1e-9) continue;
      const error = grid[row][column];
      if (!(error > 0)) return null;
      sum += weight * Math.log(error);
    }
    return Math.exp(sum);
  };

  const curves = () => {
    const sliders = { epsilon: get("epsilon"), users: get("users") };
    const share = (name) => Number(sliders[name].value) / 200;
    const number = (name) => between(...plan.axes[name].slice(0, 2), share(name));
    const shown = {
      epsilon: () => digits(number("epsilon"), 3),
      users: () => {
        const users = number("users");
        const size = 10 ** Math.max(Math.floor(Math.log10(users)) - 2, 0);
        return share("users") === 0.5 ? plan.users.toLocaleString("en-US")
          : (Math.round(users / size) * size).toLocaleString("en-US");
      },
    };

    const line = (grid, name) => {
      const steps = name === "epsilon" ? grid.length : grid[0].length;
      const fine = Math.max(steps, 33);
      let path = "", pen = "M";
      for (let i = 0; i < fine; i++) {
        const t = i / (fine - 1);
        const error = name === "epsilon" ? errorAt(grid, t, share("users")) : errorAt(grid, share("epsilon"), t);
        if (error === null) { pen = "M"; continue; }
        const [, , start, end] = plan.axes[name];
        path += `${pen}${(start + t * (end - start)).toFixed(1)} ${place(plan.axes.error, error).toFixed(1)}`;
        pen = "L";
      }
      return path;
    };

    const update = () => {
      for (const name of ["epsilon", "users"]) {
        const text = shown[name]();
        get(`${name}-value`).textContent = text;
        sliders[name].setAttribute("aria-valuetext", text);
        for (const span of document.querySelectorAll(`[data-follow="${name}"]`)) span.textContent = text;
        const chart = get(`by-${name}`);
        const [, , start, end] = plan.axes[name];
        const x = start + share(name) * (end - start);
        const cursor = chart.querySelector(".cursor");
        cursor.setAttribute("x1", x);
        cursor.setAttribute("x2", x);
        for (const curve of chart.querySelectorAll(".curve")) {
          curve.setAttribute("d", line(plan.errors[curve.dataset.place], name));
        }
      }
      const home = share("epsilon") === 0.5 && share("users") === 0.5;
      for (const cell of document.querySelectorAll("[data-error]")) {
        const error = errorAt(plan.errors[cell.dataset.error], share("epsilon"), share("users"));
        cell.textContent = error === null ? (home ? cell.dataset.own : "–") : digits(error, 4);
      }
    };

    for (const slider of Object.values(sliders)) slider.addEventListener("input", update);
    get("back").addEventListener("click", () => {
      for (const slider of Object.values(sliders)) slider.value = 100;
      update();
    });
    for (const name of ["epsilon", "users"]) {
      const chart = get(`by-${name}`);
      const move = (event) => {
        const box = chart.getBoundingClientRect();
        const [, , start, end] = plan.axes[name];
        const x = ((event.clientX - box.left) / box.width) * chart.viewBox.baseVal.width;
        sliders[name].value = Math.round(Math.min(Math.max((x - start) / (end - start), 0), 1) * 200);
        update();
      };
      chart.addEventListener("pointerdown", (event) => {
        chart.setPointerCapture(event.pointerId);
        move(event);
      });
      chart.addEventListener("pointermove", (event) => { if (event.buttons) move(event); });
    }

    update();
  };
  if (plan.errors) curves(); // a page of several questions has no sliders for them

  const percent = (p) => {
    const x = 100 * p;
    if (x > 99.9) return `${(Math.floor(x * 1000) / 1000).toFixed(3)}%`;
    return x < 0.1 ? `${x.toPrecision(1)}%` : `${x.toFixed(1)}%`;
  };
  const odds = (p) => (p < 0.5 ? `1 to ${digits((1 - p) / p, 3)}` : `${digits(p / (1 - p), 3)} to 1`);
  get("prior").addEventListener("input", (event) => {
    const prior = Number(event.target.value) / 100;
    const factor = Math.exp(plan.exact_epsilon);
    const after = (f) => (prior * f) / (prior * f + 1 - prior);
    const [low, high] = [after(1 / factor), after(factor)];
    get("prior-value").textContent = `${event.target.value}%`;
    event.target.setAttribute("aria-valuetext", `${event.target.value}%`);
    for (const [name, p] of [["prior", prior], ["low", low], ["high", high]]) {
      get(`worked-${name}`).textContent = percent(p);
      get(`odds-${name}`).textContent = odds(p);
    }
    const linear = ([low, high, start, end], x) => start + ((x - low) / (high - low)) * (end - start);
    const x = linear(plan.axes.prior, prior);
    const y = [linear(plan.axes.posterior, low), linear(plan.axes.posterior, high)];
    for (const [end, at] of [["x1", x], ["x2", x], ["y1", y[0]], ["y2", y[1]]]) get("range").setAttribute(end, at);
    for (const [i, end] of ["low", "high"].entries()) {
      get(`range-${end}`).setAttribute("cx", x);
      get(`range-${end}`).setAttribute("cy", y[i]);
    }
  });
})();
