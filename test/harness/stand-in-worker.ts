/** A parser worker that starts at once and does not parse. It returns the subject, hangs or dies, as the message says. */
import type { FromWorker, ToWorker } from "../../src/workers/jobs.ts";
import { obeyPoison } from "./poison.ts";

declare const self: Worker;

self.onmessage = ({ data }: MessageEvent<ToWorker>) => {
  if (!("source" in data) || !(data.source instanceof Uint8Array)) throw new Error("only bytes are expected here");
  const text = Buffer.from(data.source).toString("latin1");
  obeyPoison(text);
  const subject = /^Subject: (.*)\r$/m.exec(text)?.[1];
  self.postMessage({ id: data.id, result: { message: { subject } } } as FromWorker);
};
self.postMessage({ ready: true } satisfies FromWorker);
