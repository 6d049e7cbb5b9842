/** Which listeners a demo may have, with --demo and without. */
import { expect, test } from "bun:test";
import { readdirSync } from "node:fs";
import { createLog } from "../../src/base/log.ts";
import { readConfig } from "../../src/config.ts";
import { loadDemo } from "../../src/demo/demo.ts";
import { requireLoopbackListeners } from "../../src/demo/demo-folder.ts";
import { open } from "../../src/open.ts";
import { serve } from "../../src/serve.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { fakeRuntime } from "../harness/runtime.ts";
import { shareParser } from "../harness/servers/parser.ts";
import { openTerminal } from "../harness/servers/terminal.ts";

const VARIABLES = [
  ...["MAILROOM_HTTP", "MAILROOM_HTTPS", "MAILROOM_MX", "MAILROOM_SUBMISSION", "MAILROOM_SUBMISSIONS"],
  ...["MAILROOM_IMAP", "MAILROOM_IMAPS"],
];

test.each(["127.0.0.1:0", "127.8.9.1:25", "[::1]:0", "localhost:0", "off"])("a demo may listen on %s", (listen) => {
  const config = readConfig(Object.fromEntries(VARIABLES.map((variable) => [variable, listen])));
  expect(() => requireLoopbackListeners(config)).not.toThrow();
});

test.each(["0.0.0.0:0", "[::]:0", "192.0.2.1:0", "mail.example.com:0"])("a demo is refused on %s", async (listen) => {
  for (const variable of VARIABLES) {
    const { say, data } = openTerminal({ env: { [variable]: listen } });
    const said = await say("serve", "--demo");
    expect(said).toMatchObject({ exitCode: 2, stdout: "" });
    expect(said.stderr).toMatch(new RegExp(`^mailroom: ${variable} is on \\S+, but everybody knows a demo's key`));
    expect(readdirSync(data)).toEqual([]);
  }
});

test("a demo's folder is refused there without --demo too, since its key and password work", async () => {
  const data = temporaryFolder();
  const runtime = fakeRuntime();
  const silent = createLog("silent", runtime.now, () => {});
  const demo = open(readConfig({ MAILROOM_DATA: data }), runtime, silent);
  await loadDemo(demo.core);
  demo.close();
  const { say } = openTerminal({ data, env: { MAILROOM_HTTP: "0.0.0.0:0" } });
  const said = await say("serve");
  expect(said).toMatchObject({ exitCode: 2, stdout: "" });
  expect(said.stderr).toMatch(/^mailroom: MAILROOM_HTTP is on 0\.0\.0\.0, but everybody knows/);
});

test("a demo answers under names of this machine alone, also to its key: another page may lead its own name here", async () => {
  const env = Object.fromEntries(VARIABLES.map((variable) => [variable, "off"]));
  const config = readConfig({ ...env, MAILROOM_DATA: temporaryFolder(), MAILROOM_HTTP: "127.0.0.1:0" });
  const runtime = fakeRuntime();
  const log = createLog("silent", runtime.now, () => {});
  const opened = open(config, runtime, log);
  const { key } = await loadDemo(opened.core);
  const server = await serve(opened, { startParser: shareParser });
  const { http } = server.ready;
  const port = http?.split(":").at(-1) ?? "";
  const ask = (host: string) =>
    fetch(`http://127.0.0.1:${port}/api/v1/mailboxes`, { headers: { authorization: `Bearer ${key}`, host } }).then(
      ({ status }) => status,
    );
  try {
    for (const host of [`127.0.0.1:${port}`, "localhost", `localhost:${port}`, `[::1]:${port}`]) {
      expect([host, await ask(host)]).toEqual([host, 200]);
    }
    for (const host of ["evil.example", `evil.example:${port}`, "localhost.evil.example", "127.0.0.1.evil.example"]) {
      expect([host, await ask(host)]).toEqual([host, 403]);
    }
  } finally {
    await server.stop(0);
  }
});
