/** A parser that starts at once and does not parse. It returns the subject, hangs or dies, as the message says. */
import type { ToParser } from "../../src/workers/jobs.ts";
import { obeyPoison } from "./poison.ts";

process.on("message", (data: ToParser) => {
  if (!("source" in data) || !(data.source instanceof Uint8Array)) throw new Error("only bytes are expected here");
  const text = Buffer.from(data.source).toString("latin1");
  obeyPoison(text);
  const subject = /^Subject: (.*)\r$/m.exec(text)?.[1];
  process.send?.({ id: data.id, result: { message: { subject } } });
});
process.send?.({ ready: true });
