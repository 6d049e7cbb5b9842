/**
 * The administration API's domains over HTTP (rules: Administered domains): added, looked up in a world whose zones
 * change, verified and removed.
 */
import { describe, expect, test } from "bun:test";
import type { Records, Zone } from "../harness/peers/dns-server.ts";
import { type AdminApi, allPages, bootAdminApi, refusal } from "../harness/servers/admin-api.ts";

interface Record {
  type: string;
  name: string;
  value: string;
  purpose: string;
  state?: string;
}

interface Domain {
  id: string;
  name: string;
  records: Record[];
}

const added = async ({ call }: Pick<AdminApi, "call">, name = "new.test"): Promise<Domain> => {
  const { status, body } = await call("POST", "/domains", { name });
  expect(status).toBe(201);
  return body as unknown as Domain;
};

/** Puts records into the world, of all purposes unless some are named. */
function publish(zone: Zone, { records }: Domain, purposes?: string[]): void {
  for (const { type, name, value, purpose } of records) {
    if (type === "CNAME" || (purposes && !purposes.includes(purpose))) continue;
    const before = (zone[name] ?? {}) as Records;
    if (type === "MX") zone[name] = { ...before, mx: [[10, value.split(" ")[1] ?? ""]] };
    else zone[name] = { ...before, txt: [...(before.txt ?? []), value] };
  }
}

const statesOf = (body: object) =>
  Object.fromEntries((body as unknown as Domain).records.map(({ purpose, state }) => [purpose, state]));

test("a domain is added unverified, with the records that its zone needs", async () => {
  const it = await bootAdminApi();
  const { status, body } = await it.call("POST", "/domains", { name: "Bücher.Example." });
  expect(status).toBe(201);
  const { records, ...domain } = body;
  expect(domain).toEqual({
    ...{ id: expect.stringMatching(/^dom_/), name: "xn--bcher-kva.example", state: "unverified" },
    ...{ takesMail: false, verifiedAt: null, createdAt: expect.stringMatching(/Z$/) },
  });
  expect((records as Record[]).map(({ purpose }) => purpose)).toEqual(
    expect.arrayContaining(["mx", "spf", "dkim", "dmarc", "ownership"]),
  );
  for (const record of records as Record[]) {
    expect(record).toEqual({
      ...{ type: expect.any(String), name: expect.stringContaining("xn--bcher-kva.example") },
      ...{ value: expect.any(String), purpose: record.purpose },
      ...("optional" in record && { optional: true }),
    });
  }
});

test("adding is refused for an invalid name, for a domain that is there already, and for another workspace's", async () => {
  const it = await bootAdminApi();
  for (const [body, told] of [
    [{}, "400 bad_request"],
    [{ name: "nothing" }, "400 bad_request"],
    [{ name: "192.0.2.1" }, "400 bad_request"],
    [{ name: "new.test", verified: true }, "400 bad_request"],
    [{ name: "Example.test" }, "409 conflict"],
    [{ name: "other.test" }, "409 conflict"],
  ] as const) {
    expect([body, refusal(await it.call("POST", "/domains", body))]).toEqual([body, told]);
  }
});

test("the domains of a workspace, and no others, are listed page by page with their records", async () => {
  const it = await bootAdminApi();
  for (const name of ["c.test", "b.test", "a.test"]) {
    await it.advance(1_000);
    await added(it, name);
  }
  const domains = await allPages<Domain>(it.call, "/domains", "domains");
  expect(domains.map(({ name }) => name)).toEqual(["example.test", "c.test", "b.test", "a.test"]);
  expect(domains[0]?.records.length).toBeGreaterThan(4);
  expect(domains[0]?.records.every((record) => !("state" in record))).toBe(true);
  const at = `/domains/${it.other.domainId}`;
  for (const [method, path] of [
    ["GET", at],
    ["POST", `${at}/verify`],
    ["DELETE", at],
    ["GET", "/domains/dom_none"],
  ] as const) {
    expect([path, refusal(await it.call(method, path))]).toEqual([path, "404 not_found"]);
  }
});

describe("looking a domain up", () => {
  test("shows the state of each record, and changes nothing", async () => {
    const zone: Zone = {};
    const it = await bootAdminApi(zone);
    const domain = await added(it);
    const missing = await it.call("GET", `/domains/${domain.id}`);
    expect([missing.status, statesOf(missing.body)]).toEqual([
      200,
      expect.objectContaining({
        mx: "missing",
        spf: "missing",
        dkim: "missing",
        dmarc: "missing",
        ownership: "missing",
      }),
    ]);
    publish(zone, domain);
    zone["_dmarc.new.test"] = "SERVFAIL";
    const { body } = await it.call("GET", `/domains/${domain.id}`);
    expect(statesOf(body)).toMatchObject({ mx: "found", dkim: "found", ownership: "found", dmarc: "unanswered" });
    expect(body).toMatchObject({ state: "unverified", verifiedAt: null });
  });

  test("verifies it for good once the records of ownership and DKIM are found", async () => {
    const zone: Zone = {};
    const it = await bootAdminApi(zone);
    const domain = await added(it);
    const verify = (key?: string) => it.call("POST", `/domains/${domain.id}/verify`, undefined, key);
    expect((await verify()).body).toMatchObject({ state: "unverified" });
    publish(zone, domain, ["ownership"]);
    const half = await verify();
    expect([half.status, half.body.state, statesOf(half.body)]).toEqual([
      ...[200, "unverified"],
      expect.objectContaining({ ownership: "found", dkim: "missing" }),
    ]);
    publish(zone, domain, ["dkim"]);
    const done = await verify("once");
    expect(done.body).toMatchObject({ state: "verified", takesMail: true, verifiedAt: expect.stringMatching(/Z$/) });
    expect(statesOf(done.body)).toMatchObject({ dkim: "found", mx: "missing" });
    for (const name of Object.keys(zone)) delete zone[name];
    expect((await verify("once")).replayed).toBe(true);
    const later = await verify();
    expect(later.body).toMatchObject({ state: "verified", verifiedAt: done.body.verifiedAt });
    expect(statesOf(later.body)).toMatchObject({ dkim: "missing" });
    expect(refusal(await it.call("POST", `/domains/${domain.id}/verify`, { skip: true }))).toBe("400 bad_request");
  });

  test("does not verify it after another workspace has: it is lost", async () => {
    const zone: Zone = {};
    const it = await bootAdminApi(zone);
    const zoe = it.callAs(it.other.key);
    const mine = await added(it, "shop.test");
    const theirs = await added({ call: zoe }, "shop.test");
    publish(zone, theirs);
    expect((await zoe("POST", `/domains/${theirs.id}/verify`)).body).toMatchObject({ state: "verified" });
    publish(zone, mine);
    expect((await it.call("GET", `/domains/${mine.id}`)).body).toMatchObject({ state: "lost", takesMail: false });
    expect(refusal(await it.call("POST", `/domains/${mine.id}/verify`))).toBe("409 conflict");
  });
});

test("a domain is removed unless addresses use it", async () => {
  const it = await bootAdminApi();
  const domain = await added(it);
  const box = await it.call("POST", "/mailboxes", { address: "x@new.test", name: "X" });
  const inUse = await it.call("DELETE", `/domains/${domain.id}`);
  expect([refusal(inUse), inUse.body.error]).toEqual(["409 conflict", expect.stringContaining("x@new.test")]);
  // An expired mailbox has its address until it is removed.
  await it.call("DELETE", `/mailboxes/${box.body.id}`);
  expect(refusal(await it.call("DELETE", `/domains/${domain.id}`))).toBe("409 conflict");
  await it.advance(30 * 86_400_000 + 3_600_000);
  const removed = await it.call("DELETE", `/domains/${domain.id}`);
  expect([removed.status, removed.body]).toEqual([200, { ok: true }]);
  expect(refusal(await it.call("DELETE", `/domains/${domain.id}`))).toBe("404 not_found");
});

test("a domain is added once for one idempotency key", async () => {
  const it = await bootAdminApi();
  const first = await it.call("POST", "/domains", { name: "new.test" }, "k");
  const again = await it.call("POST", "/domains", { name: "new.test" }, "k");
  expect([again.status, again.replayed, again.body]).toEqual([201, true, first.body]);
  expect(await allPages(it.call, "/domains", "domains")).toHaveLength(2);
});
