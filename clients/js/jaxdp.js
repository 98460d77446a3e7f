/**
 * Makes private reports of users' values: the client of collections of jaxdp, in one file.
 *
 * A collection's document holds the randomizer as a program of a few operations on arrays, which
 * `jaxdp/reports/_interpreter.py` defines and which runs here for one user at a time.
 */

const VERSION = 1;
const FINGERPRINT_BYTES = 8;
const MAX_RANDOM_BYTES = 65536; // what browsers give at once

// Node 18 has it in a module only.
const crypto = globalThis.crypto ?? (await import("node:crypto")).webcrypto;

/** What runs on a user's device: a value in, bytes out. `jaxdp.d.ts` says more. */
export class Client {
  #bins;
  #program;
  #layout;
  #header;
  #memory;
  #remembered;

  constructor(collection, memory) {
    const document = parsed(collection);
    this.#remembered = document.permanent_words ?? 0;
    if (this.#remembered && !memory) {
      throw new TypeError(
        "memory must outlive the page, as localStorage does: users of this collection report " +
          "again and again, of what they remember.",
      );
    }
    this.#memory = memory;
    this.purpose = document.purpose;
    this.epsilon = document.epsilon;
    this.labels = document.labels === null ? null : Object.freeze([...document.labels]);
    this.#bins = document.bins;
    this.#program = new Program(document.program);
    this.#layout = new Layout(document.report);
    this.#header = [VERSION, ...hexBytes(document.fingerprint)];
    Object.freeze(this);
  }

  report(value) {
    const words = new Uint32Array(this.#program.inputs[0].shape[0]);
    const bytes = new Uint8Array(words.buffer);
    for (let begin = 0; begin < bytes.length; begin += MAX_RANDOM_BYTES) {
      crypto.getRandomValues(bytes.subarray(begin, begin + MAX_RANDOM_BYTES));
    }
    const leaves = this.#leaves(value);
    if (this.#remembered) {
      this.#remember(leaves, bytes.subarray(0, 4 * this.#remembered));
    }
    return Uint8Array.from([...this.#header, ...this.#made(words, leaves)]);
  }

  #made(words, leaves) {
    return this.#layout.encode(this.#program.run([words, ...leaves]));
  }

  /** Fresh words of a permanent report become those that the memory holds of the value, if any. */
  #remember(leaves, permanent) {
    const parts = leaves.map((leaf) => hex(new Uint8Array(leaf.buffer)));
    const name = [hex(this.#header.slice(1)), ...parts].join(" ");
    const held = this.#memory.getItem(name);
    if (held === null || held === undefined) {
      this.#memory.setItem(name, hex(permanent));
    } else if (!/^([0-9a-f]{2})*$/.test(held) || held.length !== 2 * permanent.length) {
      throw new Error(
        `memory holds ${shown(held)} for this value in place of ${permanent.length} bytes: it is ` +
          "damaged. Restore it; a new permanent report would spend epsilon again.",
      );
    } else {
      permanent.set(hexBytes(held));
    }
  }

  payload(words, value) {
    const [count] = this.#program.inputs[0].shape;
    if (words.length !== count) {
      throw new RangeError(`words must be ${count} integers of 32 bits, got ${words.length}.`);
    }
    return this.#made(words, this.#leaves(value));
  }

  #leaves(value) {
    if (this.#bins !== null) {
      return [Int32Array.of(this.#bin(value))];
    }
    const kinds = this.#program.inputs.slice(1);
    const parts = kinds.length === 1 ? [value] : value;
    if (parts?.length !== kinds.length) {
      throw new RangeError(`value must have ${kinds.length} parts, got ${shown(value)}.`);
    }
    return kinds.map(({ dtype, shape }, i) => {
      const [numbers, found] = flat(parts[i]);
      if (String(found) !== String(shape)) {
        throw new RangeError(`value must be numbers of shape [${shape}], got ${shown(value)}.`);
      }
      const leaf = ARRAYS[dtype].from(numbers);
      if (!numbers.every(Number.isFinite) || !leaf.every(Number.isFinite)) {
        throw new RangeError(
          `value must be finite in ${dtype}, got ${shown(value)}; leave such users out.`,
        );
      }
      return leaf;
    });
  }

  #bin(value) {
    if (this.labels !== null) {
      const bin = this.labels.indexOf(value);
      if (bin < 0) {
        const labels = this.labels.map(shown).join(", ");
        throw new RangeError(`value must be one of the labels ${labels}, got ${shown(value)}.`);
      }
      return bin;
    }
    if (!Number.isInteger(value) || value < 0 || value >= this.#bins) {
      throw new RangeError(`value must be an integer in [0, ${this.#bins}), got ${shown(value)}.`);
    }
    return value;
  }
}

/** The numbers of a value, row after row, and its shape; no shape where it is none. */
function flat(value) {
  if (typeof value === "number") {
    return [[value], []];
  }
  if (!Array.isArray(value) && !(ArrayBuffer.isView(value) && !(value instanceof DataView))) {
    return [[], null];
  }
  const rows = Array.from(value, flat);
  const shapes = new Set(rows.map(([, shape]) => JSON.stringify(shape)));
  const same = shapes.size <= 1 && !shapes.has("null");
  const shape = same ? [value.length, ...(rows[0]?.[1] ?? [])] : null;
  return [rows.flatMap(([numbers]) => numbers), shape];
}

function shown(value) {
  if (typeof value === "object" && value !== null) {
    return `[${Array.from(value, shown)}]`;
  }
  return typeof value === "string" ? JSON.stringify(value) : String(value);
}

// ---- The document.

function parsed(collection) {
  const document = typeof collection === "string" ? JSON.parse(collection) : collection;
  if (document?.jaxdp_collection !== VERSION) {
    throw new Error(
      `the collection is of version ${document?.jaxdp_collection}, and this client reads version ` +
        `${VERSION}; update the older of the two.`,
    );
  }
  const { fingerprint, ...rest } = document;
  const digest = sha256(new TextEncoder().encode(canonical(rest)));
  if (fingerprint !== hex(digest.subarray(0, FINGERPRINT_BYTES))) {
    throw new Error(
      "the collection is not what its fingerprint says: it was cut off or changed; get it anew " +
        "from whoever collects.",
    );
  }
  return document;
}

/** The one text of plain values that RFC 8785 allows. */
function canonical(data) {
  if (Array.isArray(data)) {
    return `[${data.map(canonical)}]`;
  }
  if (typeof data === "object" && data !== null) {
    const parts = Object.keys(data)
      .sort()
      .map((key) => `${canonical(key)}:${canonical(data[key])}`);
    return `{${parts}}`;
  }
  return JSON.stringify(data);
}

function hex(bytes) {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

function hexBytes(text) {
  return text.match(/../g).map((pair) => parseInt(pair, 16));
}

/** Of FIPS 180-4; the one of browsers answers later, and on pages of https only. */
function sha256(message) {
  const padded = new Uint8Array(((message.length + 72) >> 6) << 6);
  padded.set(message);
  padded[message.length] = 0x80;
  const view = new DataView(padded.buffer);
  view.setUint32(padded.length - 8, Math.floor(message.length / 2 ** 29));
  view.setUint32(padded.length - 4, message.length << 3);
  const turned = (x, by) => (x >>> by) | (x << (32 - by));
  const hash = Uint32Array.from(PRIMES.slice(0, 8), (prime) => fraction(Math.sqrt(prime)));
  const constants = Uint32Array.from(PRIMES, (prime) => fraction(Math.cbrt(prime)));
  const w = new Uint32Array(64);
  for (let begin = 0; begin < padded.length; begin += 64) {
    for (let t = 0; t < 64; t++) {
      if (t < 16) {
        w[t] = view.getUint32(begin + 4 * t);
      } else {
        const [x, y] = [w[t - 15], w[t - 2]];
        const s0 = turned(x, 7) ^ turned(x, 18) ^ (x >>> 3);
        const s1 = turned(y, 17) ^ turned(y, 19) ^ (y >>> 10);
        w[t] = w[t - 16] + s0 + w[t - 7] + s1;
      }
    }
    let [a, b, c, d, e, f, g, h] = hash;
    for (let t = 0; t < 64; t++) {
      const s1 = turned(e, 6) ^ turned(e, 11) ^ turned(e, 25);
      const t1 = (h + s1 + ((e & f) ^ (~e & g)) + constants[t] + w[t]) | 0;
      const s0 = turned(a, 2) ^ turned(a, 13) ^ turned(a, 22);
      const t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
      [a, b, c, d, e, f, g, h] = [(t1 + t2) | 0, a, b, c, (d + t1) | 0, e, f, g];
    }
    [a, b, c, d, e, f, g, h].forEach((x, i) => (hash[i] += x));
  }
  const digest = new DataView(new ArrayBuffer(32));
  hash.forEach((x, i) => digest.setUint32(4 * i, x));
  return new Uint8Array(digest.buffer);
}

const PRIMES = [];
for (let n = 2; PRIMES.length < 64; n++) {
  if (PRIMES.every((prime) => n % prime)) {
    PRIMES.push(n);
  }
}

/** The first 32 bits of the fraction of a number. */
function fraction(x) {
  return Math.floor((x - Math.floor(x)) * 2 ** 32);
}

// ---- Reports as bytes.

/** How the entries of a report lie in its bytes: `jaxdp/reports/_wire.py` defines it. */
class Layout {
  #low;
  #bits;

  constructor({ leaves, low, high }) {
    const [least, most] = [low, high].map((runs) =>
      runs.flatMap(([value, count]) => Array(count).fill(value)),
    );
    const entries = leaves.reduce((sum, [, shape]) => sum + size(shape), 0);
    if (least.length !== entries || most.length !== entries) {
      throw new Error(
        `a report has ${entries} entries, but ${least.length} and ${most.length} limits.`,
      );
    }
    if (least.some((x, i) => x > most[i])) {
      throw new Error("a report's entry has a least value above its largest.");
    }
    this.#low = least;
    this.#bits = least.map((x, i) => 32 - Math.clz32(most[i] - x));
  }

  encode(leaves) {
    const entries = leaves.flatMap((leaf) => Array.from(leaf));
    const bytes = new Uint8Array(Math.ceil(this.#bits.reduce((sum, n) => sum + n, 0) / 8));
    let place = 0;
    entries.forEach((entry, i) => {
      const distance = entry - this.#low[i];
      for (let bit = 0; bit < this.#bits[i]; bit++, place++) {
        bytes[place >> 3] |= ((distance >>> bit) & 1) << (place & 7);
      }
    });
    return bytes;
  }
}

// ---- Programs.

// Numbers that are stored in them wrap at 32 bits, or are rounded to the nearest float.
const ARRAYS = {
  bool: Uint8Array,
  uint8: Uint8Array,
  int32: Int32Array,
  uint32: Uint32Array,
  float32: Float32Array,
};

/** How a report is made of words and a value; exported for tests. */
export class Program {
  constructor({ inputs, constants, code, outputs }) {
    this.inputs = inputs.map(kindOf);
    this.constants = constants.map(decoded);
    let made = inputs.length + constants.length;
    const check = (numbers, what) => {
      if (!numbers.every((i) => Number.isInteger(i) && i >= 0 && i < made)) {
        throw new Error(`${what} a value that is not made yet.`);
      }
    };
    this.code = code.map(([operation, dtype, shape, operands, options]) => {
      if (!Object.hasOwn(OPERATIONS, operation)) {
        throw new Error(`the program has an unknown operation "${operation}".`);
      }
      check(operands, `"${operation}" reads`);
      made++;
      const body = options.body && new Program(options.body);
      const run = OPERATIONS[operation];
      return { run, kind: kindOf([dtype, shape]), operands, options: { ...options, body } };
    });
    check(outputs, "the program returns");
    this.outputs = outputs;
  }

  /** Of arrays of numbers, row after row; returns such arrays. */
  run(inputs) {
    const values = this.inputs.map((kind, i) => ({
      ...kind,
      data: ARRAYS[kind.dtype].from(inputs[i]),
    }));
    return this.values(values).map(({ data }) => data);
  }

  /** Of values `{ dtype, shape, data }`. */
  values(inputs) {
    const values = [...inputs, ...this.constants];
    for (const { run, kind, operands, options } of this.code) {
      values.push(
        run(
          operands.map((i) => values[i]),
          kind,
          options,
        ),
      );
    }
    return this.outputs.map((i) => values[i]);
  }
}

function kindOf([dtype, shape]) {
  if (!Object.hasOwn(ARRAYS, dtype)) {
    throw new Error(`dtype must be one of ${Object.keys(ARRAYS)}, got "${dtype}".`);
  }
  return { dtype, shape };
}

function decoded([dtype, shape, text]) {
  const kind = kindOf([dtype, shape]);
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const view = new DataView(bytes.buffer);
  const read = {
    bool: (i) => view.getUint8(i),
    uint8: (i) => view.getUint8(i),
    int32: (i) => view.getInt32(4 * i, true),
    uint32: (i) => view.getUint32(4 * i, true),
    float32: (i) => view.getFloat32(4 * i, true),
  }[dtype];
  return { ...kind, data: empty(kind).map((_, i) => read(i)) };
}

function size(shape) {
  let product = 1;
  for (const n of shape) {
    product *= n;
  }
  return product;
}

function empty({ dtype, shape }) {
  return new ARRAYS[dtype](size(shape));
}

/** How far apart the entries are that follow one another along each axis. */
function strides(shape) {
  return shape.map((_, axis) => size(shape.slice(axis + 1)));
}

/** Calls `visit(i, place)` for each entry i of an array, where `steps` say how the place moves. */
function walk(shape, steps, place, visit) {
  const index = shape.map(() => 0);
  const total = size(shape);
  for (let i = 0; i < total; i++) {
    visit(i, place);
    for (let axis = shape.length - 1; axis >= 0; axis--) {
      place += steps[axis];
      if (++index[axis] < shape[axis]) {
        break;
      }
      place -= steps[axis] * shape[axis];
      index[axis] = 0;
    }
  }
}

/** The value whose entries are those of x at places that begin somewhere and move by `steps`. */
function view(x, kind, steps, begin = 0) {
  const data = empty(kind);
  walk(kind.shape, steps, begin, (i, place) => (data[i] = x.data[place]));
  return { ...kind, data };
}

/** An array of a shape, made of one whose axes of length 1 are stretched; numbers stay numbers. */
function stretched(x, shape) {
  for (let axis = 0; axis < x.shape.length; axis++) {
    if (x.shape[axis] !== shape[axis]) {
      const steps = strides(x.shape).map((step, i) => (x.shape[i] === 1 ? 0 : step));
      return view(x, { dtype: x.dtype, shape }, steps);
    }
  }
  return x;
}

/** An operation of which entry i of the result is made of entries i, or of numbers. */
function elementwise(integers, floats = integers) {
  return ([a, b = a, c = b], kind) => {
    const f = c.dtype === "float32" ? floats : integers;
    const data = empty(kind);
    const [x, y, z] = [a, b, c].map((each) => stretched(each, kind.shape).data);
    const [u, v, w] = [a, b, c].map((each) => (each.shape.length ? 1 : 0));
    for (let i = 0; i < data.length; i++) {
      data[i] = f(x[i * u], y[i * v], z[i * w]);
    }
    return { ...kind, data };
  };
}

function reduction(first, f) {
  return ([x], kind, { axes }) => {
    const kept = x.shape.map((_, axis) => axis).filter((axis) => !axes.includes(axis));
    const steps = x.shape.map(() => 0);
    strides(kind.shape).forEach((step, i) => (steps[kept[i]] = step));
    const data = empty(kind).fill(first[kind.dtype] ?? 0);
    walk(x.shape, steps, 0, (i, place) => (data[place] = f(data[place], x.data[i])));
    return { ...kind, data };
  };
}

const clip = (x, least, most) => Math.min(Math.max(x, least), most);

const LIMITS = { int32: [-(2 ** 31), 2 ** 31 - 1], uint32: [0, 2 ** 32 - 1] };

function cast(operands, kind) {
  const integers = kind.dtype === "bool" ? (x) => x !== 0 : (x) => x;
  const limits = LIMITS[kind.dtype];
  // NaN is stored as 0.
  const floats = limits ? (x) => clip(Math.trunc(x), ...limits) : integers;
  return elementwise(integers, floats)(operands, kind);
}

function roundToEven(x) {
  const most = 2 ** 52;
  return Math.abs(x) < most ? x + 1.5 * most - 1.5 * most : x;
}

function not([x], kind) {
  return {
    ...kind,
    data: x.data.map(kind.dtype === "bool" ? (entry) => 1 - entry : (entry) => ~entry),
  };
}

function join(parts, kind, { axis }) {
  const data = empty(kind);
  const outer = size(kind.shape.slice(0, axis));
  let place = 0;
  for (let i = 0; i < outer; i++) {
    for (const part of parts) {
      const row = part.data.length / outer;
      data.set(part.data.subarray(i * row, (i + 1) * row), place);
      place += row;
    }
  }
  return { ...kind, data };
}

function window([x, ...starts], kind) {
  const steps = strides(x.shape);
  const begin = starts.map(({ data }, axis) => clip(data[0], 0, x.shape[axis] - kind.shape[axis]));
  return view(
    x,
    kind,
    steps,
    begin.reduce((sum, start, axis) => sum + start * steps[axis], 0),
  );
}

function rows([x, index], kind) {
  const data = empty(kind);
  const row = size(x.shape.slice(1));
  index.data.forEach((number, i) => {
    const begin = clip(number, 0, x.shape[0] - 1) * row;
    data.set(x.data.subarray(begin, begin + row), i * row);
  });
  return { ...kind, data };
}

function sort(operands, _, { axis }) {
  const { shape, data: key } = operands[0];
  const step = strides(shape)[axis];
  const sorted = operands.map((x) => ({ ...x, data: x.data.slice() }));
  const lines = shape.map((n, i) => (i === axis ? 1 : n));
  walk(lines, strides(shape), 0, (_, begin) => {
    const places = Array.from({ length: shape[axis] }, (_, i) => begin + i * step);
    const order = [...places].sort((a, b) => key[a] - key[b]); // stable
    sorted.forEach(({ data }, i) => {
      order.forEach((from, to) => (data[places[to]] = operands[i].data[from]));
    });
  });
  return sorted;
}

function loop(operands, _, { body, constants, state, steps }) {
  const held = operands.slice(0, constants);
  const rows = operands.slice(constants + state);
  let values = operands.slice(constants, constants + state);
  const made = [];
  for (let step = 0; step < steps; step++) {
    const now = rows.map(({ dtype, shape: [, ...shape], data }) => {
      const length = size(shape);
      return { dtype, shape, data: data.subarray(step * length, (step + 1) * length) };
    });
    const results = body.values([...held, ...values, ...now]);
    values = results.slice(0, state);
    made.push(results.slice(state));
  }
  const stacked = (made[0] ?? []).map(({ dtype, shape }, i) => {
    const kind = { dtype, shape: [steps, ...shape] };
    const data = empty(kind);
    made.forEach((row, step) => data.set(row[i].data, step * size(shape)));
    return { ...kind, data };
  });
  return [...values, ...stacked];
}

function ones(x) {
  let count = 0;
  for (; x; x &= x - 1) {
    count++;
  }
  return count;
}

/** By name, what makes a value of others. */
const OPERATIONS = {
  add: elementwise((a, b) => a + b),
  sub: elementwise((a, b) => a - b),
  mul: elementwise(Math.imul, (a, b) => a * b),
  div: elementwise(
    (a, b) => (b === 0 ? -1 : Math.trunc(a / b)),
    (a, b) => a / b,
  ),
  rem: elementwise(
    (a, b) => (b === 0 ? a : a % b),
    (a, b) => a % b,
  ),
  neg: elementwise((a) => -a),
  abs: elementwise(Math.abs),
  sign: elementwise(Math.sign),
  min: elementwise((a, b) => Math.min(a, b)),
  max: elementwise((a, b) => Math.max(a, b)),
  and: elementwise((a, b) => a & b),
  or: elementwise((a, b) => a | b),
  xor: elementwise((a, b) => a ^ b),
  not,
  eq: elementwise((a, b) => a === b),
  ne: elementwise((a, b) => a !== b),
  lt: elementwise((a, b) => a < b),
  le: elementwise((a, b) => a <= b),
  gt: elementwise((a, b) => a > b),
  ge: elementwise((a, b) => a >= b),
  ones: elementwise(ones),
  shift_left: elementwise((a, by) => (by >>> 0 < 32 ? a << by : 0)),
  shift_right: elementwise((a, by) => (by >>> 0 < 32 ? a >>> by : 0)),
  shift_right_arithmetic: elementwise((a, by) => a >> Math.min(by >>> 0, 31)),
  select: elementwise((which, no, yes) => (which ? yes : no)),
  round: elementwise(roundToEven),
  floor: elementwise(Math.floor),
  sqrt: elementwise(Math.sqrt),
  exp: elementwise(Math.exp),
  log: elementwise(Math.log),
  cast,
  bits: ([{ data }], kind) => ({
    ...kind,
    data: new ARRAYS[kind.dtype](data.buffer, data.byteOffset, data.length),
  }),
  slice: ([x], kind, { start, step }) => {
    const apart = strides(x.shape);
    const begin = start.reduce((sum, first, axis) => sum + first * apart[axis], 0);
    return view(
      x,
      kind,
      apart.map((by, axis) => by * step[axis]),
      begin,
    );
  },
  reshape: ([{ data }], kind) => ({ ...kind, data }),
  spread: ([x], kind, { axes }) => {
    const steps = kind.shape.map(() => 0);
    const apart = strides(x.shape);
    axes.forEach((axis, i) => (steps[axis] = x.shape[i] === 1 ? 0 : apart[i]));
    return view(x, kind, steps);
  },
  transpose: ([x], kind, { axes }) => {
    const apart = strides(x.shape);
    return view(
      x,
      kind,
      axes.map((axis) => apart[axis]),
    );
  },
  join,
  window,
  rows,
  sum: reduction({}, (a, b) => a + b),
  largest: reduction({ float32: -Infinity, int32: LIMITS.int32[0] }, (a, b) => Math.max(a, b)),
  any: reduction({}, (a, b) => a || b),
  loop,
  sort,
  part: ([values], _, { number }) => values[number],
};
