/** What is wrong with the client: the checks that Node and browsers run. Each returns lines. */

import { Client, Program } from "../jaxdp.js";

const hex = (bytes) => Array.from(bytes, (x) => x.toString(16).padStart(2, "0")).join("");

/** As `localStorage`. */
export function memory() {
  const held = new Map();
  return {
    held,
    getItem: (name) => held.get(name) ?? null,
    setItem: (name, value) => held.set(name, value),
  };
}

/** Of test vectors, the content of one of the files in docs/_static/test_vectors. */
export function wrongReports({ collection, reports }) {
  const client = new Client(JSON.stringify(collection), memory());
  const header = `01${collection.fingerprint}`;
  return reports.flatMap(({ words, value, report }, i) => {
    const made = header + hex(client.payload(words, value));
    return made === report ? [] : [`report ${i}: ${made}, not ${report}`];
  });
}

/** Of programs `{ name, program, inputs, outputs }`, whose arrays are flat. */
export function wrongPrograms(programs) {
  return programs.flatMap(({ name, program, inputs, outputs }) => {
    const made = new Program(program).run(inputs).map((array) => Array.from(array));
    const same = made.every((array, i) => array.every((x, j) => x === outputs[i][j]));
    const sizes = String(made.map((array) => array.length));
    return same && sizes === String(outputs.map((array) => array.length))
      ? []
      : [`program ${name}`];
  });
}

/** Of reports by the platform's randomness. */
export function wrongRandomness({ collection, reports: [{ value, report }] }) {
  // Parsed, and with its keys in another order, it is the same collection.
  const client = new Client(Object.fromEntries(Object.entries(collection).reverse()), memory());
  const made = Array.from({ length: 100 }, () => hex(client.report(value)));
  const sizes = made.every((each) => each.length === report.length);
  const headers = made.every((each) => each.startsWith(`01${collection.fingerprint}`));
  // At epsilon = 1 no report is likelier than 0.74: they are the same in 1 of 10^13 runs.
  const random = new Set(made).size > 1;
  return [
    ...(sizes ? [] : ["the size of a report"]),
    ...(headers ? [] : ["the header of a report"]),
    ...(random ? [] : ["reports are all the same"]),
  ];
}

/** Of what a client remembers of its user, in a collection of remembered filters. */
export function wrongMemory({ collection }) {
  const held = memory();
  const client = () => new Client(collection, held); // as after a restart
  for (const value of [0, 0, 1]) {
    client().report(value);
  }
  const values = [...held.held.values()];
  const names = [0, 1].map((value) => `${collection.fingerprint} 0${value}000000`);
  const [name] = names;
  const size = 8 * collection.permanent_words;
  const words = values.every((each) => each.length === size && /^[0-9a-f]*$/.test(each));
  const first = held.getItem(name);
  client().report(0);
  const kept = held.getItem(name) === first;
  return [
    ...(String([...held.held.keys()]) === String(names) ? [] : ["the names of what is remembered"]),
    ...(words ? [] : ["the words that are remembered"]),
    ...(kept && new Set(values).size === 2 ? [] : ["what is remembered changes"]),
  ];
}

/** Of what is refused; `vectors` by name, for documents of bins, labels, a number and a vector. */
export function wrongErrors({ bins, labels, number, vector, remembered }) {
  const client = (vectors, changes = {}) => new Client({ ...vectors.collection, ...changes });
  const refused = [
    [RangeError, /value must be an integer in \[0, 16\), got 16\./, () => client(bins).report(16)],
    [RangeError, /value must be an integer/, () => client(bins).report(-1)],
    [RangeError, /value must be an integer/, () => client(bins).report(0.5)],
    [RangeError, /value must be an integer/, () => client(bins).report("3")],
    [
      RangeError,
      /value must be one of the labels "S.*, got "s"\./,
      () => client(labels).report("s"),
    ],
    [RangeError, /value must be one of the labels .*, got 0\./, () => client(labels).report(0)],
    [RangeError, /value must be finite in float32, got NaN/, () => client(number).report(NaN)],
    [RangeError, /value must be finite .*, got Infinity/, () => client(number).report(Infinity)],
    [RangeError, /value must be finite .*, got 1e\+39/, () => client(number).report(1e39)],
    [
      RangeError,
      /value must be numbers of shape \[\], got \[1\]/,
      () => client(number).report([1]),
    ],
    [RangeError, /value must be numbers .*, got null/, () => client(number).report(null)],
    [RangeError, /value must be numbers .*, got true/, () => client(number).report(true)],
    [RangeError, /value must be numbers .*, got undefined/, () => client(number).report()],
    [RangeError, /value must be numbers of shape \[3\]/, () => client(vector).report([1, 2])],
    [RangeError, /value must be numbers of shape \[3\]/, () => client(vector).report([[1, 2, 3]])],
    [RangeError, /value must be numbers of shape \[3\]/, () => client(vector).report([1, 2, "3"])],
    [RangeError, /value must be finite/, () => client(vector).report([0, NaN, 0])],
    [RangeError, /words must be 1 integers/, () => client(bins).payload([1, 2], 3)],
    [TypeError, /memory must outlive the page/, () => client(remembered)],
    [
      Error,
      /memory holds "0g" for this value/,
      () =>
        new Client(remembered.collection, { getItem: () => "0g", setItem: () => {} }).report(0),
    ],
    [Error, /of version 2/, () => client(bins, { jaxdp_collection: 2 })],
    [Error, /of version undefined/, () => new Client("{}")],
    [Error, /what its fingerprint says/, () => client(bins, { epsilon: 0.5 })],
    [Error, /what its fingerprint says/, () => client(bins, { purpose: "another" })],
    [Error, /what its fingerprint says/, () => client(bins, { fingerprint: "00".repeat(8) })],
    [SyntaxError, /JSON/, () => new Client(JSON.stringify(bins.collection).slice(0, -1))],
    [Error, /unknown operation "toString"/, () => program([["toString", "bool", [], [0], {}]])],
    [Error, /"neg" reads a value that is not made/, () => program([["neg", "int32", [], [1], {}]])],
    [Error, /the program returns a value that is not made/, () => program([])],
    [Error, /dtype must be one of/, () => program([["neg", "int64", [], [0], {}]])],
  ];
  const program = (code) =>
    new Program({ inputs: [["int32", []]], constants: [], code, outputs: [1] });
  return refused.flatMap(([kind, pattern, call]) => {
    try {
      call();
    } catch (error) {
      const expected = error instanceof kind && pattern.test(error.message);
      return expected ? [] : [`${pattern} expected, got ${error}`];
    }
    return [`${pattern} expected, but nothing was refused`];
  });
}

/** All that vectors by name check: `[lines of what is wrong, number of reports]`. */
export function check(vectors) {
  const wrong = Object.entries(vectors).flatMap(([name, each]) => {
    return [...wrongReports(each), ...wrongRandomness(each)].map((line) => `${name}: ${line}`);
  });
  const named = {
    bins: vectors["krr-16"],
    labels: vectors["krr-5"],
    number: vectors.laplace,
    vector: vectors.gaussian,
    remembered: vectors["rappor-3"],
  };
  const reports = Object.values(vectors).reduce((sum, each) => sum + each.reports.length, 0);
  return [[...wrong, ...wrongMemory(named.remembered), ...wrongErrors(named)], reports];
}
