/** Rules and absences of mailboxes over the administration API (rules: Mail rules, Out of office). */
import { describe, expect, test } from "bun:test";
import * as developers from "../../src/admin/developers.ts";
import { type Policy, SCOPES, type Scope } from "../../src/store/schema.ts";
import { letter, mailer } from "../harness/mail/mail.ts";
import { type AdminApi, bootAdminApi, refusal } from "../harness/servers/admin-api.ts";

const STAR = { match: "from:ann", actions: [{ type: "star" }] };
const forward = (to: string) => ({ match: "from:ann", actions: [{ type: "forward", to }] });
const INSIDE = forward("team@example.test");
const OUTSIDE = forward("ann@away.example");

async function start() {
  const it = await bootAdminApi();
  const { mailboxId } = it.owner;
  await it.call("POST", "/mailboxes", { address: "team@example.test", name: "Team" });
  const keyWith = (policy: Policy, scopes: readonly Scope[] = SCOPES) =>
    it.callAs(
      it.write((tx) => developers.createKey(it.opened.core, tx, { userId: it.owner.userId, name: "K", scopes, policy }))
        .key,
    );
  const path = `/mailboxes/${mailboxId}/rules`;
  /** Replaces the rules. */
  const put = (rules: unknown, as = it.call) => as("PUT", path, { rules });
  const present = async () => (await it.call("GET", path)).body.rules;
  const allow = () => it.write((tx) => it.core.options.set(tx, "rules.forwardOutside", "true"));
  return { ...it, mailboxId, path, put, present, absence: `/mailboxes/${mailboxId}/absence`, keyWith, allow };
}

const entries = ({ core }: Pick<AdminApi, "core">) =>
  core.store.db.query.journalEntries
    .findMany()
    .sync()
    .map(({ operation, outcome, ids }) => ({ operation, outcome, ids }));

describe("rules", () => {
  test("are replaced whole, and told in their order", async () => {
    const { call, path, put, present, mailboxId, ...it } = await start();
    expect(await present()).toEqual([]);
    const given = [
      { name: "Ann", ...STAR, enabled: false },
      { match: "subject:oak fro:ann", actions: [{ type: "label", label: "Oak" }, { type: "archive" }] },
    ];
    const { status, body } = await put(given);
    expect(status).toBe(200);
    expect(body.rules).toEqual([
      given[0],
      { ...given[1], enabled: true, notes: ['"fro:ann" was searched as text: fro: is no operator'] },
    ]);
    expect((await call("GET", path)).body).toEqual(body);
    expect(entries(it).filter(({ operation }) => operation === "setRules")).toEqual([
      { operation: "setRules", outcome: "ok", ids: [mailboxId] },
    ]);
    await put([]);
    expect(await present()).toEqual([]);
  });

  test("refuse what makes no sense", async () => {
    const { call, put, present, path, other } = await start();
    const cases: [unknown, string][] = [
      [{}, "400 bad_request"],
      [[{ ...STAR, more: 1 }], "400 bad_request"],
      [[{ match: "ann" }], "400 bad_request"],
      [[{ match: "ann", actions: [] }], "400 bad_request"],
      [[{ match: "ann", actions: [{ type: "burn" }] }], "400 bad_request"],
      [[{ match: "x".repeat(501), actions: [{ type: "star" }] }], "400 bad_request"],
      [[{ match: "before:soon", actions: [{ type: "star" }] }], "400 bad_request"],
      [Array.from({ length: 101 }, () => STAR), "400 bad_request"],
      [[forward("alice+tag@example.test")], "400 bad_request"],
      [[OUTSIDE], "403 forbidden"],
    ];
    for (const [rules, expected] of cases) expect([rules, refusal(await put(rules))]).toEqual([rules, expected]);
    const more = { rules: [STAR], more: 1 };
    for (const body of [{}, [STAR], more]) expect(refusal(await call("PUT", path, body))).toBe("400 bad_request");
    expect(await present()).toEqual([]);
    const others = `/mailboxes/${other.mailboxId}/rules`;
    expect(refusal(await call("GET", others))).toBe("404 not_found");
    const rules = [STAR];
    expect(refusal(await call("PUT", others, { rules }))).toBe("404 not_found");
  });

  test("forward inside, and outside never by a key", async () => {
    const { put, present, allow } = await start();
    expect((await put([INSIDE])).status).toBe(200);
    // Another workspace is outside, too.
    expect(refusal(await put([forward("zoe@other.test")]))).toBe("403 forbidden");
    allow();
    const told = await put([OUTSIDE]);
    expect([refusal(told), told.body.error]).toEqual(["403 forbidden", expect.stringContaining("ann@away.example")]);
    expect(await present()).toMatchObject([INSIDE]);
  });

  test("of a key are as limited as the key", async () => {
    const { put, absence, keyWith, mailboxId } = await start();
    const to = new Date(Date.now() + 86_400_000).toISOString();
    const away = { from: "2026-01-01T00:00:00Z", until: "2099-01-01T00:00:00Z", text: "Away" };
    const cases: [Policy, star: number, forward: number, absence: number][] = [
      [{}, 200, 200, 200],
      [{ mailboxes: [mailboxId] }, 200, 200, 200],
      [{ mailboxes: ["team@example.test"] }, 404, 404, 404],
      [{ recipients: ["workspace"] }, 200, 403, 403],
      [{ send: "hold" }, 200, 403, 403],
      [{ recipientsPerDay: 5 }, 200, 403, 403],
      [{ changesPerHour: 5 }, 403, 403, 200],
      [{ codes: false }, 403, 403, 200],
      [{ expiresAt: to }, 200, 200, 200],
    ];
    for (const [policy, ...expected] of cases) {
      const as = keyWith(policy);
      const done = [await put([STAR], as), await put([INSIDE], as), await as("PUT", absence, away)];
      expect([policy, ...done.map(({ status }) => status)]).toEqual([policy, ...expected]);
    }
  });

  test("are tried on past mail", async () => {
    const { call, keyWith, path, mx } = await start();
    const sender = mailer(mx, { starttls: false });
    for (const subject of ["Oak", "Elm"]) {
      const mail = letter({ to: "alice@example.test", subject, text: "boards" });
      await sender.send({ from: "carol@remote.example", to: "alice@example.test" }, mail);
    }
    sender.close();
    const matching = (match: string, as = call) => as("GET", `${path}/matches?match=${encodeURIComponent(match)}`);
    expect((await matching("boards")).body).toEqual({ threads: 2, more: false });
    expect((await matching("subject:oak")).body).toMatchObject({ threads: 1 });
    expect((await matching("in:trash")).body).toMatchObject({ threads: 0 });
    expect((await matching("fro:ann")).body).toMatchObject({ notes: [expect.stringContaining("fro:ann")] });
    expect(refusal(await matching("before:soon"))).toBe("400 bad_request");
    expect(refusal(await matching("boards", keyWith({}, ["admin"])))).toBe("403 missing_scope");
    expect(refusal(await matching("boards", keyWith({ codes: false })))).toBe("403 forbidden");
  });
});

describe("an absence", () => {
  const NONE = { from: null, until: null, text: null };
  const AWAY = {
    from: "2026-02-01T00:00:00.000Z",
    until: "2026-03-01T00:00:00.000Z",
    subject: "Away",
    text: "Back in March",
  };

  test("is set, told and ended", async () => {
    const { call, absence } = await start();
    expect((await call("GET", absence)).body).toEqual(NONE);
    expect(await call("PUT", absence, AWAY)).toMatchObject({ status: 200, body: AWAY });
    const { subject: _, ...without } = AWAY;
    expect((await call("PUT", absence, { ...without, subject: null })).body).toEqual(without);
    expect((await call("GET", absence)).body).toEqual(without);
    expect((await call("DELETE", absence)).body).toEqual(NONE);
  });

  test("needs a time to come and a text", async () => {
    const { call, absence } = await start();
    const wrong = [
      { ...AWAY, until: AWAY.from },
      { ...AWAY, from: "2020-01-01T00:00:00Z", until: "2020-02-01T00:00:00Z" },
      { ...AWAY, until: "soon" },
      { ...AWAY, text: " " },
      { ...AWAY, text: "" },
      { ...AWAY, text: "x".repeat(10_001) },
      { ...AWAY, subject: "x".repeat(201) },
      { ...AWAY, more: 1 },
    ];
    for (const body of wrong) expect(refusal(await call("PUT", absence, body))).toBe("400 bad_request");
  });
});
