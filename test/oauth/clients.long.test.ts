/** The Python SDK of MCP is let in (rules: OAuth). */
import { describe, expect, test } from "bun:test";
import { join } from "node:path";
import { temporaryFolder } from "../harness/folder.ts";
import { takePort } from "../harness/port.ts";
import { startOAuth } from "../harness/servers/oauth.ts";
import { letIn, startClient } from "./oauth-clients.ts";

const python = Bun.which("python3");

describe.skipIf(!python)(`the Python SDK${python ? "" : " (skipped: no python3)"}`, () => {
  test("is let in, and renews its access", async () => {
    const venv = join(temporaryFolder(), "venv");
    const install = "-m pip --quiet --disable-pip-version-check install mcp==2.3.0".split(" ");
    await startClient([python ?? "", "-m", "venv", venv]).ended;
    await startClient([join(venv, "bin/python"), ...install]).ended;
    const world = await startOAuth();
    const script = join(import.meta.dir, "client.py");
    const run = startClient([join(venv, "bin/python"), script, world.resource, String(await takePort())]);
    await letIn(world, (await run.saying(/http:\S+\/oauth\/authorize\?\S+/))[0]);
    const said = await run.ended;
    expect(said).toMatch(/alice@example\.test[\s\S]*renewed[\s\S]*alice@example\.test/);
    const tokens = world.core.store.db.$client.query("SELECT count(*) AS n FROM oauth_tokens").get();
    expect(tokens).toEqual({ n: 4 });
  }, 300_000);
});
