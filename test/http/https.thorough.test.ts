/** New certificates while hundreds of connections open. */
import { test } from "bun:test";
import { expectReplacing, WAYS } from "./https-rig.ts";

test.each(WAYS)(
  "a certificate replaced at a listener %s serves new connections, and breaks no open or opening one",
  (_, alpn) => expectReplacing(alpn, 40),
  120_000,
);
