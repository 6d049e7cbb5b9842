/** Programs of others are let in, each as its users start it (rules: OAuth). */
import { describe, expect, test } from "bun:test";
import { join } from "node:path";
import { takePort } from "../harness/port.ts";
import { startOAuth } from "../harness/servers/oauth.ts";
import { letIn, startClient } from "./oauth-clients.ts";

const SUITE = join(import.meta.dir, "../../node_modules/@modelcontextprotocol/conformance/dist/index.js");
const AUTHORIZE = /http:\S+\/oauth\/authorize\?\S+/;

test("the conformance suite's scenarios for authorization servers pass", async () => {
  const world = await startOAuth();
  const port = await takePort();
  const clientId = (await world.register({ redirect_uris: [`http://127.0.0.1:${port}/callback`] })).body.client_id;
  const options = [
    "--url",
    world.origin,
    "--resource",
    world.resource,
    "--client-id",
    clientId,
    "--port",
    String(port),
  ];
  const run = startClient([process.execPath, SUITE, "authorization", ...options]);
  await letIn(world, (await run.saying(AUTHORIZE))[0]);
  const said = await run.ended;
  expect(said).toMatch(/3 passed, 0 failed/);
  expect(await run.child.exited).toBe(0);
}, 120_000);

const remote = Bun.which("mcp-remote");

/** Not dependencies of the project, because of their size. */
describe.skipIf(!remote)("mcp-remote (npm install -g mcp-remote@0.15.1)", () => {
  test("is let in, and passes on what a program without OAuth asks", async () => {
    const world = await startOAuth();
    const port = String(await takePort());
    const run = startClient([remote ?? "", world.resource, port, "--transport", "http-only", "--allow-http"]);
    await letIn(world, (await run.saying(AUTHORIZE))[0]);
    const send = (message: object) => run.child.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
    const clientInfo = { name: "test", version: "1" };
    send({ id: 1, method: "initialize", params: { protocolVersion: "2025-06-18", capabilities: {}, clientInfo } });
    await run.saying(/"serverInfo":\{"name":"mailroom"/);
    send({ method: "notifications/initialized" });
    send({ id: 2, method: "tools/call", params: { name: "list_mailboxes", arguments: {} } });
    await run.saying(/"id":2.*alice@example\.test|alice@example\.test.*"id":2/);
    run.child.kill();
    await run.ended;
    const grant = (await world.keys()).find(({ client }) => client);
    expect(grant?.client.name).toContain("MCP");
  }, 120_000);
});

const inspector = Bun.which("mcp-inspector");

describe.skipIf(!inspector)("inspector (npm install -g @modelcontextprotocol/inspector@2.12.0)", () => {
  test("is let in on the command line", async () => {
    const world = await startOAuth();
    const back = `http://127.0.0.1:${await takePort()}/oauth/callback`;
    const target = [world.resource, "--transport", "http", "--callback-url", back];
    const call = ["--method", "tools/call", "--tool-name", "list_mailboxes"];
    // It has no terminal here, and would open a browser that is not there.
    const run = startClient([inspector ?? "", "--cli", ...target, ...call], { MCP_AUTO_OPEN_ENABLED: "true" });
    await letIn(world, (await run.saying(AUTHORIZE))[0]);
    expect(await run.ended).toContain("alice@example.test");
  }, 120_000);
});
