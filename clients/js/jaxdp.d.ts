/** Numbers of one user, of as many axes as its randomizer takes. */
export type Numbers = number | ArrayLike<number> | readonly Numbers[];

/**
 * A value: a label; a bin 0, 1, … of a collection without labels; or a number or array as the
 * randomizer takes it. A vector beyond the ball of the randomizer is scaled into it, a number beyond
 * its range is moved to its end.
 */
export type Value = string | Numbers;

/** What a client remembers of its user, such as `localStorage`; it is as secret as the value. */
export interface Memory {
  getItem(name: string): string | null | undefined;
  setItem(name: string, held: string): void;
}

/**
 * Makes a user's reports, by the randomness of `crypto.getRandomValues`.
 *
 * A report is private whatever else is known, and however often other users report. A user who
 * reports again spends the same ε again: keep the report, and send that one again.
 *
 * @example
 * const client = new Client(await (await fetch("/collection.json")).text());
 * await fetch("/reports", { method: "POST", body: client.report("often") });
 */
export class Client {
  /**
   * @param collection The document of a collection: its JSON, as text or parsed.
   * @param memory Of a collection in which users report again and again, of a permanent report that
   *   they remember: what outlives the page.
   * @throws {TypeError} Reports are remembered, and there is no memory.
   * @throws {Error} The document is of another version, or not what its fingerprint says.
   * @throws {SyntaxError} The text is no JSON.
   */
  constructor(collection: string | object, memory?: Memory);

  /** What users are told that the collection is for. */
  readonly purpose: string;

  /**
   * The ε of one report: no report is likelier than under any other value by more than e^ε. Where
   * reports are remembered, of all reports of one value together.
   */
  readonly epsilon: number;

  /** What a value may be, where the collection names it; null where values are numbers. */
  readonly labels: readonly string[] | null;

  /**
   * One report of a value: a version, the collection's fingerprint, and the bits that are private.
   *
   * @throws {RangeError} The value is no label, no bin, not finite, or of another shape.
   * @throws {Error} What the memory holds is damaged.
   */
  report(value: Value): Uint8Array;

  /**
   * What follows the header in the report of given words: for tests only, never with a user's value
   * and words that anyone can know.
   *
   * @param words As many integers of 32 bits as the randomizer takes.
   * @throws {RangeError} The value is refused as by `report`, or there are more or fewer words.
   */
  payload(words: ArrayLike<number>, value: Value): Uint8Array;
}
