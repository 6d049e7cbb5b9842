import { test } from "bun:test";
import { bootExt } from "../../harness/servers/ext-world.ts";
import { createCalls } from "./tool-calls.ts";

test("a PDF of 18 MB is forwarded by its handle for less than 300 tokens in all", async () => {
  await createCalls(await bootExt()).expectForwarded(18_000_000);
}, 60_000);
