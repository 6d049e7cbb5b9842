/** /metrics: its clients, and the metrics after events on the server. */
import { describe, expect, test } from "bun:test";
import { join } from "node:path";
import * as developers from "../../src/admin/developers.ts";
import * as domains from "../../src/admin/domains.ts";
import * as workspaceAdmin from "../../src/admin/workspace-admin.ts";
import { writeBackupState } from "../../src/backup/backup-layout.ts";
import { metricsResponse } from "../../src/http/http-server.ts";
import { saveKeyPair, savePrivately, selfSign } from "../../src/tls/pair.ts";
import { type Family, readExposition, sampleOf } from "../harness/clients/exposition.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { letter, mailer } from "../harness/mail/mail.ts";
import { zone } from "../harness/peers/dns-server.ts";
import { startReceiver } from "../harness/peers/receiver.ts";
import { START } from "../harness/runtime.ts";
import { type Booted, boot, bootEmpty } from "../harness/servers/boot.ts";
import { testCore } from "../harness/servers/core.ts";

async function scrape({ http }: Booted): Promise<Map<string, Family>> {
  const response = await fetch(`${http}/metrics`);
  expect([response.status, response.headers.get("content-type")]).toEqual([
    200,
    "text/plain; version=0.0.4; charset=utf-8",
  ]);
  return readExposition(await response.text());
}

/** Returns by how much a sample has risen. */
async function during(booted: Booted, work: () => Promise<unknown>) {
  const before = await scrape(booted);
  await work();
  const after = await scrape(booted);
  return (name: string, labels: Record<string, string> = {}): number =>
    (sampleOf(after, name, labels) ?? 0) - (sampleOf(before, name, labels) ?? 0);
}

test("received mail is counted: number, size, refusals, time", async () => {
  const booted = await boot();
  const sender = mailer(booted.mx);
  const mail = letter({});
  const envelope = { from: "carol@remote.example", to: "alice@example.test" };
  const rise = await during(booted, async () => {
    await sender.send(envelope, mail);
    await sender.send(envelope, mail);
    await sender.send({ ...envelope, to: "nobody@example.test" }, mail).catch(() => {});
  });
  sender.close();
  expect([rise("mailroom_messages_received_total", { outcome: "filed" })]).toEqual([1]);
  expect(rise("mailroom_messages_received_total", { outcome: "duplicate" })).toBe(1);
  expect(rise("mailroom_received_bytes_total")).toBeGreaterThan(2 * 200);
  expect(rise("mailroom_receive_seconds_count")).toBe(2);
  expect(rise("mailroom_smtp_refusals_total", { reason: "unknownRecipient" })).toBe(1);
  expect(rise("mailroom_mail_bytes")).toBeGreaterThan(200);
});

test("REST operations are counted by name and class of status, and refusals by code", async () => {
  const booted = await boot();
  const rise = await during(booted, async () => {
    await booted.api.get("/threads");
    await booted.api.get("/threads?limit=0");
    await booted.api.get("/nothing");
    await booted.apiWith("mr_wrong").get("/threads");
  });
  const operations = (status: string) => rise("mailroom_operation_seconds_count", { operation: "listThreads", status });
  expect([operations("2xx"), operations("4xx")]).toEqual([1, 1]);
  const refused = ["bad_request", "not_found", "unauthorized"].map((code) =>
    rise("mailroom_api_refusals_total", { code }),
  );
  expect(refused).toEqual([1, 1, 1]);
});

test("the queue has recipients, ages, outcomes of attempts, and the warm-up", async () => {
  const booted = await boot();
  const { api, advance } = booted;
  const rise = await during(booted, async () => {
    for (const to of ["dan@remote.example", "alice@example.test"]) {
      await api.post("/send", { from: "alice@example.test", to, subject: "Hello", text: "Lunch?" });
    }
    await advance(0);
  });
  expect(rise("mailroom_delivery_attempts_total", { outcome: "accepted" })).toBe(1);
  expect(rise("mailroom_delivery_attempts_total", { outcome: "deferred" })).toBe(0);
  // The domain does not exist, so it is refused at once.
  expect(rise("mailroom_delivery_attempts_total", { outcome: "refused" })).toBe(1);
  const families = await scrape(booted);
  expect(sampleOf(families, "mailroom_warmup_recipients", { domain: "example.test", kind: "used" })).toBe(1);
  expect(sampleOf(families, "mailroom_warmup_recipients", { domain: "example.test", kind: "ceiling" })).toBe(50);
});

test("recipients that wait in the queue are counted, with the oldest", async () => {
  const booted = await boot({}, unanswered);
  const { api, advance } = booted;
  await api.post("/send", { from: "alice@example.test", to: "dan@remote.example", subject: "Hello", text: "Lunch?" });
  await advance(1_000);
  await advance(89_000);
  const families = await scrape(booted);
  const waiting = (state: string) => sampleOf(families, "mailroom_queue_recipients", { state });
  expect([waiting("waiting"), waiting("held")]).toEqual([1, 0]);
  expect(sampleOf(families, "mailroom_queue_oldest_seconds")).toBe(90);
  expect(sampleOf(families, "mailroom_queue_overdue_seconds")).toBe(0);
  expect(sampleOf(families, "mailroom_delivery_attempts_total", { outcome: "deferred" })).toBe(2);
});

const unanswered = zone({}, { always: "silence" });

test("webhooks have endpoints by state, attempts, waiting deliveries", async () => {
  const booted = await boot();
  const { core, opened, owner, advance } = booted;
  const receiver = startReceiver();
  receiver.answer = () => new Response("no", { status: 500 });
  core.store.transact((tx) => core.options.set(tx, "webhooks.allowNetworks", "127.0.0.0/8"));
  core.store.transact((tx) => {
    developers.addWebhook(opened.core, tx, {
      workspaceId: owner.workspaceId,
      url: receiver.url,
      events: ["message.inbound"],
    });
  });
  const sender = mailer(booted.mx);
  await sender.send({ from: "carol@remote.example", to: "alice@example.test" }, letter({}));
  sender.close();
  await advance(1_000);
  const families = await scrape(booted);
  expect(sampleOf(families, "mailroom_webhook_endpoints", { state: "active" })).toBe(1);
  expect(sampleOf(families, "mailroom_webhook_endpoints", { state: "disabled" })).toBe(0);
  expect(sampleOf(families, "mailroom_webhook_attempt_seconds_count", { outcome: "failed" })).toBe(1);
  expect(sampleOf(families, "mailroom_webhook_deliveries_waiting")).toBe(1);
});

test("the machine has disk, memory, certificate, backups, event loop", async () => {
  const booted = await boot();
  const now = booted.runtime.now();
  await writeBackupState(booted.opened.config.data, {
    lastGood: { at: now, folder: "/mnt/backup", generation: "g" },
    lastFailure: { at: now, folder: "/mnt/backup", error: "full", told: true },
  });
  const families = await scrape(booted);
  const value = (name: string, labels?: Record<string, string>) => sampleOf(families, name, labels) ?? Number.NaN;
  expect(value("mailroom_info")).toBe(1);
  expect(value("mailroom_mailboxes")).toBe(1);
  expect(value("mailroom_oauth_grants")).toBe(0);
  expect([
    value("mailroom_oauth_clients", { state: "used" }),
    value("mailroom_oauth_clients", { state: "unused" }),
  ]).toEqual([0, 0]);
  expect(value("mailroom_disk_bytes", { kind: "free" })).toBeLessThanOrEqual(
    value("mailroom_disk_bytes", { kind: "size" }),
  );
  expect(value("mailroom_database_bytes", { file: "database" })).toBeGreaterThan(100_000);
  expect(value("process_resident_memory_bytes")).toBeGreaterThan(10_000_000);
  expect(value("process_cpu_seconds_total")).toBeGreaterThan(0);
  expect(value("process_start_time_seconds")).toBe(now / 1_000);
  expect(value("mailroom_certificate_expiry_timestamp_seconds")).toBeGreaterThan(now / 1_000);
  expect(value("mailroom_backup_last_success_timestamp_seconds")).toBe(now / 1_000);
  expect(value("mailroom_backup_failing")).toBe(1);
  expect(value("mailroom_event_loop_delay_seconds", { rank: "0.99" })).toBeGreaterThanOrEqual(0);
});

test("certificates of domains are counted, and the ends of those that end first are told", async () => {
  const data = temporaryFolder();
  const folderOf = (domain: string) => join(data, "tls/acme/domains", domain);
  const names = Array.from({ length: 25 }, (_, i) => `d${String(i).padStart(2, "0")}.test`);
  const endOf = (i: number) => START + (30 - i) * 86_400_000;
  for (const [i, name] of names.entries()) {
    const pair = await selfSign(`mta-sts.${name}`, START - 1_000, endOf(i), new Uint8Array(8).fill(1));
    await saveKeyPair(join(folderOf(name), "certificate.pem"), pair);
  }
  const trouble = { failures: 1, at: START, retryAt: START + 60_000, reason: "no" };
  await savePrivately(join(folderOf("failing.test"), "state.json"), JSON.stringify({ trouble }));
  const env = {
    MAILROOM_DATA: data,
    MAILROOM_TLS: "acme",
    MAILROOM_ACME_DIRECTORY: "https://localhost:1/dir",
    MAILROOM_HOSTNAME: "mail.example.test",
  };
  const booted = await bootEmpty(env, { dns: zone({}) }, ({ core: { store }, core }) => {
    store.transact((tx) => {
      const { id } = workspaceAdmin.addWorkspace(core, tx, "Example");
      for (const name of [...names, "failing.test"])
        domains.markDomainVerified(core, tx, domains.addDomain(core, tx, id, name, []).id);
    });
  });
  await booted.server.settled();
  const families = readExposition(await (await fetch(`${booted.http}/metrics`)).text());
  const counted = (kind: string) => sampleOf(families, "mailroom_domain_certificates", { kind });
  expect([counted("valid"), counted("failing")]).toEqual([25, 1]);
  const ends = "mailroom_domain_certificate_expiry_timestamp_seconds";
  const told = names.map((domain) => sampleOf(families, ends, { domain }));
  expect(told).toEqual(names.map((_, i) => (i < 5 ? undefined : endOf(i) / 1_000)));
});

describe("/metrics", () => {
  const ask = async (
    peer: string | undefined,
    headers: Record<string, string> = {},
    networks: "none" | string[] = "none",
  ) => {
    const core = testCore();
    core.store.transact((tx) => core.options.set(tx, "metrics.allowNetworks", networks.toString()));
    return (await metricsResponse(core, new Request("http://localhost/metrics", { headers }), peer)).status;
  };

  type Case = [client: string, status: number, peer?: string, headers?: Record<string, string>, networks?: string[]];
  const CASES: Case[] = [
    ["this machine", 200, "127.0.0.1"],
    ["this machine, by another of its addresses", 200, "127.8.9.1"],
    ["this machine, IPv6", 200, "::1"],
    ["this machine, mapped", 200, "::ffff:127.0.0.1"],
    ["another machine", 403, "192.0.2.1"],
    ["an unknown address", 403, ""],
    ["an allowed network", 200, "192.0.2.1", {}, ["192.0.2.0/24"]],
    ["the network beside it", 403, "192.0.3.1", {}, ["192.0.2.0/24"]],
    ["a proxy on this machine", 403, "127.0.0.1", { "x-forwarded-for": "127.0.0.1" }],
    ["a proxy whose header is empty", 403, "127.0.0.1", { "x-forwarded-for": "" }],
    ["a proxy that speaks RFC 7239", 403, "127.0.0.1", { forwarded: "for=127.0.0.1" }],
    ["a proxy in an allowed network", 403, "192.0.2.1", { "X-Forwarded-For": "::1" }, ["192.0.2.0/24"]],
  ];
  test.each(CASES)("for %s is %i", async (...[, status, peer, headers, networks]: Case) => {
    expect(await ask(peer, headers, networks)).toBe(status);
  });

  test("with the token is for everybody, forwarded or not, and with another for nobody", async () => {
    const booted = await boot();
    const { options, store } = booted.core;
    const asProxy = async (authorization: string) => {
      const headers = { "x-forwarded-for": "192.0.2.1", authorization };
      return (await fetch(`${booted.http}/metrics`, { headers })).status;
    };
    const token = "t0ken/of+twenty=chars";
    expect(await asProxy(`Bearer ${token}`)).toBe(403);
    expect(await asProxy("Bearer none")).toBe(403);
    store.transact((tx) => options.set(tx, "metrics.token", token));
    expect(await asProxy(`Bearer ${token}`)).toBe(200);
    for (const wrong of ["", "Bearer", "Bearer ", `Bearer ${token}x`, token]) expect(await asProxy(wrong)).toBe(403);
    expect((await fetch(`${booted.http}/metrics`)).status).toBe(200);
  });

  test("takes GET and HEAD only", async () => {
    const booted = await boot();
    const ask = async (method: string, headers: Record<string, string> = {}) => {
      const response = await fetch(`${booted.http}/metrics`, { method, headers });
      return { status: response.status, text: await response.text() };
    };
    expect(await ask("HEAD")).toEqual({ status: 200, text: "" });
    expect((await ask("POST")).status).toBe(405);
    const forwarded = await ask("GET", { "x-forwarded-for": "127.0.0.1" });
    expect([forwarded.status, forwarded.text.includes("mailroom_")]).toEqual([403, false]);
  });
});
