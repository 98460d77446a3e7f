/** `node test/report.js DOCUMENT COUNT VALUE`: reports of a value in JSON, one line of hex each. */
// What reports are made of is remembered: they are of one user.

import { readFileSync } from "node:fs";
import { Client } from "../jaxdp.js";
import { memory } from "./check.js";

const [document, count, value] = process.argv.slice(2);
const client = new Client(readFileSync(document, "utf8"), memory());
for (let i = 0; i < Number(count); i++) {
  console.log(Buffer.from(client.report(JSON.parse(value))).toString("hex"));
}
