/** `mailroom doctor`, as it is typed (rules: Commands, Doctor). */
import { expect, test } from "bun:test";
import { zone } from "../harness/peers/dns-server.ts";
import { openSetUp, openTerminal } from "../harness/servers/terminal.ts";

interface Named {
  id: string;
  name: string;
  state: string;
  detail: string;
  todo?: string;
}

test("lists its findings, and exits with 1 when something is bad", async () => {
  const { say } = await openSetUp({ runtime: { dns: zone({}) } });
  const { exitCode, stdout, stderr } = await say("doctor", "--json");
  expect(exitCode).toBe(1);
  expect(stderr).toMatch(/^mailroom: \d+ things need attention\n$/);
  const findings = JSON.parse(stdout) as Named[];
  for (const { id, name, state, detail, todo } of findings) {
    expect([id, name, detail].every((text) => text !== "")).toBe(true);
    expect(["ok", "warning", "bad", "unknown"]).toContain(state);
    // Whatever is wrong says what to do.
    if (state === "bad") expect(todo).not.toBe(undefined);
  }
  expect(findings.find(({ id }) => id === "mx:acme.test")).toMatchObject({
    state: "bad",
    todo: expect.stringContaining("acme.test MX 10 mail.acme.test"),
  });
  expect(findings.find(({ id }) => id === "schema")).toMatchObject({ state: "ok" });
});

test("for people: a line a finding, and what to do below it", async () => {
  const { say } = await openSetUp({ runtime: { dns: zone({}) } });
  const { stdout } = await say("doctor");
  expect(stdout).toContain("ok       Search index: it has all 0 messages\n");
  expect(stdout).toMatch(/BAD {6}MX of acme\.test: it is not published as it should be\n {9}Mail for the domain/);
});

test("in a demo it says which findings need nothing there; --json is the same", async () => {
  const { ask, say } = openTerminal({ runtime: { dns: zone({}) } });
  await ask("workspace", "add", "Demo");
  await ask("domain", "add", "example.test");
  const { exitCode, stdout, stderr } = await say("doctor", "--json");
  expect(exitCode).toBe(1);
  expect(stderr).toMatch(/^mailroom: \d+ things need attention, but in a demo not: .*MX of example\.test.*\n$/);
  const spared = stderr.trim().split(": ").at(-1)?.split(", ") ?? [];
  const findings = JSON.parse(stdout) as Named[];
  const stateOf = (wanted: string) => findings.find(({ name }) => name === wanted)?.state;
  for (const name of spared) expect(["bad", "warning", "unknown"]).toContain(stateOf(name) ?? "");
  for (const name of ["SPF", "DKIM", "DMARC"]) expect(spared).toContain(`${name} of example.test`);
  expect(spared).toEqual(expect.arrayContaining(["DNS", "Server name", "Backup"]));
  await ask("workspace", "add", "Acme");
  await ask("domain", "add", "acme.test", "--workspace", "Acme");
  expect((await say("doctor")).stderr).not.toContain("acme.test");
});
