/** Policies of API keys (rules: Policies, Comparing addresses, Paused keys) over real sockets, and attempts to get past them. */
import { beforeAll, describe, expect, test } from "bun:test";
import { eq } from "drizzle-orm";
import { createTransport } from "nodemailer";
import * as developers from "../../src/admin/developers.ts";
import * as domains from "../../src/admin/domains.ts";
import * as mailboxAdmin from "../../src/admin/mailbox-admin.ts";
import { journalEntries, outboundMessages, type Policy, type Scope } from "../../src/store/schema.ts";
import type { Client } from "../harness/clients/api.ts";
import { zone } from "../harness/peers/dns-server.ts";
import { ALICE, bootExt, type ExtWorld, MAX } from "../harness/servers/ext-world.ts";

let world: ExtWorld;
beforeAll(async () => {
  // Mail to these waits, since their DNS fails.
  const names = ["remote.example", "only.example", "waits.example", "evil.example"];
  world = await bootExt({}, zone(Object.fromEntries(names.map((name) => [name, "SERVFAIL" as const]))));
  for (const address of [TEAM, "known@example.test"]) {
    await world.api.post("/api/admin/v1/mailboxes", { address, name: address });
  }
});

const TEAM = "team@example.test";
const MAIL: Scope[] = ["read", "send", "write"];

interface Made {
  id: string;
  key: string;
  api: Client;
}

/** A key of alice's, made over the API with a policy. */
async function keyWith(policy: Policy, scopes: Scope[] = MAIL): Promise<Made> {
  const { status, body } = await world.api.post<{ id: string; key: string }>("/api/admin/v1/keys", {
    ...{ name: "Agent", scopes, policy },
  });
  expect(status).toBe(201);
  return { ...body, api: world.apiWith(body.key) };
}

const change = (id: string, body: object) => world.api.patch(`/api/admin/v1/keys/${id}`, body);

const accepted = () => world.core.store.db.select().from(outboundMessages).all().length;

const letterTo = (to: unknown, more: object = {}) => ({ from: ALICE, to, subject: "Hello", text: "Hello", ...more });

/** Status and, of a refusal, the code. */
const outcome = ({ status, body }: { status: number; body: unknown }) =>
  status < 300 ? status : [status, (body as { code: string }).code];

const REFUSED = [403, "forbidden"];

describe("a policy", () => {
  test("is shown in its one spelling, and replaced whole", async () => {
    const { mailboxId } = world.owner;
    const { id } = await keyWith({
      mailboxes: [mailboxId, ALICE.toUpperCase(), ALICE],
      recipients: ["Bob+news@BÜCHER.example", "@Remote.Example", "thread"],
      otherwise: "hold",
      expiresAt: "2030-01-07T09:00:00+01:00",
      networks: ["10.1.2.3", "2001:DB8::/32"],
    });
    const read = async () => (await world.api.get(`/api/admin/v1/keys/${id}`)).body.policy;
    expect(await read()).toEqual({
      mailboxes: [mailboxId, ALICE],
      recipients: ["bob@xn--bcher-kva.example", "@remote.example", "thread"],
      otherwise: "hold",
      expiresAt: "2030-01-07T08:00:00.000Z",
      networks: ["10.1.2.3/32", "2001:db8:0:0:0:0:0:0/32"],
    });
    expect((await change(id, { policy: { send: "hold" } })).status).toBe(200);
    expect(await read()).toEqual({ send: "hold" });
    expect((await change(id, { policy: {} })).status).toBe(200);
    expect(await read()).toEqual({});
  });

  const WRONG: [what: string, policy: object][] = [
    ["a field that there is not", { recipient: [] }],
    ["an entry without a local part but its tag", { recipients: ["+tag@remote.example"] }],
    ["a domain without a name", { recipients: ["@"] }],
    ["a word that there is not", { recipients: ["everybody"] }],
    ["several addresses in one entry", { recipients: ["a@remote.example, b@remote.example"] }],
    ["an address literal", { recipients: ["a@[192.0.2.1]"] }],
    ["a mailbox that there is not", { mailboxes: ["nobody@example.test"] }],
    ["otherwise", { otherwise: "ask" }],
    ["send", { send: "never" }],
    ["a number below 0", { recipientsPerDay: -1 }],
    ["a number that is none", { changesPerHour: "5" }],
    ["a time without an offset", { expiresAt: "2030-01-07T09:00:00" }],
    ["a day that there is not", { expiresAt: "2030-02-30T09:00:00Z" }],
    ["a network that is none", { networks: ["10.0.0.0/33"] }],
    ["codes", { codes: "no" }],
    ["null", { mailboxes: null }],
  ];
  test.each(WRONG)("with %s is 400, when made and when changed", async (_, policy) => {
    const made = await world.api.post("/api/admin/v1/keys", { name: "Agent", scopes: ["read"], policy });
    expect(outcome(made)).toEqual([400, "bad_request"]);
    const { id } = await keyWith({ send: "hold" });
    expect(outcome(await change(id, { policy }))).toEqual([400, "bad_request"]);
    expect((await world.api.get(`/api/admin/v1/keys/${id}`)).body.policy).toEqual({ send: "hold" });
  });

  test("of a key without one changes nothing", async () => {
    const { api } = await keyWith({});
    expect(outcome(await api.post("/send", letterTo("anybody@remote.example")))).toBe(202);
    expect((await api.get<{ mailboxes: unknown[] }>("/mailboxes")).body.mailboxes).toHaveLength(4);
  });
});

describe("mailboxes", () => {
  test("others do not exist: not in lists, searches, counts, changes and arrivals, by REST and MCP", async () => {
    const mine = await world.receive(ALICE, "Zebra for alice");
    const theirs = await world.receive(MAX, "Zebra for max");
    const { api } = await keyWith({ mailboxes: [MAX] });
    const subjects = async (path: string) =>
      JSON.stringify((await api.get(path)).body)
        .match(/Zebra for \w+/g)
        ?.filter((found, i, all) => all.indexOf(found) === i);
    for (const path of ["/threads", "/threads?q=zebra", "/messages", "/messages?limit=5"]) {
      expect([path, await subjects(path)]).toEqual([path, ["Zebra for max"]]);
    }
    expect((await api.get<{ mailboxes: { address: string }[] }>("/mailboxes")).body.mailboxes).toMatchObject([
      { address: MAX },
    ]);
    for (const path of [
      `/threads/${mine.threadId}`,
      `/messages/${mine.emailId}`,
      `/messages/${mine.emailId}/raw`,
      `/threads?mailbox=${ALICE}`,
    ]) {
      expect([path, outcome(await api.get(path))]).toEqual([path, [404, "not_found"]]);
    }
    expect(outcome(await api.patch(`/threads/${mine.threadId}`, { starred: true }))).toEqual([404, "not_found"]);
    expect(outcome(await api.patch(`/threads/${theirs.threadId}`, { starred: true }))).toBe(200);
    expect(outcome(await api.post("/send", letterTo(MAX)))).toEqual([422, "unprocessable"]);
    expect(outcome(await api.post("/send", { ...letterTo(ALICE), from: MAX }))).toBe(202);
    expect(outcome(await api.post("/send", { ...letterTo(ALICE), from: MAX, forward: mine.emailId }))).toEqual([
      422,
      "unprocessable",
    ]);
  });

  test("what their person loses elsewhere is no news to the key", async () => {
    const { core } = world.opened;
    const { store } = core;
    const { maxId, maxMailboxId, owner } = world;
    const key = (policy: Policy) =>
      world.apiWith(
        store.transact((tx) => developers.createKey(core, tx, { userId: maxId, name: "x", scopes: ["read"], policy }))
          .key,
      );
    const [limited, free] = [key({ mailboxes: [maxMailboxId] }), key({})];
    await world.receive(ALICE, "Shared with max");
    const { next } = (await free.get<{ next: string }>("/api/ext/v1/changes")).body;
    store.transact((tx) => mailboxAdmin.revokeMailboxAccess(tx, owner.mailboxId, maxId));
    const seen = async (api: Client) =>
      new Set(
        (await api.get<{ changes: { mailboxId: string }[] }>(`/api/ext/v1/changes?after=${next}`)).body.changes.map(
          ({ mailboxId }) => mailboxId,
        ),
      );
    expect(await seen(free)).toContain(owner.mailboxId);
    expect([...(await seen(limited))]).toEqual([]);
    store.transact((tx) => mailboxAdmin.grantMailboxAccess(tx, owner.mailboxId, maxId, "view"));
  });

  test("an admin's key sees them alone in administration, and does not what concerns all", async () => {
    const { api } = await keyWith({ mailboxes: [MAX] }, ["read", "admin"]);
    const admin = (path: string) => `/api/admin/v1${path}`;
    const { body } = await api.get<{ mailboxes: { address: string }[] }>(admin("/mailboxes"));
    expect(body.mailboxes.map(({ address }) => address)).toEqual([MAX]);
    expect(outcome(await api.get(admin(`/mailboxes/${world.owner.mailboxId}`)))).toEqual([404, "not_found"]);
    expect(outcome(await api.patch(admin(`/mailboxes/${world.owner.mailboxId}`), { name: "x" }))).toEqual([
      404,
      "not_found",
    ]);
    expect(outcome(await api.patch(admin(`/mailboxes/${world.maxMailboxId}`), { name: "Max" }))).toBe(200);
    expect(outcome(await api.patch(admin(`/mailboxes/${world.maxMailboxId}`), { owner: ALICE }))).toEqual(REFUSED);
    const both = await keyWith({ mailboxes: [ALICE, MAX] });
    const ofBoth = async (by: Client) => (await by.get<{ policy: Policy }>(admin(`/keys/${both.id}`))).body.policy;
    expect([await ofBoth(api), await ofBoth(world.api)]).toEqual([{ mailboxes: [MAX] }, { mailboxes: [ALICE, MAX] }]);
    const keys = await api.get<{ keys: { policy: Policy }[] }>(admin("/keys"));
    expect(JSON.stringify(keys.body.keys.map(({ policy }) => policy))).not.toContain(ALICE);
    const wide: [path: string, body: object][] = [
      ["/people", { email: "eve@example.test", name: "Eve", role: "admin" }],
      ["/mailboxes", { address: "eve@example.test", name: "Eve" }],
      [`/mailboxes/${world.maxMailboxId}/grants`, { user: MAX, access: "full" }],
    ];
    for (const [path, given] of wide)
      expect([path, outcome(await api.post(admin(path), given))]).toEqual([path, REFUSED]);
    for (const path of ["/queue", "/suppressions"]) expect(outcome(await api.get(admin(path)))).toEqual(REFUSED);
  });
});

describe("webhooks", () => {
  const WEBHOOKS = "/api/admin/v1/webhooks";
  const hook = { url: "https://hooks.example.com/", events: ["message.inbound"] };
  const add = async (api: Client) => (await api.post<{ id: string }>(WEBHOOKS, hook)).body.id;

  test("of a key with mailboxes are told of these alone, and it knows no others", async () => {
    const { api } = await keyWith({ mailboxes: [world.maxMailboxId] }, ["read", "admin"]);
    const [own, wide] = [await add(api), await add(world.api)];
    await world.receive(ALICE, "Not told");
    await world.receive(MAX, "Told");
    await world.server.settled();
    const told = async (id: string) =>
      (await world.api.get<{ deliveries: unknown[] }>(`${WEBHOOKS}/${id}/deliveries`)).body.deliveries.length;
    expect([await told(own), await told(wide)]).toEqual([1, 2]);
    const { webhooks } = (await api.get<{ webhooks: { id: string }[] }>(WEBHOOKS)).body;
    expect(webhooks.map(({ id }) => id)).toEqual([own]);
    const asks = [
      (id: string) => api.get(`${WEBHOOKS}/${id}`),
      (id: string) => api.get(`${WEBHOOKS}/${id}/deliveries`),
      (id: string) => api.patch(`${WEBHOOKS}/${id}`, { enabled: true }),
      (id: string) => api.post(`${WEBHOOKS}/${id}/test`, {}),
      (id: string) => api.post(`${WEBHOOKS}/${id}/secret`, {}),
      (id: string) => api.post(`${WEBHOOKS}/${id}/recover`, { since: "2020-01-01T00:00:00Z" }),
      (id: string) => api.delete(`${WEBHOOKS}/${id}`),
    ];
    for (const ask of asks) {
      expect(outcome(await ask(wide))).toEqual([404, "not_found"]);
      expect((await ask(own)).status).toBeLessThan(300);
    }
  });

  test("are refused to a key that reads no codes", async () => {
    const { api } = await keyWith({ codes: false }, ["read", "admin"]);
    expect(outcome(await api.post(WEBHOOKS, hook))).toEqual(REFUSED);
    expect(outcome(await api.get(WEBHOOKS))).toEqual(REFUSED);
  });
});

describe("recipients", () => {
  const ALLOWED = ["bob@remote.example", "@only.example"];

  const ATTACKS: [what: string, letter: object, expected: unknown][] = [
    ["an address of the list", { to: "bob@remote.example" }, 202],
    ["with a display name that is another", { to: '"eve@evil.example" <bob@remote.example>' }, 202],
    ["with a tag", { to: "bob+x@remote.example" }, 202],
    ["in another case", { to: "BOB@Remote.Example" }, 202],
    ["at the domain of the list", { to: "who.ever@only.example" }, 202],
    ["in a group", { to: "Friends: bob@remote.example, ann@only.example;" }, 202],
    ["another address", { to: "eve@evil.example" }, REFUSED],
    ["another in Cc", { to: "bob@remote.example", cc: "eve@evil.example" }, REFUSED],
    ["another in Bcc", { to: "bob@remote.example", bcc: "eve@evil.example" }, REFUSED],
    ["another beside it in one text", { to: "bob@remote.example, eve@evil.example" }, REFUSED],
    ["another in a list", { to: ["bob@remote.example", "eve@evil.example"] }, REFUSED],
    ["another in a group", { to: "Friends: bob@remote.example, eve@evil.example;" }, REFUSED],
    ["the list's address as the name of another", { to: '"bob@remote.example" <eve@evil.example>' }, REFUSED],
    ["the list's address as a comment", { to: "eve@evil.example (bob@remote.example)" }, REFUSED],
    ["a subdomain", { to: "ann@sub.only.example" }, REFUSED],
    ["a longer domain", { to: "ann@notonly.example" }, REFUSED],
    ["a domain that continues", { to: "bob@remote.example.evil.example" }, REFUSED],
    ["a quoted local part with the list's address", { to: '"bob@remote.example"@evil.example' }, REFUSED],
    ["a local part that continues", { to: "bob.evil@remote.example" }, REFUSED],
    ["a tag before", { to: "x+bob@remote.example" }, REFUSED],
    ["a local part of a tag alone", { to: "+bob@remote.example" }, REFUSED],
    ["a look-alike domain", { to: "bob@remоte.example" }, REFUSED],
    ["a look-alike local part", { to: "bоb@remote.example" }, REFUSED],
    ["a full-width letter in the local part", { to: "ｂob@remote.example" }, REFUSED],
    ["a source route", { to: "<@remote.example:eve@evil.example>" }, [422, "unprocessable"]],
    ["replies that go elsewhere", { to: "bob@remote.example", replyTo: "eve@evil.example" }, REFUSED],
    ["replies that go to the mailbox itself", { to: "bob@remote.example", replyTo: ALICE }, 202],
  ];
  test.each(ATTACKS)("%s", async (_, letter, expected) => {
    const { api } = await keyWith({ recipients: ALLOWED });
    const before = accepted();
    const answer = await api.post("/send", letterTo("", letter));
    expect(outcome(answer)).toEqual(expected as never);
    if (expected !== REFUSED) return;
    expect(accepted()).toBe(before);
  });

  test("a trailing dot of the domain is no other address", async () => {
    const { api } = await keyWith({ recipients: ALLOWED });
    const { status } = await api.post("/send", letterTo("bob@remote.example."));
    expect([202, 422]).toContain(status);
    expect((await api.post("/send", letterTo("eve@evil.example."))).status).not.toBe(202);
  });

  test("the refusal names whom it is about, and what to do", async () => {
    const { api } = await keyWith({ recipients: ALLOWED });
    const { body } = await api.post<{ error: string }>(
      "/send",
      letterTo("bob@remote.example", { cc: "eve@evil.example, mallory@evil.example" }),
    );
    expect(body.error).toContain("eve@evil.example, mallory@evil.example");
    expect(body.error).not.toContain("bob@");
    expect(body.error).toMatch(/draft/);
  });

  test("of very many it names some", async () => {
    const to = Array.from({ length: 3_000 }, (_, i) => `guest${i}@evil.example`);
    const { api } = await keyWith({ recipients: ALLOWED });
    const { body } = await api.post<{ error: string }>("/send", letterTo(to));
    expect(body.error).toContain("guest19@evil.example and 2980 more, so");
  });

  test("[] means nobody; a draft is not judged, whoever sends it is", async () => {
    const { api } = await keyWith({ recipients: [] });
    expect(outcome(await api.post("/send", letterTo("bob@remote.example")))).toEqual(REFUSED);
    const draft = await api.post<{ id: string }>("/api/ext/v1/drafts", letterTo("bob@remote.example"));
    expect(draft.status).toBe(201);
    expect(outcome(await api.post(`/api/ext/v1/drafts/${draft.body.id}/send`, {}))).toEqual(REFUSED);
    expect(outcome(await world.api.post(`/api/ext/v1/drafts/${draft.body.id}/send`, {}))).toBe(202);
  });

  test("another key's draft is judged by who sends it", async () => {
    const free = await keyWith({});
    const { api } = await keyWith({ recipients: ALLOWED });
    const { body } = await free.api.post<{ id: string }>("/api/ext/v1/drafts", letterTo("eve@evil.example"));
    expect(outcome(await api.post(`/api/ext/v1/drafts/${body.id}/send`, {}))).toEqual(REFUSED);
  });

  test("workspace: addresses of its verified domains, and those alone", async () => {
    const { core } = world.opened;
    const { store } = core;
    store.transact((tx) => domains.addDomain(core, tx, world.owner.workspaceId, "claimed.test", []));
    const { api } = await keyWith({ recipients: ["workspace"] });
    expect(outcome(await api.post("/send", letterTo(MAX)))).toBe(202);
    expect(outcome(await api.post("/send", letterTo("anybody@claimed.test")))).toEqual(REFUSED);
    expect(outcome(await api.post("/send", letterTo("anybody@sub.example.test")))).toEqual(REFUSED);
  });

  test("known: whom the mailbox has sent to, once their server has accepted it, and not by Bcc", async () => {
    const { api } = await keyWith({ recipients: ["known"] });
    expect(outcome(await api.post("/send", letterTo("known@example.test")))).toEqual(REFUSED);
    await world.api.post("/send", letterTo("nobody@waits.example", { bcc: "known@example.test" }));
    await world.server.settled();
    expect(outcome(await api.post("/send", letterTo("known@example.test")))).toEqual(REFUSED);
    expect(outcome(await api.post("/send", letterTo("nobody@waits.example")))).toEqual(REFUSED);
    await world.api.post("/send", letterTo("known+news@example.test"));
    await world.server.settled();
    expect(outcome(await api.post("/send", letterTo("KNOWN@example.test")))).toBe(202);
    // Of another mailbox it is not known.
    expect(outcome(await api.post("/send", { ...letterTo("known@example.test"), from: MAX }))).toEqual(REFUSED);
  });

  describe("thread", () => {
    test("whoever took part, as sender or in To or Cc; not whom Reply-To names, and nobody in a new message", async () => {
      const { api } = await keyWith({ recipients: ["thread"] });
      const { threadId } = await world.receive(ALICE, "A thread", {
        headers: ["Cc: Dan <Dan+work@remote.example>", "Reply-To: eve@evil.example"],
      });
      const reply = (more: object) => api.post(`/threads/${threadId}/reply`, { text: "Yes", ...more });
      expect(outcome(await reply({}))).toEqual(REFUSED);
      expect(outcome(await reply({ to: "carol@remote.example" }))).toBe(202);
      expect(outcome(await reply({ to: "carol@remote.example", cc: "dan@remote.example" }))).toBe(202);
      expect(outcome(await reply({ to: "carol@remote.example", bcc: "eve@evil.example" }))).toEqual(REFUSED);
      expect(outcome(await reply({ to: "carol@remote.example", replyAll: true, cc: "frank@evil.example" }))).toEqual(
        REFUSED,
      );
      expect(outcome(await api.post("/send", letterTo("carol@remote.example")))).toEqual(REFUSED);
    });

    test("a draft makes nobody a participant", async () => {
      const { api } = await keyWith({ recipients: ["thread"] });
      const { threadId } = await world.receive(ALICE, "With a draft");
      await api.post(`/threads/${threadId}/draft`, { text: "x", to: "eve@evil.example" });
      expect(outcome(await api.post(`/threads/${threadId}/reply`, { text: "x", to: "eve@evil.example" }))).toEqual(
        REFUSED,
      );
    });

    test("a long conversation is read once for however many recipients", async () => {
      const { api } = await keyWith({ recipients: ["thread"] });
      const { threadId } = await world.receive(ALICE, "A long thread");
      const { $client } = world.core.store.db;
      const people = Array.from({ length: 100 }, (_, i) => ({ email: `guest${i}@remote.example` }));
      const columns = $client
        .query<{ name: string }, []>(
          "SELECT name FROM pragma_table_info('messages') WHERE name NOT IN ('seq', 'id', 'cc')",
        )
        .all()
        .map(({ name }) => `"${name}"`)
        .join();
      $client
        .query(
          `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 400)
           INSERT INTO messages (seq, id, cc, ${columns}) SELECT seq + i, id || i, ?, ${columns} FROM messages, n
           WHERE thread_seq = (SELECT seq FROM threads WHERE id = ?)`,
        )
        .run(JSON.stringify(people), threadId);
      const timeOf = async (count: number) => {
        const to = Array.from({ length: count }, (_, i) => `nobody${i}@evil.example`);
        const start = performance.now();
        expect(outcome(await api.post(`/threads/${threadId}/reply`, { text: "x", to }))).toEqual(REFUSED);
        return performance.now() - start;
      };
      await timeOf(1);
      expect(await timeOf(500)).toBeLessThan(50 * (await timeOf(1)));
      const to = ["Guest7+tag@remote.example", "eve@evil.example"];
      const { body } = await api.post<{ error: string }>(`/threads/${threadId}/reply`, { text: "x", to });
      expect(body.error).toContain("write to eve@evil.example, so");
    });

    test("Bcc of what was sent makes nobody a participant; Cc does", async () => {
      const { api } = await keyWith({ recipients: ["thread"] });
      const { threadId } = await world.receive(ALICE, "With a reply");
      await world.api.post(`/threads/${threadId}/reply`, {
        text: "x",
        cc: "gina@remote.example",
        bcc: "eve@evil.example",
      });
      const reply = (to: string) => api.post(`/threads/${threadId}/reply`, { text: "x", to });
      expect(outcome(await reply("gina@remote.example"))).toBe(202);
      expect(outcome(await reply("eve@evil.example"))).toEqual(REFUSED);
    });
  });

  test("over MCP the same; the refusal says what to do next", async () => {
    const { key } = await keyWith({ recipients: ALLOWED });
    const call = async (to: string) => {
      const response = await fetch(`${world.http}/api/mcp`, {
        method: "POST",
        headers: {
          authorization: `Bearer ${key}`,
          "content-type": "application/json",
          accept: "application/json, text/event-stream",
        },
        body: JSON.stringify({
          ...{ jsonrpc: "2.0", id: 1, method: "tools/call" },
          params: { name: "send_email", arguments: letterTo(to) },
        }),
      });
      return response.text();
    };
    const refused = await call("eve@evil.example");
    expect(refused).toContain("eve@evil.example");
    expect(refused).toContain('"isError":true');
    expect(await call("bob@remote.example")).not.toContain('"isError":true');
  });

  test("over SMTP the same", async () => {
    const { key } = await keyWith({ recipients: ALLOWED });
    const { host, port } = world.submission;
    const client = createTransport({
      host,
      port,
      auth: { user: ALICE, pass: key },
      tls: { rejectUnauthorized: false },
    });
    const send = (to: string, more: object = {}) =>
      client.sendMail({ from: ALICE, to, subject: "x", text: "x", ...more });
    expect((await send("bob@remote.example")).response).toStartWith("250");
    expect(await send("eve@evil.example").catch(({ responseCode }) => responseCode)).toBe(550);
    expect(
      await send("bob@remote.example", { bcc: "eve@evil.example" }).catch(({ responseCode }) => responseCode),
    ).toBe(550);
    expect(
      await send("bob@remote.example", { replyTo: "eve@evil.example" }).catch(({ responseCode }) => responseCode),
    ).toBe(550);
    client.close();
  });

  test("over SMTP, whom the header alone names counts, and takes part in no conversation", async () => {
    const { key, api } = await keyWith({ recipients: ["thread", "workspace"] });
    const { host, port } = world.submission;
    const auth = { user: ALICE, pass: key };
    const client = createTransport({ host, port, auth, tls: { rejectUnauthorized: false } });
    const { threadId } = await world.receive(ALICE, "Joined by header", { messageId: "<joined@remote.example>" });
    for (const header of ["To", "Cc"]) {
      const raw = [`From: ${ALICE}`, `${header}: eve@evil.example`, "In-Reply-To: <joined@remote.example>", "", "x"];
      const mail = { envelope: { from: ALICE, to: [MAX] }, raw: raw.join("\r\n") };
      expect([header, await client.sendMail(mail).catch(({ responseCode }) => responseCode)]).toEqual([header, 550]);
    }
    client.close();
    const reply = await api.post(`/threads/${threadId}/reply`, { text: "x", to: "eve@evil.example" });
    expect(outcome(reply)).toEqual(REFUSED);
  });

  test("fields that redirect answers or receipts count as recipients, own addresses aside, by every way", async () => {
    const { key, api } = await keyWith({ recipients: ["bob@remote.example"] });
    const { host, port } = world.submission;
    const client = createTransport({
      ...{ host, port, auth: { user: ALICE, pass: key }, tls: { rejectUnauthorized: false } },
    });
    const submit = (field: string) => {
      const raw = [`From: ${ALICE}`, "To: bob@remote.example", field, "", "x"].join("\r\n");
      return client
        .sendMail({ envelope: { from: ALICE, to: ["bob@remote.example"] }, raw })
        .then(() => 250)
        .catch(({ responseCode }) => responseCode);
    };
    const fields = [
      ...["Reply-To", "Mail-Followup-To", "Mail-Reply-To", "Disposition-Notification-To", "Return-Receipt-To"],
      ...["MAIL-FOLLOWUP-TO", "X-Confirm-Reading-To"],
    ];
    for (const name of fields) {
      const outcomes = [
        await submit(`${name}: Eve <eve@evil.example>`),
        await submit(`${name}: bob@remote.example, =?utf-8?q?Bob?=\r\n <eve@evil.example>`),
        await submit(`${name}: nobody that a parser finds`),
        await submit(`${name}: Alice <alice+news@EXAMPLE.test>`),
        await submit(`${name}: Bob <BOB@remote.example>`),
      ];
      expect([name, ...outcomes]).toEqual([name, 550, 550, 550, 250, 250]);
    }
    client.close();
    const to = "bob@remote.example";
    for (const replyTo of ["eve@evil.example", ["bob@remote.example", "eve@evil.example"]]) {
      expect(outcome(await api.post("/send", letterTo(to, { replyTo })))).toEqual(REFUSED);
      const later = letterTo(to, { replyTo, sendAt: new Date(world.runtime.now() + 3_600_000).toISOString() });
      expect(outcome(await api.post("/send", later))).toEqual(REFUSED);
      const draft = await api.post<{ draftId: string }>("/api/ext/v1/drafts", letterTo(to, { replyTo }));
      expect(outcome(await api.post(`/api/ext/v1/drafts/${draft.body.draftId}/send`, {}))).toEqual(REFUSED);
    }
    expect(outcome(await api.post("/send", letterTo(to, { replyTo: "alice+x@example.test" })))).toBe(202);
  });

  test("over SMTP, the conversation of `thread` is that of In-Reply-To and References", async () => {
    const { key } = await keyWith({ recipients: ["thread"] });
    const { host, port } = world.submission;
    const client = createTransport({
      ...{ host, port, auth: { user: ALICE, pass: key }, tls: { rejectUnauthorized: false } },
    });
    const { threadId } = await world.receive(ALICE, "Answered by a mail app", { messageId: "<asked@remote.example>" });
    const submit = (to: string, ...fields: string[]) =>
      client
        .sendMail({
          envelope: { from: ALICE, to: [to] },
          raw: [`From: ${ALICE}`, `To: ${to}`, "Subject: Re: Answered by a mail app", ...fields, "", "x"].join("\r\n"),
        })
        .then(() => 250)
        .catch(({ responseCode }) => responseCode);
    const carol = "carol@remote.example";
    expect(await submit(carol)).toBe(550);
    expect(await submit(carol, "In-Reply-To: <other@remote.example>")).toBe(550);
    expect(await submit("eve@evil.example", "In-Reply-To: <asked@remote.example>")).toBe(550);
    expect(await submit(carol, "In-Reply-To: <asked@remote.example>")).toBe(250);
    expect(await submit(carol, "References: <before@remote.example> <asked@remote.example>")).toBe(250);
    client.close();
    const { body } = await world.api.get<{ messages: unknown[] }>(`/threads/${threadId}`);
    expect(body.messages).toHaveLength(3);
  });

  test("a replay is answered though the policy was tightened since; a new request is judged by the present one", async () => {
    const { api, id } = await keyWith({ recipients: ALLOWED });
    const letter = { ...letterTo("bob@remote.example"), idempotencyKey: "once" };
    const first = await api.post("/send", letter);
    expect((await change(id, { policy: { recipients: [] } })).status).toBe(200);
    const again = await api.post("/send", letter);
    expect([again.status, again.body]).toEqual([202, first.body]);
    expect(outcome(await api.post("/send", { ...letter, idempotencyKey: "twice" }))).toEqual(REFUSED);
  });
});

test("a request whose body takes long is judged by the policy of the time when it is there", async () => {
  const { key, id } = await keyWith({});
  const { threadId } = await world.receive(ALICE, "Slowly");
  const during = async (path: string, method: string, body: object) => {
    await change(id, { policy: {} });
    const [start, end] = [JSON.stringify(body).slice(0, 5), JSON.stringify(body).slice(5)];
    const { promise: begun, resolve } = Promise.withResolvers<void>();
    const stream = new ReadableStream({
      async pull(controller) {
        controller.enqueue(new TextEncoder().encode(start));
        resolve();
        // By then, an answer to another request came: the first one was admitted.
        await world.apiWith(key).get("/mailboxes");
        await change(id, { policy: { mailboxes: [MAX] } });
        controller.enqueue(new TextEncoder().encode(end));
        controller.close();
      },
    });
    const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
    const answer = fetch(`${world.http}/api/v1${path}`, { method, body: stream, headers });
    await begun;
    return (await answer).status;
  };
  expect(await during("/send", "POST", letterTo("bob@remote.example"))).toBe(422);
  expect(await during(`/threads/${threadId}`, "PATCH", { starred: true })).toBe(404);
});

describe("expiresAt and networks", () => {
  test("an expired key is 401, over REST, MCP and SMTP", async () => {
    const { api, key, id } = await keyWith({});
    expect((await api.get("/mailboxes")).status).toBe(200);
    await change(id, { policy: { expiresAt: new Date(world.runtime.now()).toISOString() } });
    expect(outcome(await api.get("/mailboxes"))).toEqual([401, "unauthorized"]);
    expect(
      (await fetch(`${world.http}/api/mcp`, { method: "POST", headers: { authorization: `Bearer ${key}` } })).status,
    ).toBe(401);
    const { host, port } = world.submission;
    const client = createTransport({
      host,
      port,
      auth: { user: ALICE, pass: key },
      tls: { rejectUnauthorized: false },
    });
    expect(await client.verify().catch(({ responseCode }) => responseCode)).toBe(535);
    client.close();
  });

  test("from elsewhere it is 403", async () => {
    const { api, id } = await keyWith({ networks: ["192.0.2.0/24", "2001:db8::/32"] });
    expect(outcome(await api.get("/mailboxes"))).toEqual(REFUSED);
    const { entries } = (await world.api.get<{ entries: object[] }>(`/api/admin/v1/keys/${id}/journal`)).body;
    expect(entries).toMatchObject([{ kind: "refused", outcome: "forbidden", face: "rest", source: "127.0.0.1" }]);
    await change(id, { policy: { networks: ["127.0.0.0/8", "::1"] } });
    expect((await api.get("/mailboxes")).status).toBe(200);
  });
});

describe("a paused key", () => {
  test("is 403 for everything, a replay too, until it is resumed", async () => {
    const { api, key, id } = await keyWith({});
    const letter = { ...letterTo("bob@remote.example"), idempotencyKey: "paused" };
    await api.post("/send", letter);
    expect((await change(id, { paused: true })).body.paused).toBe(true);
    for (const answer of [await api.get("/mailboxes"), await api.post("/send", letter)]) {
      expect(outcome(answer)).toEqual(REFUSED);
      expect((answer.body as { error: string }).error).toContain("paused");
    }
    const mcp = await fetch(`${world.http}/api/mcp`, { method: "POST", headers: { authorization: `Bearer ${key}` } });
    expect(mcp.status).toBe(403);
    expect((await change(id, { paused: false })).body.paused).toBe(false);
    expect((await api.post("/send", letter)).status).toBe(202);
  });

  test("is told so at once where it waits", async () => {
    const { api, id } = await keyWith({});
    const { body } = await api.get<{ next: string }>("/api/ext/v1/changes");
    const waiting = api.get(`/api/ext/v1/changes?after=${body.next}&waitSeconds=50`);
    // It waits by the time that another request of it is answered.
    await api.get("/mailboxes");
    await change(id, { paused: true });
    expect(outcome(await waiting)).toEqual(REFUSED);
  });

  test("is told so though another is resumed in the same moment", async () => {
    const [{ api, id }, other] = [await keyWith({}), await keyWith({})];
    await change(other.id, { paused: true });
    const { body } = await api.get<{ next: string }>("/api/ext/v1/changes");
    const waiting = api.get(`/api/ext/v1/changes?after=${body.next}&waitSeconds=50`);
    await api.get("/mailboxes");
    const { core } = world.opened;
    const { store } = core;
    store.transact((tx) => {
      for (const [key, paused] of [
        [other.id, false],
        [id, true],
      ] as const) {
        developers.changeKey(core, tx, key, world.owner.workspaceId, { paused });
      }
    });
    // A look of the test before may rest.
    await world.advance(1_000);
    expect(outcome(await waiting)).toEqual(REFUSED);
  });

  test("pauses the keys that it made, and those that they made", async () => {
    const parent = await keyWith({}, ["read", "admin"]);
    const made = async (by: Client) => {
      const { body } = await by.post<{ key: string }>("/api/admin/v1/keys", {
        name: "Child",
        scopes: ["read", "admin"],
      });
      return world.apiWith(body.key);
    };
    const child = await made(parent.api);
    const grandchild = await made(child);
    await change(parent.id, { paused: true });
    for (const api of [parent.api, child, grandchild]) expect(outcome(await api.get("/mailboxes"))).toEqual(REFUSED);
    await change(parent.id, { paused: false });
    for (const api of [parent.api, child, grandchild]) expect(outcome(await api.get("/mailboxes"))).toBe(200);
  });

  test("all keys of the workspace are paused by one switch, later ones too, and each keeps its own pause", async () => {
    const { core } = world.opened;
    const { store } = core;
    const [free, paused] = [await keyWith({}), await keyWith({})];
    await change(paused.id, { paused: true });
    const all = (isPaused: boolean) =>
      store.transact((tx) => developers.pauseAllKeys(core, tx, world.owner.workspaceId, isPaused));
    all(true);
    const later = store.transact((tx) =>
      developers.createKey(core, tx, { userId: world.owner.userId, name: "Later", scopes: ["read"] }),
    );
    for (const api of [free.api, paused.api, world.api, world.apiWith(later.key)]) {
      expect(outcome(await api.get("/mailboxes"))).toEqual(REFUSED);
    }
    all(false);
    expect((await free.api.get("/mailboxes")).status).toBe(200);
    expect(outcome(await paused.api.get("/mailboxes"))).toEqual(REFUSED);
  });
});

describe("what a key makes", () => {
  const BOUNDS: Policy = {
    mailboxes: [ALICE, MAX],
    recipients: ["@remote.example", "thread"],
    recipientsPerDay: 10,
    changesPerHour: 5,
    expiresAt: "2030-01-01T00:00:00.000Z",
    networks: ["127.0.0.0/8"],
    codes: false,
  };
  const WIDER: [what: string, policy: Policy][] = [
    ["no policy", {}],
    ["another mailbox", { ...BOUNDS, mailboxes: [ALICE, TEAM] }],
    ["all mailboxes", (({ mailboxes: _, ...rest }) => rest)(BOUNDS)],
    ["another recipient", { ...BOUNDS, recipients: ["@remote.example", "known"] }],
    ["others held instead of refused", { ...BOUNDS, otherwise: "hold" }],
    ["more recipients", { ...BOUNDS, recipientsPerDay: 11 }],
    ["any number of changes", (({ changesPerHour: _, ...rest }) => rest)(BOUNDS)],
    ["a later end", { ...BOUNDS, expiresAt: "2030-01-01T00:00:01Z" }],
    ["a wider network", { ...BOUNDS, networks: ["127.0.0.0/7"] }],
    ["codes", { ...BOUNDS, codes: true }],
  ];
  let parent: Made;
  beforeAll(async () => {
    parent = await keyWith(BOUNDS, ["read", "send", "write", "admin"]);
  });
  const make = (policy: Policy) =>
    parent.api.post<{ id: string }>("/api/admin/v1/keys", { name: "Child", scopes: ["send"], policy });

  test.each(WIDER)("is not allowed %s", async (what, policy) => {
    // What is out of the key's reach does not exist for it.
    const expected = what === "another mailbox" ? [400, "bad_request"] : REFUSED;
    expect(outcome(await make(policy))).toEqual(expected as never);
    const { body } = await make(BOUNDS);
    const changed = await parent.api.patch(`/api/admin/v1/keys/${body.id}`, { policy });
    expect(outcome(changed)).toEqual(expected as never);
    expect(outcome(await parent.api.patch(`/api/admin/v1/keys/${parent.id}`, { policy }))).not.toBe(200);
  });

  test("is allowed the same, and less", async () => {
    const less: Policy = {
      ...BOUNDS,
      mailboxes: [world.owner.mailboxId],
      recipients: ["bob@remote.example"],
      send: "hold",
      recipientsPerDay: 0,
      networks: ["127.0.0.1"],
    };
    for (const policy of [BOUNDS, less]) expect(outcome(await make(policy))).toBe(201);
  });

  test("a key gives no more to one that has a scope which it lacks or may not give", async () => {
    const { core } = world.opened;
    const { store } = core;
    const wide = (scopes: Scope[]) =>
      store.transact((tx) =>
        developers.createKey(core, tx, { userId: world.owner.userId, name: "x", scopes, policy: { send: "hold" } }),
      ).id;
    const admin = (await keyWith({}, ["admin", "read"])).api;
    const all = world.apiWith(world.keyOf(world.owner.userId, ["read", "send", "write", "admin", "approve"]));
    const widen = (api: Client, id: string) => api.patch(`/api/admin/v1/keys/${id}`, { policy: {} });
    expect(outcome(await widen(admin, wide(["read", "send"])))).toEqual(REFUSED);
    expect(outcome(await widen(all, wide(["read", "approve"])))).toEqual(REFUSED);
    expect(outcome(await widen(admin, wide(["read"])))).toBe(200);
    expect(outcome(await widen(all, wide(["read", "send"])))).toBe(200);
    const narrow = { policy: { send: "hold", recipients: [] } };
    expect(outcome(await admin.patch(`/api/admin/v1/keys/${wide(["send"])}`, narrow))).toBe(200);
  });

  test("a key neither resumes the key that made it nor gives it more", async () => {
    const maker = await keyWith({}, ["read", "send", "admin"]);
    const made = await maker.api.post<{ key: string }>("/api/admin/v1/keys", {
      ...{ name: "Child", scopes: ["read", "send", "admin"] },
    });
    const child = world.apiWith(made.body.key);
    await change(maker.id, { paused: true, policy: { send: "hold" } });
    const ask = (body: object) => child.patch(`/api/admin/v1/keys/${maker.id}`, body);
    expect(outcome(await ask({ paused: false }))).toEqual(REFUSED);
    await change(maker.id, { paused: false });
    expect(outcome(await ask({ policy: {} }))).toEqual(REFUSED);
    expect(outcome(await ask({ policy: { recipients: [], send: "hold" } }))).toBe(200);
  });

  test("the key of somebody else is restricted, and not given more", async () => {
    const { core } = world.opened;
    const { store } = core;
    const { id } = store.transact((tx) =>
      developers.createKey(core, tx, {
        userId: world.maxId,
        name: "Max's",
        scopes: ["read", "send"],
        policy: { send: "hold" },
      }),
    );
    expect(outcome(await change(id, { policy: {} }))).toEqual(REFUSED);
    expect(outcome(await change(id, { policy: { send: "hold", recipients: [] } }))).toBe(200);
    expect(outcome(await change(id, { paused: true }))).toBe(200);
  });
});

describe("limits", () => {
  test("recipientsPerDay counts To, Cc and Bcc of a rolling day, held and scheduled ones too", async () => {
    const { api, id } = await keyWith({ recipientsPerDay: 4 });
    expect(
      outcome(
        await api.post("/send", letterTo("a@remote.example", { cc: "b@remote.example", bcc: "c@remote.example" })),
      ),
    ).toBe(202);
    const over = await api.post<{ error: string }>("/send", letterTo("d@remote.example, e@remote.example"));
    expect([outcome(over), over.headers.get("retry-after")]).toEqual([[429, "rate_limited"], String(24 * 3600)]);
    expect(over.body.error).toContain("4 recipients a day, of which 3 are used");
    await change(id, { policy: { recipientsPerDay: 4, send: "hold" } });
    const held = await api.post("/send", letterTo("d@remote.example"));
    expect(held.body).toMatchObject({ held: true });
    expect(outcome(await api.post("/send", letterTo("e@remote.example")))).toEqual([429, "rate_limited"]);
    await change(id, { policy: { recipientsPerDay: 6 } });
    const sendAt = new Date(world.runtime.now() + 3_600_000).toISOString();
    expect(outcome(await api.post("/send", letterTo("e@remote.example", { sendAt })))).toBe(202);
    expect(outcome(await api.post("/send", letterTo("f@remote.example, g@remote.example")))).toEqual([
      429,
      "rate_limited",
    ]);
    expect(outcome(await api.post("/send", letterTo("f@remote.example")))).toBe(202);
    await world.advance(24 * 3_600_000);
    expect(outcome(await api.post("/send", letterTo("f@remote.example")))).toBe(202);
  });

  test.each(["at once", "later"])(
    "two messages that are sent %s at the same time do not exceed it together",
    async (when) => {
      const { api } = await keyWith({ recipientsPerDay: 1 });
      const sendAt = new Date(world.runtime.now() + 3_600_000).toISOString();
      const letter = letterTo("a@remote.example", when === "later" ? { sendAt } : {});
      const answers = await Promise.all([1, 2, 3].map(() => api.post("/send", letter)));
      expect(answers.map(({ status }) => status).sort()).toEqual([202, 429, 429]);
    },
  );

  test("changesPerHour counts what changes something, of several conversations each", async () => {
    const { api } = await keyWith({ changesPerHour: 3 });
    const { threadId: first } = await world.receive(ALICE, "Changed once");
    const { threadId: second } = await world.receive(ALICE, "Changed twice");
    const star = (id: string, starred: boolean) => api.patch(`/threads/${id}`, { starred });
    expect(outcome(await star(first, true))).toBe(200);
    // Nothing changes, so nothing counts.
    expect(outcome(await star(first, true))).toBe(200);
    const two = { ids: [first, second], folder: "archive" };
    expect(outcome(await api.patch("/api/ext/v1/threads", two))).toBe(200);
    const over = await star(first, false);
    expect([outcome(over), over.headers.get("retry-after")]).toEqual([[429, "rate_limited"], "3600"]);
    expect((await api.get<{ thread: object }>(`/threads/${first}`)).body.thread).toMatchObject({ starred: true });
    await world.advance(3_600_000);
    expect(outcome(await star(first, false))).toBe(200);
  });

  test("changesPerHour counts drafts that are removed", async () => {
    const { api } = await keyWith({ changesPerHour: 1 });
    const draft = async () => (await api.post<{ id: string }>("/api/ext/v1/drafts", letterTo(MAX))).body.id;
    const remove = async () => outcome(await api.delete(`/api/ext/v1/drafts/${await draft()}`));
    expect([await remove(), await remove()]).toEqual([200, [429, "rate_limited"]]);
  });

  test("a limit that a key gets counts for the keys that it made before", async () => {
    const { api, id } = await keyWith({}, ["send", "admin"]);
    const { body } = await api.post<{ key: string }>("/api/admin/v1/keys", { name: "Child", scopes: ["send"] });
    await change(id, { policy: { recipientsPerDay: 0 } });
    expect(outcome(await world.apiWith(body.key).post("/send", letterTo(MAX)))).toEqual([429, "rate_limited"]);
  });

  test("what the keys of a key do counts for it", async () => {
    const policy = { recipientsPerDay: 2 };
    const { api } = await keyWith(policy, ["send", "admin"]);
    const child = async () => {
      const { body } = await api.post<{ key: string }>("/api/admin/v1/keys", {
        name: "Child",
        scopes: ["send"],
        policy,
      });
      return world.apiWith(body.key);
    };
    const [one, other] = [await child(), await child()];
    for (const by of [one, other]) expect(outcome(await by.post("/send", letterTo("a@remote.example")))).toBe(202);
    for (const by of [one, other, api]) {
      expect(outcome(await by.post("/send", letterTo("b@remote.example")))).toEqual([429, "rate_limited"]);
    }
  });
});

test("a refusal by policy has an entry in the journal, without recipients; one that is no policy's has none", async () => {
  const { api, id } = await keyWith({ recipients: [] });
  await api.post("/send", letterTo("eve@evil.example"));
  await api.post("/send", letterTo("not an address"));
  await api.get("/threads/thr_nothing");
  const rows = world.core.store.db.select().from(journalEntries).where(eq(journalEntries.keyId, id)).all();
  expect(rows).toMatchObject([{ operation: "sendEmail", outcome: "forbidden", face: "rest" }]);
  expect(JSON.stringify(rows)).not.toContain("evil");
});
