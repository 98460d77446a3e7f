(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const get = (id) => document.getElementById(id);
  const place = Object.fromEntries(data.columns.map((column, i) => [column.name, i]));
  const titles = Object.fromEntries(data.columns.map((column) => [column.name, column.title]));
  const value = (row, name) => row[place[name]];
  const isNumber = (name) => data.columns[place[name]].number;
  const levels = (rows, name) => {
    const found = [...new Set(rows.map((row) => value(row, name)))].filter((x) => x !== null);
    return isNumber(name) ? found.sort((a, b) => a - b) : found;
  };
  const text = (x) => {
    if (x === null || x === undefined) return "";
    if (typeof x !== "number") return String(x);
    if (Number.isInteger(x)) return x.toLocaleString("en-US");
    return x !== 0 && (Math.abs(x) < 1e-4 || Math.abs(x) >= 1e7) ? x.toExponential(3) : String(Number(x.toPrecision(5)));
  };
  const shown = { ...data.first, filters: {}, search: "", sort: null, down: false, rows: 100, all: false };

  // Parts of the page.
  const node = (name, attributes = {}, ...children) => {
    const made = document.createElement(name);
    for (const [key, x] of Object.entries(attributes)) {
      if (key.startsWith("on")) made.addEventListener(key.slice(2), x);
      else if (x !== false && x !== null) made.setAttribute(key, x === true ? "" : x);
    }
    made.append(...children);
    return made;
  };
  const drawn = (name, attributes = {}, words = "") => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, x] of Object.entries(attributes)) made.setAttribute(key, x);
    if (words) made.textContent = words;
    return made;
  };
  const picker = (label, id, choices, chosen, change) => {
    const select = node("select", { id, autocomplete: "off", onchange: (event) => change(event.target.value) });
    for (const [x, name] of choices) select.append(node("option", { value: x, selected: x === chosen }, name));
    return node("label", {}, label, select);
  };
  const tick = (label, id, change) => node("label", { class: "tick" },
    node("input", { type: "checkbox", id, autocomplete: "off", onchange: (event) => change(event.target.checked) }), label);

  // The rows that are looked at.
  const chosen = () => {
    const words = shown.search.toLowerCase().split(/\s+/).filter(Boolean);
    return data.rows.filter((row) =>
      Object.entries(shown.filters).every(([name, x]) => x === "" || String(value(row, name)) === x)
      && (words.length === 0 || words.every((word) => row.some((x) => text(x).toLowerCase().includes(word)))));
  };

  // Axes: as few and as plain numbers as in the figures of jaxdp.figures.
  const even = (low, high, most) => {
    const rough = (high - low) / Math.max(most - 2, 1);
    const size = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((m) => m * size).find((x) => x >= rough * (1 - 1e-9));
    const found = [];
    for (let i = Math.ceil(low / step - 1e-9); i <= Math.floor(high / step + 1e-9); i++) found.push(i * step);
    return found;
  };
  const ticks = (low, high, log, most) => {
    if (!log) return even(low, high, most);
    let found = [];
    for (const steps of [[1, 2, 5], [1, 3], [1]]) {
      found = [];
      for (let d = Math.floor(Math.log10(low)); d <= Math.ceil(Math.log10(high)); d++) {
        for (const m of steps) {
          const x = m * 10 ** d;
          if (x >= low * (1 - 1e-9) && x <= high * (1 + 1e-9)) found.push(x);
        }
      }
      if (found.length <= most) return found.length > 2 ? found : even(low, high, most);
    }
    return found.filter((_, i) => i % Math.ceil(found.length / most) === 0);
  };
  const short = (x) => {
    if (x === 0) return "0";
    const size = Math.abs(x);
    if (size >= 1e4 || size < 1e-3) return x.toExponential(size / 10 ** Math.floor(Math.log10(size)) % 1 > 1e-6 ? 1 : 0).replace("e+", "e");
    return String(Number(x.toPrecision(4)));
  };
  const wantsLog = (numbers) => Math.min(...numbers) > 0 && Math.max(...numbers) >= 10 * Math.min(...numbers);
  const isGeometric = (numbers) => {
    if (numbers.length < 3 || numbers[0] <= 0) return false;
    const factors = numbers.slice(1).map((x, i) => x / numbers[i]);
    return Math.max(...factors) < 1.1 * Math.min(...factors);
  };

  const SHAPES = [
    (x, y) => `M${x - 3.5} ${y}a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0 -7 0Z`,
    (x, y) => `M${x - 3.2} ${y - 3.2}h6.4v6.4h-6.4Z`,
    (x, y) => `M${x} ${y - 4.2}l4 7.2h-8Z`,
    (x, y) => `M${x} ${y - 4.4}l4.4 4.4l-4.4 4.4l-4.4 -4.4Z`,
    (x, y) => `M${x} ${y + 4.2}l-4 -7.2h8Z`,
    (x, y) => `M${x - 1.4} ${y - 4}h2.8v2.6h2.6v2.8h-2.6v2.6h-2.8v-2.6h-2.6v-2.8h2.6Z`,
    (x, y) => `M${x - 4} ${y - 2.2}l1.8 -1.8l2.2 2.2l2.2 -2.2l1.8 1.8l-2.2 2.2l2.2 2.2l-1.8 1.8l-2.2 -2.2l-2.2 2.2l-1.8 -1.8l2.2 -2.2Z`,
  ];
  const look = (i) => ({ color: `var(--c${i % 7})`, shape: SHAPES[(i + 3 * Math.floor(i / 7)) % 7] });

  const beside = (kind) => [`${kind}_${shown.y}`, kind].find((name) => name in place && name !== shown.y);
  const bar = (row) => {
    const name = `${shown.y}_stderr`;
    return name in place ? 2 * (value(row, name) ?? 0) : 0;
  };
  // A value with its standard error, both to the second digit of the error.
  const measured = (row, name) => {
    const error = `${name}_stderr` in place ? value(row, `${name}_stderr`) : null;
    const x = value(row, name);
    if (error === null || x === null) return text(x);
    if (!(error > 0 && error < Infinity)) return `${text(x)} ± ${text(error)}`;
    const places = 1 - Math.floor(Math.log10(error));
    const size = Math.max(Math.abs(x), error);
    if (size >= 1e-3 && size < 1e7) {
      const digits = Math.min(Math.max(places, 0), 8);
      return `${x.toFixed(digits)} ± ${error.toFixed(digits)}`;
    }
    const leading = x === 0 ? 0 : Math.floor(Math.log10(Math.abs(x)));
    return `${x.toExponential(Math.min(Math.max(leading + places, 0), 20))} ± ${error.toExponential(1)}`;
  };
  const told = (row) => {
    const labels = data.columns.filter((c) => c.label).map((c) => `${c.title} ${text(value(row, c.name))}`);
    const error = bar(row) ? ` ± ${text(bar(row))} (2 s.e.)` : "";
    const expected = beside("predicted") ? `, predicted ${text(value(row, beside("predicted")))}` : "";
    return `${labels.join(", ")}: ${titles[shown.y]} ${text(value(row, shown.y))}${error}${expected}`;
  };

  const panel = (rows, series, scales, width) => {
    const height = Math.round(Math.min(Math.max(0.68 * width, 210), 340));
    const [left, right, top, bottom] = [54, width - 10, 8, height - 40];
    const { xs, logX, lowY, highY, logY } = scales;
    const f = (x, log) => (log ? Math.log(x) : x);
    const numeric = isNumber(shown.x);
    const pad = numeric ? 0.05 : 0;
    const [lowX, highX] = numeric ? [xs[0], xs.at(-1)] : [-0.5, xs.length - 0.5];
    const spanX = f(highX, logX) - f(lowX, logX) || 1;
    const atX = (x) => left + (pad + (1 - 2 * pad) * (highX === lowX ? 0.5 : (f(x, logX) - f(lowX, logX)) / spanX)) * (right - left);
    const spanY = f(highY, logY) - f(lowY, logY) || 1;
    const atY = (y) => bottom - ((f(y, logY) - f(lowY, logY)) / spanY) * (bottom - top);
    const svg = drawn("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", class: "points",
      "aria-label": `${titles[shown.y]} against ${titles[shown.x]}, ${rows.length} points` });
    for (const y of ticks(lowY, highY, logY, Math.floor(height / 42))) {
      svg.append(drawn("line", { class: "grid", x1: left, x2: right, y1: atY(y), y2: atY(y) }));
      svg.append(drawn("text", { x: left - 6, y: atY(y) + 4, "text-anchor": "end" }, short(y)));
    }
    const room = Math.max(2, Math.floor((right - left) / 46));
    const named = !numeric ? xs.map((x, i) => [i, String(x)])
      : (xs.length <= room ? xs : ticks(lowX, highX, logX, room)).map((x) => [x, short(x)]);
    const letters = Math.max(4, Math.floor((right - left) / named.length / 6.6));
    for (const [x, name] of named) {
      svg.append(drawn("line", { class: "axis", x1: atX(x), x2: atX(x), y1: bottom, y2: bottom + 4 }));
      const word = numeric || name.length <= letters ? name : `${name.slice(0, letters - 1)}…`;
      svg.append(drawn("text", { x: atX(x), y: bottom + 17, "text-anchor": "middle" }, word));
    }
    svg.append(drawn("line", { class: "axis", x1: left, x2: right, y1: bottom, y2: bottom }));
    svg.append(drawn("text", { class: "label", x: (left + right) / 2, y: height - 6, "text-anchor": "middle" }, titles[shown.x]));
    // Of two sweeps one would lie on the other.
    const aside = (i) => (numeric && shown.hue === "sweep" ? (i - (series.length - 1) / 2) * 9 : 0);
    const clip = (y) => Math.min(Math.max(y, top), bottom);
    const spots = [];
    series.forEach((level, i) => {
      const own = rows.filter((row) => !shown.hue || value(row, shown.hue) === level);
      const { color, shape } = look(i);
      const shift = numeric ? 0 : ((i - (series.length - 1) / 2) * 0.6) / series.length;
      const at = (row) => atX(numeric ? value(row, shown.x) : xs.indexOf(value(row, shown.x)) + shift);
      // One line for what shares all labels but x.
      const lines = new Map();
      for (const row of own) {
        const key = data.columns.filter((c) => c.label && c.name !== shown.x).map((c) => value(row, c.name)).join("\n");
        lines.set(key, [...(lines.get(key) ?? []), row]);
      }
      const path = (line, name) => {
        let d = "", pen = "M";
        for (const row of line) {
          const y = value(row, name);
          if (y === null || (logY && y <= 0)) { pen = "M"; continue; }
          d += numeric ? `${pen}${at(row).toFixed(1)} ${atY(y).toFixed(1)}` : `M${(at(row) - 9).toFixed(1)} ${atY(y).toFixed(1)}h18`;
          pen = "L";
        }
        return d;
      };
      for (const line of lines.values()) {
        if (numeric) line.sort((a, b) => value(a, shown.x) - value(b, shown.x));
        for (const kind of ["predicted", "bound"]) {
          if (beside(kind)) svg.append(drawn("path", { class: `line ${kind}`, style: `stroke: ${color}`, d: path(line, beside(kind)) }));
        }
        if (numeric && !beside("predicted")) svg.append(drawn("path", { class: "line", style: `stroke: ${color}`, d: path(line, shown.y) }));
        for (const row of line) {
          const y = value(row, shown.y);
          if (logY && y <= 0) continue;
          const x = at(row) + aside(i), half = bar(row);
          if (half) {
            const low = logY && y - half <= 0 ? bottom : atY(y - half);
            svg.append(drawn("line", { style: `stroke: ${color}`, x1: x, x2: x, y1: clip(low), y2: clip(atY(y + half)) }));
          }
          svg.append(drawn("path", { class: "point", style: `fill: ${color}`, d: shape(x, atY(y)) }));
          spots.push([x, atY(y), row]);
        }
      }
    });
    const ring = drawn("circle", { class: "ring", r: 7, visibility: "hidden" });
    svg.append(ring);
    const near = (event) => {
      const box = svg.getBoundingClientRect();
      const [x, y] = [((event.clientX - box.left) / box.width) * width, ((event.clientY - box.top) / box.height) * height];
      let best = null, least = 60 ** 2;
      for (const spot of spots) {
        const far = (spot[0] - x) ** 2 + (spot[1] - y) ** 2;
        if (far < least) [best, least] = [spot, far];
      }
      if (!best) return;
      for (const other of document.querySelectorAll(".ring")) other.setAttribute("visibility", "hidden");
      for (const [name, at] of [["cx", best[0]], ["cy", best[1]], ["visibility", "visible"]]) ring.setAttribute(name, at);
      get("told").textContent = told(best[2]);
    };
    svg.addEventListener("pointermove", near);
    svg.addEventListener("pointerdown", near);
    return svg;
  };

  const draw = (rows) => {
    const points = rows.filter((row) => value(row, shown.y) !== null && value(row, shown.x) !== null);
    const box = get("panels");
    box.replaceChildren();
    get("names").replaceChildren();
    get("told").textContent = points.length ? "Point at a mark to read it." : "No rows to draw.";
    if (!points.length) return;
    const heights = [shown.y, beside("predicted"), beside("bound")].filter(Boolean)
      .flatMap((name) => points.map((row) => value(row, name)).filter((y) => y !== null));
    const xs = levels(points, shown.x);
    const logX = isNumber(shown.x) && xs[0] > 0 && (shown.logX ?? (wantsLog(xs) || isGeometric(xs)));
    const positive = heights.filter((y) => y > 0);
    const logY = positive.length > 0 && (shown.logY ?? wantsLog(heights));
    get("log-x").checked = logX;
    get("log-y").checked = logY;
    const used = logY ? positive : heights;
    let [lowY, highY] = [Math.min(...used), Math.max(...used)];
    if (logY) [lowY, highY] = [lowY / 1.25, highY * 1.25];
    else {
      const margin = 0.06 * (highY - lowY || Math.abs(highY) || 1);
      [lowY, highY] = [lowY >= 0 && lowY < 0.4 * highY ? 0 : lowY - margin, highY + margin];
    }
    const series = shown.hue ? levels(points, shown.hue) : [null];
    const names = shown.col ? levels(points, shown.col) : [null];
    box.className = names.length === 1 ? "one" : "";
    const boxes = names.map((name) => {
      const figure = node("figure", {}, ...(name === null ? [] : [node("h3", {}, `${titles[shown.col]} ${text(name)}`)]));
      box.append(figure);
      return figure;
    });
    boxes.forEach((figure, i) => {
      const own = points.filter((row) => !shown.col || value(row, shown.col) === names[i]);
      figure.append(panel(own, series, { xs, logX, lowY, highY, logY }, Math.max(Math.round(figure.clientWidth), 240)));
    });
    const named = (name, style, shape, kind = "") => {
      const svg = drawn("svg", { viewBox: "0 0 30 14", "aria-hidden": "true" });
      if (kind) svg.append(drawn("path", { class: `line ${kind}`, style: `stroke: ${style}`, d: "M1 7H29" }));
      if (shape) svg.append(drawn("path", { style: `fill: ${style}`, d: shape(15, 7) }));
      get("names").append(node("li", {}, svg, name));
    };
    if (shown.hue) series.forEach((level, i) => named(isNumber(shown.hue) ? `${titles[shown.hue]} ${text(level)}` : text(level), look(i).color, look(i).shape));
    for (const kind of ["predicted", "bound"]) if (beside(kind)) named(kind, "var(--quiet)", null, kind);
  };

  const order = (a, b) => {
    if (a === null || b === null) return (a === null) - (b === null);
    return typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true });
  };
  const sheet = (table, heads, rows, body, sort) => {
    const line = node("tr");
    for (const head of heads) {
      const th = node("th", { scope: "col", class: head.number ? "n" : null,
        "aria-sort": shown.sort === head.name ? (shown.down ? "descending" : "ascending") : null });
      th.append(sort && head.name ? node("button", { type: "button", onclick: () => sort(head.name) }, head.head) : head.head);
      line.append(th);
    }
    table.replaceChildren(node("thead", {}, line), node("tbody", {}, ...rows.map(body)));
  };
  const list = (rows) => {
    const heads = data.columns.filter((column) => shown.all || column.shown);
    const sorted = rows.map((row, i) => [row, i]);
    if (shown.sort) {
      sorted.sort(([a, i], [b, j]) => {
        const [x, y] = [value(a, shown.sort), value(b, shown.sort)];
        const by = order(x, y);
        return (x === null || y === null ? by : shown.down ? -by : by) || i - j;
      });
    }
    const some = sorted.slice(0, shown.rows).map(([row]) => row);
    sheet(get("sheet"), [...heads, { head: "cell" }], some, (row) => {
      const cell = data.cells[row.at(-1)];
      const line = node("tr", {}, ...heads.map((h) => node("td", { class: h.number ? "n" : null },
        shown.all ? text(value(row, h.name)) : measured(row, h.name))));
      line.append(node("td", {}, node("a", { href: cell.href }, "rows"), " ",
        node("button", { type: "button", onclick: () => specify(cell) }, "spec")));
      return line;
    }, (name) => {
      [shown.down, shown.sort] = [shown.sort === name && !shown.down, name];
      list(chosen());
    });
    get("count").textContent = `${some.length.toLocaleString("en-US")} of ${rows.length.toLocaleString("en-US")} rows`
      + (rows.length < data.rows.length ? `, ${data.rows.length.toLocaleString("en-US")} without filters` : "");
    get("more").hidden = some.length === rows.length;
  };
  const specify = (cell) => {
    get("cell-label").textContent = cell.label;
    get("cell-spec").textContent = cell.spec;
    get("cell").hidden = false;
    get("cell").scrollIntoView({ block: "nearest" });
  };

  // Two sweeps: the same labels in both.
  const compare = (rows) => {
    const labels = data.columns.filter((column) => column.label && column.name !== "sweep");
    const pairs = new Map();
    for (const row of rows) {
      const key = JSON.stringify(labels.map((label) => value(row, label.name)));
      const pair = pairs.get(key) ?? [null, null];
      pair[data.sweeps.indexOf(value(row, "sweep"))] = row;
      pairs.set(key, pair);
    }
    const both = [...pairs.values()].filter(([a, b]) => a && b && value(a, shown.y) !== null && value(b, shown.y) !== null);
    const heads = [...labels.map((label) => ({ head: label.head, number: label.number })),
      ...data.sweeps.map((name) => ({ head: `${data.columns[place[shown.y]].head}, ${name}`, number: true })),
      { head: "ratio", number: true }, { head: "difference in s.e.", number: true }];
    sheet(get("pairs"), heads, both.slice(0, 500), ([a, b]) => {
      const [x, y] = [value(a, shown.y), value(b, shown.y)];
      const error = Math.hypot(bar(a), bar(b)) / 2;
      const cells = [...labels.map((label) => value(a, label.name)), x, y, x ? y / x : null, null];
      const line = node("tr", {}, ...cells.map((cell, i) => node("td", { class: heads[i].number ? "n" : null }, text(cell))));
      if (error) line.lastChild.textContent = ((y - x) / error).toFixed(1);
      return line;
    });
    get("pair-count").textContent = `${both.length.toLocaleString("en-US")} of ${pairs.size.toLocaleString("en-US")} are in both`;
  };

  const update = () => {
    const rows = chosen();
    draw(rows);
    list(rows);
    if (get("pairs")) compare(rows);
  };
  const set = (name) => (x) => { shown[name] = x; update(); };
  const redraw = (name) => (x) => {
    Object.assign(shown, { [name]: x, ...(name === "x" ? { logX: null } : name === "y" ? { logY: null } : {}) });
    update();
  };

  const start = () => {
    const numbers = data.columns.filter((column) => column.number);
    const labels = data.columns.filter((column) => column.label);
    const names = (some) => some.map((column) => [column.name, column.title]);
    get("axes").append(
      picker("x axis", "pick-x", names([...labels, ...numbers.filter((column) => !column.label)]), shown.x, redraw("x")),
      picker("y axis", "pick-y", names(numbers), shown.y, redraw("y")),
      picker("series", "pick-hue", [["", "all alike"], ...names(labels)], shown.hue, redraw("hue")),
      picker("panels", "pick-col", [["", "one"], ...names(labels)], shown.col, redraw("col")),
      tick("log x", "log-x", set("logX")),
      tick("log y", "log-y", set("logY")));
    for (const column of labels) {
      const found = levels(data.rows, column.name);
      if (found.length < 2 || found.length > 60) continue;
      get("filters").append(picker(column.title, `only-${column.name}`,
        [["", "all"], ...found.map((x) => [String(x), text(x)])], "", (x) => { shown.filters[column.name] = x; update(); }));
    }
    get("filters").append(node("label", {}, "search",
      node("input", { type: "search", id: "search", autocomplete: "off", oninput: (event) => set("search")(event.target.value) })));
    get("more").addEventListener("click", () => { shown.rows += 500; list(chosen()); });
    get("wide").addEventListener("change", (event) => { shown.all = event.target.checked; list(chosen()); });
    let width = innerWidth;
    addEventListener("resize", () => {
      if (innerWidth === width) return;
      width = innerWidth;
      draw(chosen());
    });
    update();
  };
  if (data.rows.length) start();
})();
