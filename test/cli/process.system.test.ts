/** The commands as processes: streams, signals, exit codes, and beside each other on one data folder. */
import { Database } from "bun:sqlite";
import { expect, setDefaultTimeout, test } from "bun:test";
import { chmodSync, chownSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { apiClient } from "../harness/clients/api.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { FROM_SOURCE, run, runJson, serve } from "../harness/servers/process.ts";

setDefaultTimeout(300_000);

test("only the result is on stdout, and exit codes reach the shell", async () => {
  const place = { data: temporaryFolder() };
  const [shown, wrong, refused] = await Promise.all([
    run(place, ["version"]),
    run(place, ["frobnicate"]),
    run({ data: temporaryFolder() }, ["settings", "set", "api.cooldownSeconds", "soon"]),
  ]);
  expect(shown).toMatchObject({ exitCode: 0, stderr: "" });
  expect(shown.stdout).toMatch(/^\d+\.\d+\.\d+\+[0-9a-f]{12}\n$/);
  expect(wrong).toMatchObject({ exitCode: 2, stdout: "" });
  expect(refused).toMatchObject({ exitCode: 1, stdout: "" });
  expect(refused.stderr).toStartWith("mailroom: api.cooldownSeconds cannot be");
});

test("setup reads the password from a pipe; commands work at the same time", async () => {
  const place = { data: temporaryFolder() };
  const setup = ["setup", "--domain", "acme.test", "--email", "ada@acme.test", "--name", "Ada", "--password-stdin"];
  const made = await run(place, [...setup, "--json"], "correct horse\n");
  expect(made).toMatchObject({ exitCode: 0, stderr: "" });
  expect(JSON.parse(made.stdout)).not.toHaveProperty("password");
  const people = ["b", "c", "d"].map((name) => `${name}@acme.test`);
  const added = await Promise.all(
    people.map((address) => runJson(place, "user", "add", address, "--name", address, "--role", "member")),
  );
  expect(added).toMatchObject(people.map((address) => ({ address })));
  expect(await runJson(place, "user", "list")).toHaveLength(4);
});

test("a server prints its addresses, stops on a signal, and refuses a port in use and missing files", async () => {
  const place = { data: temporaryFolder() };
  const server = await serve(place);
  const { http = "", mx = "", submission = "", submissions = "" } = server.ready as Record<string, string>;
  expect(JSON.stringify(server.ready)).toBe(JSON.stringify({ ready: true, http, mx, submission, submissions }));
  for (const address of [http, mx, submission, submissions]) expect(address).toMatch(/^127\.0\.0\.1:[1-9]\d*$/);
  await Promise.all(
    [
      ["MAILROOM_HTTP", http],
      ["MAILROOM_MX", mx],
      ["MAILROOM_SUBMISSION", submission],
      ["MAILROOM_SUBMISSIONS", submissions],
    ].map(async ([variable = "", taken = ""]) => {
      const refused = await run({ data: temporaryFolder(), env: { [variable]: taken } }, ["serve"]);
      expect(refused).toMatchObject({ exitCode: 1, stdout: "" });
      expect(refused.stderr).toMatch(new RegExp(`^mailroom: .*${variable}:`, "m"));
    }),
  );
  const files = await run({ data: temporaryFolder(), env: { MAILROOM_TLS: "files:/none/cert,/none/key" } }, ["serve"]);
  expect(files).toMatchObject({ exitCode: 2, stdout: "" });
  expect(files.stderr).toMatch(/^mailroom: MAILROOM_TLS: cannot read/m);
  const { ready, kill } = await serve({
    data: temporaryFolder(),
    env: { MAILROOM_SUBMISSION: "off", MAILROOM_SUBMISSIONS: "off" },
  });
  expect(ready).toMatchObject({ submission: "off", submissions: "off" });
  await kill("SIGKILL");
  expect(await server.kill("SIGTERM")).toBe(0);
});

test("a server without a workspace prints a link that sets it up, another at each start, and none afterwards", async () => {
  const place = { data: temporaryFolder(), env: { MAILROOM_BASE_URL: "https://mail.acme.test" } };
  // rules: Logs: one JSON object a line.
  const tokenOf = (text: string): string | undefined => {
    const lines = text
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as { link?: string });
    const link = lines.find((line) => line.link !== undefined)?.link ?? "";
    return /^https:\/\/mail\.acme\.test\/setup#(\w{43})$/.exec(link)?.[1];
  };
  const first = await serve(place);
  const old = tokenOf(first.stderr());
  await first.kill("SIGTERM");
  const second = await serve(place);
  const token = tokenOf(second.stderr());
  expect(old).toBeString();
  expect(token).not.toBe(old as string);
  const setUp = async (token: string | undefined) => {
    const given = { token, domain: "acme.test", email: "ada@acme.test", name: "Ada", password: "correct horse" };
    const headers = { "content-type": "application/json", origin: "https://mail.acme.test" };
    const answer = await fetch(`${second.http}/app/setup`, { method: "POST", headers, body: JSON.stringify(given) });
    return answer.status;
  };
  expect([await setUp(old), await setUp(token), await setUp(token)]).toEqual([403, 200, 409]);
  for (const { ready } of [first, second]) expect(JSON.stringify(ready)).not.toContain("setup");
  await second.kill("SIGTERM");
  const third = await serve(place);
  expect(await third.kill("SIGTERM")).toBe(0);
  expect(third.stderr()).not.toContain("setup");
});

test("the demo is served, and served again with the same key", async () => {
  // As `npm start` does.
  const place = { data: temporaryFolder(), program: FROM_SOURCE };
  const keyOf = (text: string): string => /mr_[A-Za-z0-9]{40,}/.exec(text)?.[0] ?? "";
  const first = await serve(place, "--demo");
  const line = /^ +Try +(curl .*)$/m.exec(first.stderr())?.[1] ?? "";
  expect(line).toBe(`curl -H 'Authorization: Bearer ${keyOf(first.stderr())}' ${first.http}/api/v1/threads`);
  expect(first.stderr()).toMatch(/Sign in +ada@example\.test +[A-Za-z0-9]{12,}\n/);
  expect(first.stderr()).not.toContain("/setup#");
  expect(first.ready).toMatchObject({
    imap: expect.stringMatching(/^127\.0\.0\.1:\d+$/),
    imaps: expect.stringMatching(/^127\.0\.0\.1:\d+$/),
  });
  const listed = await apiClient(first.http, keyOf(line)).get<{ threads: object[] }>("/threads");
  expect(listed.status).toBe(200);
  expect(await first.kill("SIGINT")).toBe(0);

  const second = await serve(place, "--demo");
  expect(await apiClient(second.http, keyOf(line)).get<{ threads: object[] }>("/threads")).toMatchObject({
    status: 200,
    body: { threads: listed.body.threads },
  });
  expect(await second.kill("SIGTERM")).toBe(0);
});

test("a second demo on the folder of a running one is refused, and changes nothing", async () => {
  const place = { data: temporaryFolder() };
  const first = await serve(place, "--demo");
  const [, key = "", address = "", password = ""] =
    /API key +(\S+)\n +Sign in +(\S+) +(\S+)\n/.exec(first.stderr()) ?? [];
  const api = apiClient(first.http, key);
  expect((await api.get("/threads")).status).toBe(200);
  // Of the database the people and keys: its server goes on writing.
  const folder = () => {
    const sqlite = new Database(join(place.data, "mailroom.db"), { readonly: true });
    try {
      const names = readdirSync(place.data, { recursive: true, encoding: "utf8" }).sort();
      const files = names.filter(
        (name) => !name.startsWith("mailroom.db") && statSync(join(place.data, name)).isFile(),
      );
      return {
        names,
        files: files.map((name) => [name, Bun.hash(readFileSync(join(place.data, name)))]),
        keys: sqlite.query("SELECT id, hash, revoked_at FROM api_keys").all(),
        people: sqlite.query("SELECT * FROM users").all(),
      };
    } finally {
      sqlite.close();
    }
  };
  const before = folder();

  const { exitCode, stdout, stderr } = await run(place, ["serve", "--demo"]);
  expect([exitCode, stdout]).toEqual([1, ""]);
  expect(stderr).toContain(`another server runs on the data folder ${place.data}: stop it first`);
  expect(folder()).toEqual(before);
  expect((await api.get("/threads")).status).toBe(200);
  const signedIn = await fetch(`${first.http}/app/sign-in`, {
    method: "POST",
    headers: { "content-type": "application/json", origin: first.http, "x-mailroom": "1" },
    body: JSON.stringify({ email: address, password }),
  });
  expect(signedIn.status).toBe(204);
  expect(await first.kill("SIGTERM")).toBe(0);
});

const ATTACHED = [
  "Subject: Attached",
  'Content-Type: application/octet-stream; name="a.bin"',
  "Content-Disposition: attachment",
  "",
  "an attachment",
];
const isRoot = process.getuid?.() === 0;

test.skipIf(!isRoot)(`root acts as the owner of the data folder${isRoot ? "" : " (only as root)"}`, async () => {
  const owner = 65_534;
  const place = { data: temporaryFolder() };
  chownSync(place.data, owner, owner);
  await runJson(place, "setup", "--domain", "acme.test", "--email", "ada@acme.test", "--name", "Ada");
  const mail = join(temporaryFolder(), "one.eml");
  writeFileSync(mail, `${ATTACHED.join("\r\n")}\r\n`);
  chmodSync(dirname(mail), 0o755);
  const into = ["--mailbox", "ada@acme.test"];
  expect(await runJson(place, "import", ...into, mail)).toMatchObject({ imported: 1 });
  const paths = readdirSync(place.data, { recursive: true, encoding: "utf8" });
  expect(paths.some((path) => /^blobs.[0-9a-f]{2}.[0-9a-f]{62}$/.test(path))).toBe(true);
  expect(paths.filter((path) => statSync(join(place.data, path)).uid !== owner)).toEqual([]);
});
