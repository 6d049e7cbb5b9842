/**
 * The administration API's mailboxes over HTTP (rules: Administered mailboxes): made, changed, given more addresses,
 * shared, expired and removed.
 */
import { describe, expect, test } from "bun:test";
import { connectSmtp } from "../harness/clients/smtp-client.ts";
import { letter } from "../harness/mail/mail.ts";
import { type AdminApi, allPages, bootAdminApi, refusal } from "../harness/servers/admin-api.ts";

const HOUR = 3_600_000;
const DAY = 24 * HOUR;

interface Mailbox {
  id: string;
  address: string;
  aliases: string[];
  expiresAt: string | null;
  removing: boolean;
}

const made = async ({ call }: Pick<AdminApi, "call">, more: object = {}): Promise<Mailbox> => {
  const { status, body } = await call("POST", "/mailboxes", { address: "team@example.test", name: "Team", ...more });
  expect(status).toBe(201);
  return body as unknown as Mailbox;
};

async function deliver({ mx }: AdminApi, to: string, subject = "Hello"): Promise<string> {
  const client = await connectSmtp(mx);
  const mail = letter({ from: "carol@remote.example", to, subject }).replaceAll(/\r?\n/g, "\r\n");
  const { code, status } = await client.deliver({ from: "carol@remote.example", to }, mail).catch((error) => {
    const [, refused = "", text = ""] = /: (\d+) (.*)$/.exec(error.message) ?? [];
    return { code: Number(refused), status: text.split(" ")[0] ?? "" };
  });
  client.destroy();
  return `${code} ${status}`;
}

describe("a mailbox is made", () => {
  test("with its required fields alone", async () => {
    const it = await bootAdminApi();
    const { status, body } = await it.call("POST", "/mailboxes", { address: "Team@Example.Test", name: " Team " });
    expect(status).toBe(201);
    expect(body).toEqual({
      ...{ id: expect.stringMatching(/^mbx_/), address: "team@example.test", name: "Team" },
      ...{ owner: null, ownerId: null, aliases: [], catchAlls: [], grants: [] },
      ...{ quotaBytes: null, usedBytes: 0, pausedReason: null, expiresAt: null, removing: false, lost: false },
      createdAt: expect.stringMatching(/Z$/),
    });
    expect((await it.call("GET", `/mailboxes/${body.id}`)).body).toEqual(body);
    expect(await deliver(it, "team@example.test")).toStartWith("250");
  });

  test("with all fields, its owner given by id or address", async () => {
    const it = await bootAdminApi();
    const bob = it.join("bob@example.test", "member");
    const expiresAt = new Date(it.runtime.now() + DAY).toISOString();
    const given = { aliases: ["sales@example.test", "*@example.test"], quotaBytes: 5_000, expiresAt };
    const mailbox = await made(it, { ...given, owner: bob.userId });
    expect(mailbox).toMatchObject({
      ...{ owner: "bob@example.test", ownerId: bob.userId, aliases: ["sales@example.test"] },
      ...{ catchAlls: ["*@example.test"], quotaBytes: 5_000, expiresAt },
    });
    const byAddress = await made(it, { address: "b@example.test", owner: "Bob@example.test" });
    expect(byAddress).toMatchObject({ ownerId: bob.userId });
    for (const to of ["sales@example.test", "whoever@example.test"]) {
      expect(await deliver(it, to)).toStartWith("250");
    }
  });

  test("whole or not at all, and a refusal tells what is wrong", async () => {
    const it = await bootAdminApi();
    const past = new Date(it.runtime.now()).toISOString();
    const cases: [object, string][] = [
      [{ address: "nobody" }, "400 bad_request"],
      [{ address: "x+tag@example.test" }, "400 bad_request"],
      [{ name: "" }, "400 bad_request"],
      [{ quotaBytes: -1 }, "400 bad_request"],
      [{ quotaBytes: 1.5 }, "400 bad_request"],
      [{ expiresAt: "tomorrow" }, "400 bad_request"],
      [{ expiresAt: "2030-01-01" }, "400 bad_request"],
      [{ expiresAt: past }, "400 bad_request"],
      [{ expiresAt: "9999-12-31T23:59:59-23:59" }, "400 bad_request"],
      [{ aliases: "sales@example.test" }, "400 bad_request"],
      [{ colour: "red" }, "400 bad_request"],
      [{ paused: true }, "400 bad_request"],
      [{ owner: "usr_none" }, "422 unprocessable"],
      [{ owner: it.other.userId }, "422 unprocessable"],
      [{ owner: "zoe@other.test" }, "422 unprocessable"],
      [{ address: "alice@example.test" }, "409 conflict"],
      [{ aliases: ["free@example.test", "alice@example.test"] }, "409 conflict"],
      [{ address: "x@other.test" }, "422 unprocessable"],
      [{ aliases: ["x@other.test"] }, "422 unprocessable"],
    ];
    for (const [wrong, told] of cases) {
      const answer = await it.call("POST", "/mailboxes", { address: "new@example.test", name: "New", ...wrong });
      expect([wrong, refusal(answer)]).toEqual([wrong, told]);
    }
    expect(refusal(await it.call("POST", "/mailboxes", { name: "New" }))).toBe("400 bad_request");
    const { body } = await it.call("GET", "/mailboxes");
    expect((body.mailboxes as Mailbox[]).map(({ address }) => address)).toEqual(["alice@example.test"]);
  });

  test("once for one idempotency key, however often the request comes", async () => {
    const it = await bootAdminApi();
    const body = { address: "team@example.test", name: "Team" };
    const first = await it.call("POST", "/mailboxes", body, "k1");
    const again = await it.call("POST", "/mailboxes", body, "k1");
    expect([first.status, again.status, again.replayed]).toEqual([201, 201, true]);
    expect(again.body).toEqual(first.body);
    expect(refusal(await it.call("POST", "/mailboxes", { ...body, name: "Other" }, "k1"))).toBe(
      "422 idempotency_key_reused",
    );
    for (const [path, more] of [
      ["aliases", { alias: "sales@example.test" }],
      ["grants", { user: it.join("bob@example.test", "member").userId, access: "view" }],
    ] as const) {
      const of = `/mailboxes/${first.body.id}/${path}`;
      const told = [await it.call("POST", of, more, path), await it.call("POST", of, more, path)];
      expect(told.map(({ status, replayed }) => [status, replayed])).toEqual([
        [201, false],
        [201, true],
      ]);
    }
  });
});

describe("mailboxes are listed", () => {
  test("oldest first, page by page, those of the workspace alone", async () => {
    const it = await bootAdminApi();
    const addresses = ["e", "d", "c", "b"].map((name) => `${name}@example.test`);
    for (const [index, address] of addresses.entries()) {
      // Two at the same time.
      if (index !== 2) await it.advance(1_000);
      await made(it, { address });
    }
    const pages = await allPages<Mailbox>(it.call, "/mailboxes", "mailboxes");
    expect(pages.map(({ address }) => address)).toEqual(
      expect.arrayContaining(["alice@example.test", ...addresses]) as never,
    );
    expect(pages).toHaveLength(5);
    expect(pages[0]).toMatchObject({ address: "alice@example.test" });
    const { body } = await it.call("GET", "/mailboxes?limit=1");
    for (const path of [
      `/people?cursor=${body.nextCursor}`,
      "/mailboxes?cursor=x",
      "/mailboxes?limit=0",
      "/mailboxes?limit=101",
    ]) {
      expect([path, refusal(await it.call("GET", path))]).toEqual([path, "400 bad_request"]);
    }
  });

  test("shown, changed and removed only in the workspace of the key", async () => {
    const it = await bootAdminApi();
    const at = `/mailboxes/${it.other.mailboxId}`;
    const cases = [
      ["GET", at],
      ["PATCH", at, { name: "Mine" }],
      ["DELETE", at],
      ["POST", `${at}/aliases`, { alias: "x@example.test" }],
      ["DELETE", `${at}/aliases/zoe@other.test`],
      ["POST", `${at}/grants`, { user: it.owner.userId, access: "full" }],
      ["DELETE", `${at}/grants/${it.other.userId}`],
      ["GET", "/mailboxes/mbx_none"],
    ] as const;
    for (const [method, path, body] of cases) {
      expect([path, refusal(await it.call(method, path, body))]).toEqual([path, "404 not_found"]);
    }
    expect((await it.callAs(it.other.key)("GET", at)).body).toMatchObject({ address: "zoe@other.test", grants: [] });
  });
});

describe("a mailbox is changed", () => {
  test("field by field, and back", async () => {
    const it = await bootAdminApi();
    const bob = it.join("bob@example.test", "member");
    const { id } = await made(it);
    const patch = (body: object) => it.call("PATCH", `/mailboxes/${id}`, body);
    const expiresAt = new Date(it.runtime.now() + DAY).toISOString();
    for (const [change, shown] of [
      [{ name: "Front desk" }, { name: "Front desk" }],
      [{ owner: bob.userId }, { owner: "bob@example.test", ownerId: bob.userId }],
      [{ owner: "alice@example.test" }, { ownerId: it.owner.userId }],
      [{ owner: null }, { owner: null, ownerId: null }],
      [{ quotaBytes: 0 }, { quotaBytes: 0 }],
      [{ quotaBytes: null }, { quotaBytes: null }],
      [{ pausedReason: "Under review" }, { pausedReason: "Under review" }],
      [{ pausedReason: null }, { pausedReason: null }],
      [{ expiresAt }, { expiresAt }],
      [
        { expiresAt: null, name: "Team" },
        { expiresAt: null, name: "Team" },
      ],
    ]) {
      const { status, body } = await patch(change as object);
      expect([change, status, body]).toEqual([change, 200, expect.objectContaining(shown as object)]);
    }
  });

  test("whole or not at all: an invalid field leaves the others unchanged", async () => {
    const it = await bootAdminApi();
    const { id } = await made(it);
    for (const [change, told] of [
      [{}, "400 bad_request"],
      [{ name: "Other", policy: {} }, "400 bad_request"],
      [{ name: "Other", expiresAt: "2020-01-01T00:00:00Z" }, "400 bad_request"],
      [{ name: "Other", pausedReason: "" }, "400 bad_request"],
      [{ name: "Other", owner: it.other.userId }, "422 unprocessable"],
      [{ address: "other@example.test" }, "400 bad_request"],
    ] as const) {
      expect([change, refusal(await it.call("PATCH", `/mailboxes/${id}`, change))]).toEqual([change, told]);
    }
    expect((await it.call("GET", `/mailboxes/${id}`)).body).toMatchObject({ name: "Team" });
  });

  test("to expire: it takes no mail and sends none, can be read for 30 days, and is gone after them", async () => {
    const it = await bootAdminApi();
    const { id } = await made(it, { aliases: ["brief@example.test"] });
    expect(await deliver(it, "team@example.test", "kept")).toStartWith("250");
    const expiresAt = new Date(it.runtime.now() + DAY).toISOString();
    expect((await it.call("PATCH", `/mailboxes/${id}`, { expiresAt })).status).toBe(200);
    await it.advance(DAY);
    for (const to of ["team@example.test", "team+x@example.test", "brief@example.test"]) {
      expect(await deliver(it, to)).toBe("550 5.1.1");
    }
    const message = { from: "team@example.test", to: ["alice@example.test"], subject: "S", text: "T" };
    expect((await it.api.post("/send", message)).status).toBe(422);
    await it.advance(29 * DAY);
    expect((await it.api.get<{ threads: object[] }>(`/threads?mailbox=${id}`)).body.threads).toHaveLength(1);
    await it.advance(DAY + HOUR);
    await it.advance(1_000);
    expect(refusal(await it.call("GET", `/mailboxes/${id}`))).toBe("404 not_found");
    expect((await it.api.get(`/threads?mailbox=${id}`)).status).toBe(404);
  });
});

test("aliases and catch-alls are added and removed", async () => {
  const it = await bootAdminApi();
  const { id } = await made(it);
  const at = `/mailboxes/${id}/aliases`;
  const added = await it.call("POST", at, { alias: "Sales@example.test" });
  expect([added.status, added.body]).toEqual([201, expect.objectContaining({ id, aliases: ["sales@example.test"] })]);
  expect((await it.call("POST", at, { alias: "*@example.test" })).body).toMatchObject({
    catchAlls: ["*@example.test"],
  });
  for (const [body, told] of [
    [{}, "400 bad_request"],
    [{ alias: "nobody" }, "400 bad_request"],
    [{ alias: "y@example.test", kind: "x" }, "400 bad_request"],
    [{ alias: "alice@example.test" }, "409 conflict"],
    [{ alias: "sales@example.test" }, "409 conflict"],
    [{ alias: "x@other.test" }, "422 unprocessable"],
  ] as const) {
    expect([body, refusal(await it.call("POST", at, body))]).toEqual([body, told]);
  }
  for (const alias of ["sales@example.test", encodeURIComponent("*@example.test")]) {
    const removed = await it.call("DELETE", `${at}/${alias}`);
    expect([removed.status, removed.body]).toEqual([200, { ok: true }]);
    expect(refusal(await it.call("DELETE", `${at}/${alias}`))).toBe("404 not_found");
  }
  expect(refusal(await it.call("DELETE", `${at}/team@example.test`))).toBe("409 conflict");
  expect(await deliver(it, "sales@example.test")).toBe("550 5.1.1");
});

test("shares are added, changed and removed, and open the mailbox while they last", async () => {
  const it = await bootAdminApi();
  const bob = it.join("bob@example.test", "member");
  const { id } = await made(it);
  const at = `/mailboxes/${id}/grants`;
  const threads = async () => (await it.apiWith(bob.key).get(`/threads?mailbox=${id}`)).status;
  expect(await threads()).toBe(404);
  const shared = await it.call("POST", at, { user: bob.userId, access: "view" });
  const grant = { user: "bob@example.test", userId: bob.userId };
  expect([shared.status, shared.body.grants]).toEqual([201, [{ ...grant, access: "view" }]]);
  expect(await threads()).toBe(200);
  const changed = await it.call("POST", at, { user: "bob@example.test", access: "full" });
  expect(changed.body.grants).toEqual([{ ...grant, access: "full" }]);
  for (const [body, told] of [
    [{ user: bob.userId }, "400 bad_request"],
    [{ user: bob.userId, access: "all" }, "400 bad_request"],
    [{ user: it.other.userId, access: "view" }, "404 not_found"],
    [{ user: "nobody@example.test", access: "view" }, "404 not_found"],
  ] as const) {
    expect([body, refusal(await it.call("POST", at, body))]).toEqual([body, told]);
  }
  expect((await it.call("DELETE", `${at}/${bob.userId}`)).body).toEqual({ ok: true });
  expect(refusal(await it.call("DELETE", `${at}/${bob.userId}`))).toBe("404 not_found");
  expect(await threads()).toBe(404);
});

test("a mailbox that a key deletes ends as one that expires: it is readable for 30 days, and can be taken back", async () => {
  const it = await bootAdminApi();
  const { id } = await made(it, { aliases: ["sales@example.test"] });
  expect(await deliver(it, "team@example.test", "still there")).toStartWith("250");
  const threads = async () => (await it.api.get<{ threads: object[] }>(`/threads?mailbox=${id}`)).body.threads;
  const remove = async () => (await it.call("DELETE", `/mailboxes/${id}`)).body;
  expect(await remove()).toEqual({ ok: true });
  const endedAt = new Date(it.runtime.now()).toISOString();
  await it.advance(HOUR);
  // A second request does not put it off.
  expect(await remove()).toEqual({ ok: true });
  expect((await it.call("GET", `/mailboxes/${id}`)).body).toMatchObject({ expiresAt: endedAt, removing: false });
  for (const to of ["team@example.test", "sales@example.test"]) expect(await deliver(it, to)).toBe("550 5.1.1");
  const message = { from: "team@example.test", to: ["alice@example.test"], subject: "S", text: "T" };
  expect((await it.api.post("/send", message)).status).toBe(422);
  await it.advance(29 * DAY);
  expect(await threads()).toHaveLength(1);
  const back = await it.call("PATCH", `/mailboxes/${id}`, { expiresAt: null });
  expect([back.status, back.body]).toEqual([200, expect.objectContaining({ expiresAt: null })]);
  await it.advance(40 * DAY);
  expect(await deliver(it, "sales@example.test")).toStartWith("250");
  expect(await threads()).toHaveLength(2);

  await remove();
  await it.advance(30 * DAY + HOUR);
  await it.advance(1_000);
  await it.advance(1_000);
  expect(refusal(await it.call("GET", `/mailboxes/${id}`))).toBe("404 not_found");
  expect(refusal(await it.call("DELETE", `/mailboxes/${id}`))).toBe("404 not_found");
  expect((await it.api.get<{ threads: object[] }>('/search?q="still there"')).body.threads).toEqual([]);
  await made(it);
});

test("a key lets a mailbox expire in a day at the earliest, also one that it makes", async () => {
  const it = await bootAdminApi();
  const { id } = await made(it);
  const ahead = (ms: number): string => new Date(it.runtime.now() + ms).toISOString();
  for (const expiresAt of [ahead(1_000), ahead(DAY - 1)]) {
    const other = { address: "other@example.test", name: "Other", expiresAt };
    for (const refused of [
      await it.call("PATCH", `/mailboxes/${id}`, { expiresAt, name: "Renamed" }),
      await it.call("POST", "/mailboxes", other),
    ]) {
      expect([refusal(refused), refused.body.error]).toEqual([
        "400 bad_request",
        expect.stringContaining("a day ahead"),
      ]);
    }
  }
  expect((await it.call("GET", `/mailboxes/${id}`)).body).toMatchObject({ name: "Team", expiresAt: null });
  const expiresAt = ahead(DAY);
  expect((await it.call("PATCH", `/mailboxes/${id}`, { expiresAt })).body).toMatchObject({ expiresAt });
  const other = { address: "other@example.test", name: "Other", expiresAt };
  expect((await it.call("POST", "/mailboxes", other)).status).toBe(201);
});
