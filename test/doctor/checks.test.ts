/** Each check of a healthy server, and of servers with one problem. */
import { beforeAll, describe, expect, test } from "bun:test";
import { chmodSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import * as domains from "../../src/admin/domains.ts";
import { makeDkimKeys } from "../../src/admin/domains.ts";
import * as mailboxAdmin from "../../src/admin/mailbox-admin.ts";
import * as workspaceAdmin from "../../src/admin/workspace-admin.ts";
import { generationId, markerText, readBackupState, writeBackupState } from "../../src/backup/backup-layout.ts";
import { HELD } from "../../src/backup/restore.ts";
import { type ChallengeMode, readConfig } from "../../src/config.ts";
import type { Finding, State, World } from "../../src/doctor/check.ts";
import { runDoctorChecks } from "../../src/doctor/doctor.ts";
import { operatingSystem, type System } from "../../src/doctor/system.ts";
import { NOT_LISTED } from "../../src/outbound/transport.ts";
import type { Core } from "../../src/store/core.ts";
import { openOptions } from "../../src/store/settings.ts";
import { saveKeyPair, selfSign } from "../../src/tls/pair.ts";
import { storeInFolder } from "../harness/data/database.ts";
import { atEndOfFile } from "../harness/end.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { type Records, type Zone, zone } from "../harness/peers/dns-server.ts";
import { makePair, type RemoteScript, startRemoteMx } from "../harness/peers/remote-mx.ts";
import { takePort } from "../harness/port.ts";
import { fakeRuntime, START } from "../harness/runtime.ts";
import { testCore } from "../harness/servers/core.ts";

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const HOST = "mail.example.test";
const ADDRESS = "203.0.113.7";
const GB = 1_000_000_000;

const pairFor = (name: string, days: number) =>
  selfSign(name, START - DAY_MS, START + days * DAY_MS, new Uint8Array(8).fill(1));
const certificate = async (name: string, days: number) => (await pairFor(name, days)).cert;
let keys: Awaited<ReturnType<typeof makeDkimKeys>>;
beforeAll(async () => {
  keys = await makeDkimKeys();
});

/** A server whose state a test changes before the checks run. */
interface Bench {
  world: World & { system: System };
  zone: Zone;
  data: string;
  sql(text: string): void;
  set(name: string, value: string): void;
  /** Removes the records at a name from DNS. */
  unpublish(name: string): void;
}

/** Makes a backup as one is seen from outside, and records it. */
async function backedUp(data: string, folder: string, at: number): Promise<void> {
  const generation = generationId(at);
  const path = join(folder, "generations", generation);
  mkdirSync(path, { recursive: true });
  writeFileSync(join(folder, "mailroom-backup.json"), markerText(1));
  const manifest = { format: 1, version: "0.1.0", schema: 1, createdAt: "", hostname: HOST, databaseBytes: 1 };
  writeFileSync(join(path, "manifest.json"), JSON.stringify({ ...manifest, blobs: 0, lacking: [] }));
  await writeBackupState(data, { lastGood: { at, folder, generation } });
}

/** A healthy server. */
async function bench(env: Record<string, string> = {}): Promise<Bench> {
  const data = temporaryFolder();
  const config = readConfig({
    ...{ MAILROOM_DATA: data, MAILROOM_HOSTNAME: HOST, MAILROOM_TLS: "files:/c.pem,/k.pem" },
    ...{ MAILROOM_HTTPS: "127.0.0.1:443", ...env },
  });
  const records: Zone = {
    [HOST]: { a: [ADDRESS] },
    "7.113.0.203.in-addr.arpa": { ptr: [`${HOST}.`] },
    "gmail.com": { mx: [[5, "gmail-smtp-in.test"]] },
    "gmail-smtp-in.test": { a: ["198.51.100.1"] },
  };
  const runtime = fakeRuntime({ dns: zone(records) });
  const store = storeInFolder(data, runtime);
  atEndOfFile(() => store.close());
  const options = openOptions(store);
  const made = testCore();
  const site = { ...made.site, folder: data, hostname: HOST };
  const core: Core = {
    ...made,
    ...{ store, db: store.db, blobs: store.blobs, options, runtime, now: runtime.now, site },
  };
  store.transact((tx) => {
    const { id } = workspaceAdmin.addWorkspace(core, tx, "Example");
    domains.markDomainVerified(core, tx, domains.addDomain(core, tx, id, "example.test", keys).id);
  });
  const [domain] = domains.listDomains(core);
  for (const { type, name, value } of domains.listDomainRecords(core, domain?.id ?? "")) {
    const published = records[name] as { txt?: string[] } | undefined;
    records[name] =
      type === "MX" ? { ...published, mx: [[10, HOST]] } : { ...published, txt: [...(published?.txt ?? []), value] };
  }
  await backedUp(data, temporaryFolder(), START - HOUR_MS);
  const cert = await certificate(HOST, 60);
  const system: System = {
    space: async () => ({ free: 50 * GB, total: 100 * GB, freeInodes: 900, inodes: 1_000 }),
    entries: operatingSystem.entries,
    clockFollows: async () => true,
    openFilesOfServer: async () => 65_536,
    owns: (address) => address === ADDRESS,
    leavesFrom: async (family) => (family === 4 ? ADDRESS : undefined),
    greet: async (_host, _port, expect) => (expect === "certificate" ? { certificate: cert } : { line: "220 ready" }),
  };
  return {
    world: { ...core, config, system, serving: true },
    zone: records,
    data,
    sql: (text) => store.db.$client.exec(text),
    set: (name, value) => void store.transact((tx) => options.set(tx, name, value)),
    unpublish: (name) => void delete records[name],
  };
}

const found = async ({ world }: Bench, id: string): Promise<Finding | undefined> =>
  (await runDoctorChecks(world)).find((finding) => finding.id === id);

test("a healthy server has no bad finding", async () => {
  const findings = await runDoctorChecks((await bench()).world);
  expect(findings.filter(({ state, id }) => state !== "ok" && !id.startsWith("dnsbl"))).toEqual([]);
  expect(findings.map(({ id }) => id)).toEqual([
    "disk",
    "inodes",
    "clock",
    "permissions",
    "schema",
    "search",
    "listener:http",
    "listener:https",
    "listener:mx",
    "listener:submission",
    "listener:submissions",
    "open-files",
    "certificate",
    "outbound",
    "hostname",
    `ptr:${ADDRESS}`,
    `dnsbl:${ADDRESS}`,
    "mx:example.test",
    "spf:example.test",
    "dkim:example.test",
    "dmarc:example.test",
    "queue",
    "quotas",
    "backup",
  ]);
});

test("an unverified domain is a warning; of a domain with several claims, the owner's records count", async () => {
  const b = await bench();
  b.sql(`INSERT INTO workspaces (id, name, created_at) VALUES ('wsp_2', 'Two', 0);
    INSERT INTO domains (id, workspace_id, name, ownership_token, created_at) VALUES ('dom_2', 'wsp_2', 'shop.test', 't', 0)`);
  expect(await found(b, "verified:shop.test")).toMatchObject({
    state: "warning",
    detail: "it is not: no mail comes to it, and none can be sent from it",
    todo: expect.stringContaining("`mailroom domain verify shop.test`"),
  });
  b.sql("UPDATE domains SET accepts_unverified = 1 WHERE name = 'shop.test'");
  expect((await found(b, "verified:shop.test"))?.detail).toContain("takes mail as before only until another workspace");
  // A lost claim to the same domain causes no finding.
  b.sql("UPDATE domains SET name = 'example.test', accepts_unverified = 0 WHERE name = 'shop.test'");
  expect(domains.listDomains(b.world).map(({ state }) => state)).toEqual(["verified", "lost"]);
  expect(
    (await runDoctorChecks(b.world)).filter(({ id, state }) => id.endsWith(":example.test") && state !== "ok"),
  ).toEqual([]);
});

describe("one problem", () => {
  const refuse = async (): Promise<never> => {
    throw new Error("ECONNREFUSED");
  };
  const space = (change: object) => async () => ({
    ...{ free: 50 * GB, total: 100 * GB, freeInodes: 900, inodes: 1_000 },
    ...change,
  });
  const greeting = (b: Bench, at: number, line: string) => {
    const { greet } = b.world.system;
    b.world.system.greet = async (host, port, expect) => (port === at ? { line } : greet(host, port, expect));
  };
  const shows = (name: string, days: number) => async (b: Bench) => {
    const cert = await certificate(name, days);
    b.world.system.greet = async () => ({ certificate: cert, line: "220" });
  };
  const TROUBLE = {
    trouble: { failures: 2, at: START, retryAt: START + 20 * 60_000, reason: "connection refused" },
  };
  const askingAuthority =
    (state: object, challenge: ChallengeMode = { type: "http" }) =>
    async (b: Bench) => {
      const tls = { mode: "acme", directory: "https://ca.test/dir", email: undefined, challenge } as const;
      b.world.config = { ...b.world.config, tls };
      mkdirSync(join(b.data, "tls/acme"), { recursive: true });
      writeFileSync(join(b.data, "tls/acme/state.json"), JSON.stringify(state));
      await shows(HOST, 60)(b);
    };
  const message = `INSERT INTO threads (id, mailbox_id, folder, unread, starred, last_message_at, has_attachments, message_count, next_ordinal, received_on, subject, subject_key, snippet, counterpart, participants)
      VALUES ('thr_1', 'mbx_1', 'inbox', 0, 0, 1, 0, 1, 2, 'a', '', '', '', '{}', '[]')`;
  /** Adds a message filed at that time, and `later` ones filed at START. */
  const withMessage = (b: Bench, filedAt: number, { later = 0 } = {}) => {
    b.sql("PRAGMA foreign_keys = OFF");
    b.sql(message);
    for (let i = 0; i <= later; i++) {
      b.sql(`INSERT INTO messages (seq, id, thread_seq, mailbox_id, kind, folder, read, date, filed_at, "from", "to", cc, bcc, reply_to, subject, snippet, size, fingerprint, has_attachments)
        VALUES (${65536 + i}, 'msg_${i}', 1, 'mbx_1', 'received', 'inbox', 1, 1, ${i === 0 ? filedAt : START}, '{}', '[]', '[]', '[]', '[]', '', '', 1, 'f', 0)`);
    }
  };
  const queued = (b: Bench, acceptedAt: number, dueAt: number) => {
    b.sql("PRAGMA foreign_keys = OFF");
    b.sql(`INSERT INTO outbound_messages (id, workspace_id, mailbox_id, mailbox, thread_id, message_id, subject, domain, return_path, accepted_at, recipients, outside_recipients, mailbox_total, workspace_total)
      VALUES ('msg_1', 'w', 'm', 'a@b', 't', '<x>', '', 'b', 'bounce', ${acceptedAt}, 1, 1, 1, 1)`);
    b.sql(
      `INSERT INTO queue_entries (id, message_seq, recipient, field, domain, state, due_at) VALUES ('que_1', 1, 'c@d', 'to', 'd', 'waiting', ${dueAt})`,
    );
  };

  test("of mail apps' listeners where they are on, and of the certificate there", async () => {
    const env = { MAILROOM_IMAP: "127.0.0.1:2143", MAILROOM_IMAPS: "127.0.0.1:2993" };
    const b = await bench({ ...env, MAILROOM_HTTPS: "off", MAILROOM_SUBMISSIONS: "off" });
    const stateOf = async (id: string) => (await runDoctorChecks(b.world)).find((finding) => finding.id === id)?.state;
    greeting(b, 2143, "* OK [CAPABILITY IMAP4rev1] mail.example.test Mailroom");
    for (const id of ["listener:imap", "listener:imaps", "certificate"]) expect(await stateOf(id)).toBe("ok");
    greeting(b, 2143, "* BYE Too many connections");
    expect(await stateOf("listener:imap")).toBe("bad");
  });

  const cases: [what: string, id: string, state: State, todo: RegExp | undefined, change: (b: Bench) => unknown][] = [
    [
      "little room",
      "disk",
      "warning",
      /larger/,
      (b) => {
        b.world.system.space = space({ free: 1.5 * GB });
      },
    ],
    [
      "hardly any room",
      "disk",
      "bad",
      /refuses mail/,
      (b) => {
        b.world.system.space = space({ free: 0.1 * GB });
      },
    ],
    [
      "a small disk, mostly free",
      "disk",
      "ok",
      undefined,
      (b) => {
        b.world.system.space = space({ free: 1 * GB, total: 2 * GB });
      },
    ],
    [
      "hardly any inodes",
      "inodes",
      "bad",
      /inodes/,
      (b) => {
        b.world.system.space = space({ freeInodes: 10 });
      },
    ],
    [
      "a clock that follows nobody",
      "clock",
      "warning",
      /set-ntp/,
      (b) => {
        b.world.system.clockFollows = async () => false;
      },
    ],
    [
      "a clock nobody knows of",
      "clock",
      "unknown",
      undefined,
      (b) => {
        b.world.system.clockFollows = async () => undefined;
      },
    ],
    ["a clock that went back", "clock", "bad", /set-ntp/, (b) => withMessage(b, START + HOUR_MS)],
    [
      "a clock that was ahead once, long ago",
      "clock",
      "ok",
      undefined,
      (b) => withMessage(b, START + HOUR_MS, { later: 100 }),
    ],
    ["a data folder open to others", "permissions", "bad", /chmod 700/, (b) => chmodSync(b.data, 0o755)],
    [
      "a file of another user",
      "permissions",
      "bad",
      /chown/,
      (b) => {
        b.world.system.entries = async (path) => [
          { path, isFolder: true, mode: 0o700, uid: 7 },
          { path: join(path, "x"), isFolder: false, mode: 0o600, uid: 0 },
        ];
      },
    ],
    ["a message that is not indexed", "search", "bad", /reindex/, (b) => withMessage(b, 1)],
    [
      "a listener that does not answer",
      "listener:mx",
      "bad",
      /MAILROOM_MX/,
      (b) => {
        const { greet } = b.world.system;
        b.world.system.greet = (host, port, expect) => (port === 2525 ? refuse() : greet(host, port, expect));
      },
    ],
    [
      "few files that may be open",
      "open-files",
      "warning",
      /LimitNOFILE/,
      (b) => {
        b.world.system.openFilesOfServer = async () => 256;
      },
    ],
    ["a listener that refuses", "listener:mx", "bad", /log/, (b) => greeting(b, 2525, "421 no")],
    [
      "no server",
      "server",
      "warning",
      /Start/,
      (b) => {
        b.world.serving = false;
      },
    ],
    ["a certificate that ends tomorrow", "certificate", "bad", /\/c\.pem/, shows(HOST, 1)],
    ["a certificate that ends in a week", "certificate", "warning", /\/c\.pem/, shows(HOST, 7)],
    [
      "an authority that gives none",
      "certificate",
      "bad",
      /Port 80 of mail\.example\.test .* 09:20 UTC/,
      askingAuthority(TROUBLE),
    ],
    [
      "an authority that does not come through to port 443",
      ...(["certificate", "bad"] as const),
      /Port 443 .* MAILROOM_HTTPS/,
      askingAuthority(TROUBLE, { type: "tls-alpn" }),
    ],
    [
      "a hook that fails",
      ...(["certificate", "bad"] as const),
      /\/etc\/hook must publish _acme-challenge\.mail\.example\.test .* by hand/,
      askingAuthority(TROUBLE, { type: "dns-hook", program: "/etc/hook" }),
    ],
    ["an authority that has not been asked yet", "certificate", "warning", /again/, askingAuthority({})],
    ["a certificate for another name", "certificate", "bad", /MAILROOM_HOSTNAME/, shows("other.test", 60)],
    [
      "port 25 closed",
      "outbound",
      "bad",
      /smtp\.relay/,
      (b) => {
        const { greet } = b.world.system;
        b.world.system.greet = (host, port, expect) => (port === 25 ? refuse() : greet(host, port, expect));
      },
    ],
    [
      "port 25 taken by a firewall that answers",
      "outbound",
      "bad",
      /smtp\.relay/,
      (b) => greeting(b, 25, "554 not from here"),
    ],
    [
      "no DNS",
      "dns",
      "bad",
      /MAILROOM_DNS/,
      (b) => {
        for (const name of Object.keys(b.zone)) b.zone[name] = "SERVFAIL";
      },
    ],
    ["a name without an address", "hostname", "bad", /A record/, (b) => b.unpublish(HOST)],
    [
      "DNS silent about the name",
      "hostname",
      "unknown",
      undefined,
      (b) => {
        b.zone[HOST] = "silence";
      },
    ],
    ["no reverse DNS", `ptr:${ADDRESS}`, "bad", /PTR/, (b) => b.unpublish("7.113.0.203.in-addr.arpa")],
    [
      "reverse DNS of the provider",
      `ptr:${ADDRESS}`,
      "bad",
      /PTR/,
      (b) => {
        b.zone["7.113.0.203.in-addr.arpa"] = { ptr: ["vps7.provider.test"] };
      },
    ],
    [
      "DNS silent about the address",
      `ptr:${ADDRESS}`,
      "unknown",
      undefined,
      (b) => {
        b.zone["7.113.0.203.in-addr.arpa"] = "silence";
      },
    ],
    [
      "listed",
      `dnsbl:${ADDRESS}`,
      "bad",
      /zen\.spamhaus\.org/,
      (b) => {
        b.zone["7.113.0.203.zen.spamhaus.org"] = { a: ["127.0.0.2"], txt: ["spam seen"] };
      },
    ],
    [
      "listed in a list of one's own",
      `dnsbl:${ADDRESS}`,
      "bad",
      /own\.test/,
      (b) => {
        b.set("mx.dnsbl", "own.test");
        b.zone["7.113.0.203.own.test"] = { a: ["127.0.0.2"] };
      },
    ],
    [
      "lists that answer nobody",
      `dnsbl:${ADDRESS}`,
      "unknown",
      undefined,
      (b) => {
        for (const list of ["zen.spamhaus.org", "bl.spamcop.net"])
          b.zone[`7.113.0.203.${list}`] = { a: ["127.255.255.254"] };
      },
    ],
    [
      "no MX",
      "mx:example.test",
      "bad",
      /example\.test MX 10 mail\.example\.test/,
      (b) => {
        b.zone["example.test"] = { txt: ["v=spf1 mx ~all"] };
      },
    ],
    [
      "no SPF",
      "spf:example.test",
      "bad",
      /v=spf1/,
      (b) => {
        b.zone["example.test"] = { mx: [[10, HOST]] };
      },
    ],
    [
      "no DKIM",
      "dkim:example.test",
      "bad",
      /_domainkey/,
      (b) => {
        for (const name of Object.keys(b.zone)) if (name.includes("_domainkey")) b.unpublish(name);
      },
    ],
    ["no DMARC", "dmarc:example.test", "bad", /v=DMARC1/, (b) => b.unpublish("_dmarc.example.test")],
    [
      "DNS silent about DMARC",
      "dmarc:example.test",
      "unknown",
      undefined,
      (b) => {
        b.zone["_dmarc.example.test"] = "SERVFAIL";
      },
    ],
    [
      "a queue that does not move",
      "queue",
      "bad",
      /does not move/,
      (b) => queued(b, START - 2 * HOUR_MS, START - HOUR_MS),
    ],
    [
      "mail that waits for servers that are slow",
      "queue",
      "ok",
      undefined,
      (b) => {
        queued(b, START - 2 * HOUR_MS, START - HOUR_MS);
        b.sql("INSERT INTO queue_domains VALUES ('d', 0, 'slow')");
      },
    ],
    ["mail that waits long", "queue", "warning", /queue list/, (b) => queued(b, START - 2 * DAY_MS, START + HOUR_MS)],
    [
      "mail that would go to a private address",
      "private-destinations",
      "warning",
      /settings set smtp\.allowNetworks/,
      (b) => {
        queued(b, START - HOUR_MS, START + HOUR_MS);
        b.sql(`UPDATE queue_entries SET reply = 'mx.d leads to a private address, ${NOT_LISTED}'`);
      },
    ],
    [
      "a workspace that has left, whose queue and domains are another server's",
      "workspace:Example",
      "warning",
      /workspace remove/,
      (b) => b.sql("UPDATE workspaces SET moving = 'out'"),
    ],
    [
      "a workspace whose import has not ended",
      "workspace:Example",
      "warning",
      /Import its final export/,
      (b) => b.sql("UPDATE workspaces SET moving = 'in'"),
    ],
    [
      "mail that a restore held",
      "restore",
      "warning",
      /mailroom queue release/,
      (b) => {
        queued(b, START, START);
        b.sql(`UPDATE queue_entries SET state = 'held', due_at = NULL, reply = '${HELD}'`);
      },
    ],
    [
      "second factors whose key is lost",
      "second-factors",
      "bad",
      /Put your copy of the key there/,
      (b) => {
        b.sql(`PRAGMA foreign_keys = OFF;
          INSERT INTO second_factors (user_id, secret, last_step, created_at) VALUES ('usr_1', x'00', 0, 0)`);
      },
    ],
    ["no backup", "backup", "warning", /backup\.folder/, (b) => writeBackupState(b.data, {})],
    [
      "an old backup",
      "backup",
      "bad",
      /backup\.folder/,
      (b) => backedUp(b.data, temporaryFolder(), START - 3 * DAY_MS),
    ],
    [
      "a backup that failed",
      "backup",
      "bad",
      /mailroom backup \/b/,
      (b) => writeBackupState(b.data, { lastFailure: { at: START, folder: "/b", error: "no room", told: true } }),
    ],
  ];
  for (const [what, id, state, todo, change] of cases) {
    test(what, async () => {
      const changed = await bench();
      await change(changed);
      const finding = await found(changed, id);
      expect(finding?.state).toBe(state);
      if (todo) expect(finding?.todo).toMatch(todo);
      else expect(finding).not.toHaveProperty("todo");
    });
  }

  test("certificates of domains that fail or end are told one by one, with the authority's words", async () => {
    const b = await bench();
    await askingAuthority({})(b);
    const folderOf = (domain: string) => join(b.data, "tls/acme/domains", domain);
    const keep = async (domain: string, days: number | undefined, state: object = {}) => {
      mkdirSync(folderOf(domain), { recursive: true });
      writeFileSync(join(folderOf(domain), "state.json"), JSON.stringify(state));
      if (days === undefined) return;
      await saveKeyPair(join(folderOf(domain), "certificate.pem"), await pairFor(`mta-sts.${domain}`, days));
    };
    await keep("good.test", 60);
    await keep("left.test", 5);
    await keep("refused.test", undefined, TROUBLE);
    await keep("failing.test", 20, TROUBLE);
    const told = async () => (await runDoctorChecks(b.world)).filter(({ id }) => id.startsWith("certificate:"));
    const until = (days: number) => new Date(START + days * DAY_MS).toISOString().slice(0, 10);
    const again =
      "It is tried again by itself, next at 2026-01-05 09:20 UTC, and at once by mailroom certificates renew --domain failing.test.";
    expect(await told()).toEqual([
      {
        id: "certificate:left.test",
        name: "Certificate of left.test",
        state: "warning",
        detail: `it is good until ${until(5)}, and was not renewed`,
        todo: expect.stringContaining("still lead to this server"),
      },
      {
        id: "certificate:failing.test",
        name: "Certificate of failing.test",
        state: "warning",
        detail: `it is good until ${until(20)}; the authority issued no newer one: connection refused`,
        todo: expect.stringContaining(again),
      },
      {
        id: "certificate:refused.test",
        name: "Certificate of refused.test",
        state: "warning",
        detail: "its hosts have none; the authority issued no newer one: connection refused",
        todo: expect.stringMatching(/^Port 80 of mta-sts.refused.test must lead to/),
      },
    ]);
    for (let i = 0; i < 30; i++) await keep(`more${i}.test`, undefined, TROUBLE);
    const many = await told();
    expect(many).toHaveLength(21);
    expect(many.at(-1)).toMatchObject({ id: "certificate:others", detail: expect.stringContaining("13 more") });
  });

  describe("a smarthost is tried as deliveries do", () => {
    async function trying(script: RemoteScript, name = "relay.test", password = "secret") {
      const b = await bench();
      const pair = await makePair("relay.test");
      const remote = await startRemoteMx({ pair, starttls: true, auth: { user: "user", pass: "secret" }, ...script });
      b.zone[name] = { a: ["127.0.0.1"] };
      Object.assign(b.world.runtime, { authorities: [pair.cert] });
      b.set("smtp.relay", `smtp://user:${password}@${name}:${remote.port}`);
      const finding = await found(b, "outbound");
      await remote.close();
      expect(JSON.stringify(finding)).not.toContain(`${password}@`);
      return { ...finding, port: remote.port };
    }

    test("one that would take mail is ok", async () => {
      const { state, detail, port } = await trying({});
      const steps = "with TLS for the name relay.test and sign-in";
      expect([state, detail]).toEqual(["ok", `the smarthost relay.test takes mail on port ${port}, ${steps}`]);
    });

    test.each([
      ["without STARTTLS", { starttls: false }, "relay.test", "secret", /TLS/],
      ["with a certificate for another name", {}, "other.test", "secret", /certificate|altnames/i],
      ["that refuses the password", {}, "relay.test", "wrong", /535 5\.7\.8 credentials are invalid/],
      ["that is busy", { greeting: "421 4.3.2 not now" }, "relay.test", "secret", /421 4\.3\.2 not now/],
    ] as const)("one %s is bad, and the step is told", async (_, script, name, password, reason) => {
      const { state, detail, todo } = await trying(script, name, password);
      expect(state).toBe("bad");
      expect(detail).toMatch(reason);
      expect(todo).toContain("smtp.relay");
    });

    test("one that does not answer is bad", async () => {
      const b = await bench();
      b.set("smtp.relay", `smtp://127.0.0.1:${await takePort()}`);
      expect(await found(b, "outbound")).toMatchObject({ state: "bad" });
    });
  });

  describe("SPF", () => {
    const spf = (b: Bench, text: string) => {
      b.zone["example.test"] = { ...(b.zone["example.test"] as Records), txt: [text] };
    };

    test("is shown as published, with the addresses that it allows", async () => {
      const b = await bench();
      expect(await found(b, "spf:example.test")).toMatchObject({
        state: "ok",
        detail: `what is published is "v=spf1 mx ~all", which allows ${ADDRESS} (this machine)`,
      });
    });

    test.each([
      ["v=spf1 -all", "bad", /which does not allow 203\.0\.113\.7 \(this machine\): fail/, /ip4:203\.0\.113\.7/],
      ["v=spf1 ip4:198.51.100.0/24 ~all", "bad", /: softfail/, /ip4:203\.0\.113\.7/],
      ["v=spf1 a:broken.test ~all", "unknown", /DNS does not answer for a name in it/, undefined],
      ["v=spf1 frob -all", "bad", /: permerror/, /ip4:/],
    ] as const)("%s", async (text, state, detail, todo) => {
      const b = await bench();
      b.zone["broken.test"] = "SERVFAIL";
      spf(b, text);
      const finding = await found(b, "spf:example.test");
      expect(finding?.state).toBe(state);
      expect(finding?.detail).toMatch(detail);
      if (todo) expect(finding?.todo).toMatch(todo);
    });

    test("has to allow each address from which mail leaves, of both families", async () => {
      const b = await bench();
      b.world.system.leavesFrom = async (family) => (family === 4 ? ADDRESS : "2001:db8::7");
      const finding = await found(b, "spf:example.test");
      expect(finding).toMatchObject({ state: "bad" });
      expect(finding?.detail).toContain("does not allow 2001:db8:0:0:0:0:0:7 (this machine)");
      expect(finding?.detail).not.toContain(ADDRESS);
    });

    test("behind a router has to allow the router's address, as far as the name tells it", async () => {
      const b = await bench();
      b.world.system.leavesFrom = async (family) => (family === 4 ? "10.0.0.5" : undefined);
      expect(await found(b, "spf:example.test")).toMatchObject({
        state: "ok",
        detail: expect.stringContaining(`allows ${ADDRESS} (the router, if it is ${HOST})`),
      });
    });

    test("with a smarthost has to allow the smarthost", async () => {
      const b = await bench();
      b.zone["relay.test"] = { a: ["127.0.0.9"] };
      b.set("smtp.relay", `smtp://relay.test:${await takePort()}`);
      expect(await found(b, "spf:example.test")).toMatchObject({
        state: "warning",
        detail: expect.stringContaining("does not allow 127.0.0.9 (the smarthost relay.test): softfail"),
        todo: expect.stringContaining("include:"),
      });
      spf(b, "v=spf1 a:relay.test -all");
      expect(await found(b, "spf:example.test")).toMatchObject({ state: "ok" });
    });
  });

  describe("the server's name", () => {
    test("at an address of this machine is ok", async () => {
      const detail = `${HOST} is at ${ADDRESS}, which this machine has`;
      expect(await found(await bench(), "hostname")).toMatchObject({ state: "ok", detail });
    });

    test("at the address of another machine is bad", async () => {
      const b = await bench();
      b.world.system.owns = () => false;
      b.world.system.leavesFrom = async () => "198.51.100.77";
      const detail = `${HOST} is at ${ADDRESS}, and this machine has 198.51.100.77`;
      expect(await found(b, "hostname")).toMatchObject({ state: "bad", detail, todo: expect.stringContaining(HOST) });
    });

    test("behind a router is said not to be known", async () => {
      const b = await bench();
      b.world.system.owns = () => false;
      b.world.system.leavesFrom = async () => "10.0.0.5";
      const finding = await found(b, "hostname");
      expect(finding).toMatchObject({ state: "unknown", detail: expect.stringContaining("(10.0.0.5)") });
    });
  });

  test("mailboxes that are nearly full are named, five at most, the fullest first", async () => {
    const b = await bench();
    const [domain] = domains.listDomains(b.world);
    for (let i = 1; i <= 8; i++) {
      b.world.store.transact((tx) => {
        const workspaceId = domain?.workspaceId ?? "";
        mailboxAdmin.addMailbox(b.world, tx, { workspaceId, address: `m${i}@example.test`, name: `M${i}` });
      });
      const id = `(SELECT id FROM mailboxes WHERE address = 'm${i}@example.test')`;
      b.sql(`UPDATE mailboxes SET quota_bytes = 100 WHERE id = ${id}`);
      b.sql(`INSERT OR REPLACE INTO mailbox_usage (mailbox_id, bytes) VALUES (${id}, ${82 + i * 3})`);
    }
    const { state, detail, todo } = (await found(b, "quotas")) ?? {};
    expect([state, detail]).toEqual([
      "warning",
      "nearly all of the quota is used in m8@example.test (106 %), m7@example.test (103 %), m6@example.test (100 %), m5@example.test (97 %), m4@example.test (94 %) and 1 more",
    ]);
    expect(todo).toContain("mailroom mailbox quota m8@example.test");
  });

  describe("backups", () => {
    test("that are no longer in their folder are bad, and an unreal one does not count", async () => {
      const b = await bench();
      const { lastGood } = await readBackupState(b.data);
      const folder = lastGood?.folder ?? "";
      rmSync(join(folder, "generations"), { recursive: true });
      mkdirSync(join(folder, "generations", generationId(START)), { recursive: true });
      expect(await found(b, "backup")).toMatchObject({ state: "bad", detail: `there is none in ${folder}` });
      rmSync(folder, { recursive: true });
      expect(await found(b, "backup")).toMatchObject({
        state: "bad",
        detail: expect.stringContaining("cannot be seen"),
      });
    });

    test("of an upgrade are none, and do not make up for those of the folder that is set", async () => {
      const b = await bench();
      const place = temporaryFolder();
      const upgrades = join(place, "upgrades");
      await backedUp(b.data, upgrades, START - HOUR_MS);
      expect(await found(b, "backup")).toMatchObject({
        state: "warning",
        detail: `there is none but that of the last upgrade, in ${upgrades}`,
        todo: expect.stringContaining("backup.folder"),
      });
      await backedUp(b.data, join(place, "daily"), START - 5 * DAY_MS);
      await backedUp(b.data, upgrades, START - HOUR_MS);
      b.set("backup.folder", join(place, "daily"));
      expect(await found(b, "backup")).toMatchObject({
        state: "bad",
        detail: `the newest in ${join(place, "daily")} is 120 hours old`,
      });
    });
  });

  test("a certificate for the address that is the server's name is ok", async () => {
    const b = await bench({ MAILROOM_HOSTNAME: `[${ADDRESS}]` });
    const cert = await certificate(`[${ADDRESS}]`, 60);
    b.world.system.greet = async () => ({ certificate: cert, line: "220" });
    expect(await found(b, "certificate")).toMatchObject({ state: "ok" });
  });

  test("a check that fails is a finding, and does not stop the others", async () => {
    const b = await bench();
    b.world.system.space = refuse;
    const findings = await runDoctorChecks(b.world);
    expect(findings[0]).toEqual({
      id: "disk",
      name: 'The check "disk"',
      state: "unknown",
      detail: "it could not be made: ECONNREFUSED",
    });
    expect(findings.length).toBeGreaterThan(15);
  });
});

describe("the operating system", () => {
  test("tells free space, permissions, and listeners", async () => {
    const space = await operatingSystem.space("/");
    expect(space.total).toBeGreaterThan(space.free);
    const folder = temporaryFolder();
    expect(await operatingSystem.entries(folder)).toMatchObject([{ path: folder, isFolder: true, mode: 0o700 }]);
    const server = createServer((socket) => socket.resume().end("220 hello\r\n")).listen(0, "127.0.0.1");
    await new Promise((resolve) => server.once("listening", resolve));
    const { port } = server.address() as { port: number };
    expect(await operatingSystem.greet("127.0.0.1", port, "line")).toEqual({ line: "220 hello" });
    expect(await operatingSystem.greet("127.0.0.1", port, "connection")).toEqual({});
    await new Promise((resolve) => server.close(resolve));
    await expect(operatingSystem.greet("127.0.0.1", port, "line")).rejects.toThrow();
  });
});
