/** A parser that starts at once and does not parse. It returns the subject, hangs or dies, as the message says. */
import { encodeChildMessage, hearParent, tellParent } from "../../../src/base/child-messages.ts";
import type { ToParser } from "../../../src/workers/jobs.ts";
import { obeyPoison, poisonOf } from "./poison.ts";

hearParent((message) => {
  const data = message as ToParser;
  if (!("source" in data) || !(data.source instanceof Uint8Array)) throw new Error("only bytes are expected here");
  obeyPoison(poisonOf(data));
  const text = Buffer.from(data.source).toString("latin1");
  const subject = /^Subject: (.*)\r$/m.exec(text)?.[1];
  tellParent(encodeChildMessage({ id: data.id, result: { message: { subject } } }));
});
tellParent(encodeChildMessage({ ready: true }));
