/** `node test/report.js DOCUMENT COUNT VALUE`: reports of a value in JSON, one line of hex each. */

import { readFileSync } from "node:fs";
import { Client } from "../jaxdp.js";

const [document, count, value] = process.argv.slice(2);
const client = new Client(readFileSync(document, "utf8"));
for (let i = 0; i < Number(count); i++) {
  console.log(Buffer.from(client.report(JSON.parse(value))).toString("hex"));
}
