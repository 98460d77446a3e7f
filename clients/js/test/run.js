/** `node test/run.js FOLDER [PROGRAMS]`: the checks of test vectors, and of programs in a file. */

import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { check, wrongPrograms } from "./check.js";

const [folder, programs] = process.argv.slice(2);
const read = (path) => JSON.parse(readFileSync(path, "utf8"));
const names = readdirSync(folder).filter((name) => name.endsWith(".json"));
const vectors = Object.fromEntries(
  names.map((name) => [name.slice(0, -".json".length), read(join(folder, name))]),
);
const [wrong, reports] = check(vectors);
if (programs) {
  wrong.push(...wrongPrograms(read(programs)));
}
console.log(
  [...wrong, `${names.length} collections, ${reports} reports: ${wrong.length} wrong`].join("\n"),
);
process.exitCode = wrong.length ? 1 : 0;
