/** The worker for documents, where each document leaves a rejection behind that nobody handles, as pdf.js does. */
import "../../src/workers/document-worker.ts";
import type { ToWorker } from "../../src/workers/jobs.ts";

declare const self: Worker;

const handle = self.onmessage;
self.onmessage = (event: MessageEvent<ToWorker>) => {
  void Promise.reject(new Error("left behind"));
  handle?.call(self, event);
};
