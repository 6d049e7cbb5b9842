/** Programs that watch a server read what it says: Prometheus' own tool, fail2ban's own filter and systemd's journal. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { closeSync, fstatSync, openSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { connect } from "node:tls";
import { connectSmtp } from "../harness/clients/smtp-client.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { PROGRAM, run, type Served, serve } from "../harness/servers/process.ts";
import { until } from "../harness/until.ts";

const PACKAGING = join(import.meta.dir, "../../packaging/monitoring");
const RULES = join(PACKAGING, "prometheus-rules.yml");
const ADDRESS = "ada@example.test";
const promtool = Bun.which("promtool");
const fail2ban = Bun.which("fail2ban-regex");
if (promtool === null) console.warn("Prometheus' tool: skipped, promtool is not installed (Debian's prometheus)");
if (fail2ban === null) console.warn("fail2ban's filter: skipped, fail2ban is not installed (Debian's fail2ban)");

/** Runs another maker's program with `stdin`. */
async function tool(command: readonly string[], stdin = ""): Promise<{ code: number; said: string }> {
  const child = Bun.spawn([...command], { stdio: [new Blob([stdin]), "pipe", "pipe"] });
  const [out, err] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()]);
  return { code: await child.exited, said: out + err };
}

/** Says lines over TLS, one after each answer, and resolves with all answers once the server hangs up. */
function converse({ port }: { port: number }, lines: readonly string[]): Promise<string> {
  return new Promise((resolve, reject) => {
    let said = "";
    let next = 0;
    const socket = connect({ host: "127.0.0.1", port, rejectUnauthorized: false });
    socket.on("data", (bytes: Buffer) => {
      said += bytes.toString();
      if (said.endsWith("\r\n") && next < lines.length) socket.write(`${lines[next++]}\r\n`);
    });
    socket.on("error", reject);
    socket.on("close", () => resolve(said));
  });
}

let served: Served;
const place = { data: "", env: {} };

beforeAll(async () => {
  place.data = temporaryFolder();
  place.env = {
    MAILROOM_HTTPS: "127.0.0.1:0",
    MAILROOM_IMAP: "127.0.0.1:0",
    MAILROOM_IMAPS: "127.0.0.1:0",
    MAILROOM_BASE_URL: "https://mail.example.test",
    MAILROOM_HOSTNAME: "mail.example.test",
  };
  await run(place, ["setup", "--domain", "example.test", "--email", ADDRESS, "--name", "Ada"]);
  served = await serve(place);
}, 120_000);

afterAll(async () => {
  await served.kill("SIGTERM");
}, 120_000);

const portOf = (listener: string) => ({ port: Number(String(served.ready[listener]).split(":").at(-1)) });

/** Fetches like a program on the machine of an installation: at the loopback address, for the name in the certificate. */
async function fetchHere(path: string, init: RequestInit = {}): Promise<Response> {
  const ca = readFileSync(join(place.data, "tls/self-signed.pem"), "utf8").replace(
    /-----BEGIN [A-Z ]*PRIVATE KEY[\s\S]*?-----END [A-Z ]*KEY-----\n?/,
    "",
  );
  return fetch(`https://127.0.0.1:${portOf("https").port}${path}`, {
    ...init,
    tls: { ca, serverName: "mail.example.test" },
  } as RequestInit);
}

describe("/metrics", () => {
  test("answers on the machine over HTTPS, and not over the HTTP beside it", async () => {
    const response = await fetchHere("/metrics");
    expect(response.status).toBe(200);
    expect(await response.text()).toContain('mailroom_info{version="');
    const beside = await fetch(`${served.http}/metrics`, { redirect: "manual" });
    expect(beside.status).toBe(308);
  });

  test.skipIf(promtool === null)(
    "is clean in the eyes of Prometheus, and so are the alerts",
    async () => {
      const text = await (await fetchHere("/metrics")).text();
      expect(await tool([promtool ?? "", "check", "metrics"], text)).toEqual({ code: 0, said: "" });
      expect(await tool([promtool ?? "", "check", "rules", RULES])).toMatchObject({ code: 0 });
      const known = new Set(Array.from(text.matchAll(/^# TYPE (\S+)/gm), ([, name = ""]) => name));
      const rules = readFileSync(RULES, "utf8").replace(/^ *(description|summary|- alert):.*$/gm, "");
      const named = [...new Set(rules.match(/\bmailroom_\w+/g))].filter(
        (name) => !name.startsWith("mailroom_replica_"),
      );
      expect(named.filter((name) => !known.has(name))).toEqual([]);
      expect(named.length).toBeGreaterThan(8);
    },
    60_000,
  );
});

describe("a failed sign-in", () => {
  test("has the same fields wherever it is tried, and fail2ban finds its source", async () => {
    const json = { "content-type": "application/json", origin: "https://mail.example.test" };
    const guess = Buffer.from(`\0${ADDRESS}\0a wrong guess`).toString("base64");
    const signIn = (email: string) =>
      fetchHere("/app/sign-in", { method: "POST", headers: json, body: JSON.stringify({ email, password: "wrong" }) });
    const withKey = (path: string) => fetchHere(path, { headers: { authorization: "Bearer mr_wrongwrongwrong" } });
    const form = new URLSearchParams({ grant_type: "refresh_token", refresh_token: "wrong", client_id: "wrong" });
    const mcp = { jsonrpc: "2.0", id: 1, method: "ping" };
    const tries: (() => Promise<unknown>)[] = [
      () => signIn(ADDRESS),
      () => signIn("nobody at all"),
      () => converse(portOf("imaps"), [`a AUTHENTICATE PLAIN ${guess}`, "b LOGOUT"]),
      () => converse(portOf("submissions"), ["EHLO there", `AUTH PLAIN ${guess}`, "QUIT"]),
      () => withKey("/api/v1/threads"),
      () => withKey("/api/admin/v1/users"),
      () =>
        fetchHere("/api/mcp", {
          method: "POST",
          headers: { ...json, accept: "application/json, text/event-stream", authorization: "Bearer mr_wrongwrong" },
          body: JSON.stringify(mcp),
        }),
      () => fetchHere("/oauth/token", { method: "POST", body: form }),
    ];
    for (const one of tries) await one();
    const failures = () =>
      served
        .stderr()
        .split("\n")
        .filter((line) => line.includes('"message":"sign-in failed"'));
    await until(() => failures().length === tries.length);
    expect(
      failures().map((line) => {
        const { over, account, source } = JSON.parse(line);
        return { over, account, source };
      }),
    ).toEqual([
      { over: "app", account: ADDRESS, source: "127.0.0.1" },
      { over: "app", account: null, source: "127.0.0.1" },
      { over: "imap", account: ADDRESS, source: "127.0.0.1" },
      { over: "submission", account: ADDRESS, source: "127.0.0.1" },
      { over: "rest", account: null, source: "127.0.0.1" },
      { over: "rest", account: null, source: "127.0.0.1" },
      { over: "mcp", account: null, source: "127.0.0.1" },
      { over: "oauth", account: null, source: "127.0.0.1" },
    ]);
    expect(served.stderr()).not.toContain("nobody at all");

    if (fail2ban === null) return;
    const filter = join(PACKAGING, "fail2ban-filter.conf");
    const log = join(temporaryFolder(), "log");
    writeFileSync(log, served.stderr());
    const asFile = await tool([fail2ban, "--verbose", log, filter]);
    expect(asFile.said).toContain(`Failregex: ${tries.length} total`);
    expect(asFile.said).toContain("127.0.0.1");
    // As the journal has it, and with a line in which a stranger wrote one.
    const trap = JSON.stringify({ level: "info", message: "refused", said: failures()[0] });
    writeFileSync(log, [...failures(), trap].map((line) => `mail mailroom[7]: ${line}\n`).join(""));
    expect((await tool([fail2ban, log, filter])).said).toContain(`Failregex: ${tries.length} total`);
  }, 120_000);
});

describe("the log", () => {
  /** Lines on stderr of a start that cannot succeed; `isJournal`: systemd says that stderr leads to its journal. */
  async function startInVain(isJournal: boolean): Promise<string[]> {
    const data = temporaryFolder();
    const path = join(data, "stderr");
    const file = openSync(path, "a");
    const { dev, ino } = fstatSync(file, { bigint: true });
    const child = Bun.spawn([...PROGRAM, "serve"], {
      env: {
        PATH: process.env.PATH ?? "",
        MAILROOM_DATA: join(data, "mail"),
        MAILROOM_HTTP: `127.0.0.1:${portOf("imaps").port}`,
        MAILROOM_MX: "127.0.0.1:0",
        MAILROOM_SUBMISSION: "off",
        MAILROOM_SUBMISSIONS: "off",
        JOURNAL_STREAM: isJournal ? `${dev}:${ino}` : `${dev}:${ino + 1n}`,
      },
      stdio: ["ignore", "ignore", file],
    });
    closeSync(file);
    expect(await child.exited).toBe(1);
    return readFileSync(path, "utf8").trim().split("\n");
  }

  test("has syslog's priorities where systemd's journal reads it, and plain JSON elsewhere", async () => {
    const inJournal = await startInVain(true);
    expect(inJournal[0]).toMatch(/^<6>\{"time":"[^"]+","level":"info",/);
    expect(inJournal.at(-1)).toMatch(/^<3>mailroom: MAILROOM_HTTP: cannot listen there/);
    const elsewhere = await startInVain(false);
    expect(JSON.parse(elsewhere[0] ?? "")).toMatchObject({ level: "info" });
    expect(elsewhere.at(-1)).toMatch(/^mailroom: MAILROOM_HTTP: cannot listen there/);
  }, 120_000);

  test("names the mailbox that was full, once a minute", async () => {
    expect((await run(place, ["mailbox", "quota", ADDRESS, "1"])).exitCode).toBe(0);
    await run(place, ["domain", "verify", "example.test", "--skip-dns"]);
    for (let round = 0; round < 2; round++) {
      const client = await connectSmtp(served.mx);
      await client.expect(250, "MAIL FROM:<b@remote.test> SIZE=1000");
      await client.expect(452, `RCPT TO:<${ADDRESS}>`);
      client.destroy();
    }
    const lines = served
      .stderr()
      .split("\n")
      .filter((line) => line.includes("the mailbox is full"));
    expect(lines).toHaveLength(1);
    expect(JSON.parse(lines[0] ?? "")).toMatchObject({ level: "warn", mailbox: ADDRESS, quotaBytes: 1 });
  }, 120_000);
});

test("a build tells itself apart from others of its version", async () => {
  const { stdout } = await run(place, ["version", "--json"]);
  const { version, build } = JSON.parse(stdout);
  expect(build).toMatch(/^[0-9a-f]{12}$/);
  expect((await run(place, ["version"])).stdout).toBe(`${version}+${build}\n`);
  expect(await (await fetchHere("/metrics")).text()).toContain(
    `mailroom_info{version="${version}",build="${build}"} 1`,
  );
});
