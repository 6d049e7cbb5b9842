/** The parser, which hangs or dies at certain messages, in parsing or in every task. */
import "../../../src/workers/parser.ts";
import { hearParent } from "../../../src/base/messages.ts";
import type { ToParser } from "../../../src/workers/jobs.ts";
import { obeyPoison } from "./poison.ts";

// Within the turn in which the parser begins.
hearParent((message) => {
  const data = message as ToParser;
  const source = "source" in data ? data.source : undefined;
  const text = source instanceof Uint8Array ? Buffer.from(source).toString("latin1") : "";
  const isParsed = "source" in data && !("shownFrom" in data);
  if (isParsed || text.includes("X-Poison: throw")) obeyPoison(text);
  if (text.includes("X-Poison: always")) process.exit(3);
});
