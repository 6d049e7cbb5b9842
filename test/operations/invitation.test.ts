/** Links to choose a password (rules: Invitation): over the API, in the app, and for whoever opens one. */
import { describe, expect, test } from "bun:test";
import { computeTotpCode, readTotpSecret, totpStepAt } from "../../src/access/totp.ts";
import * as developers from "../../src/admin/developers.ts";
import { inviteUser } from "../../src/admin/people.ts";
import { PASSWORD, type Page, page, setPassword, signIn } from "../harness/clients/browser-session.ts";
import { connectSmtp } from "../harness/clients/smtp-client.ts";
import { bootAdminApi, refusal, type Told } from "../harness/servers/admin-api.ts";
import { authPlain } from "../harness/servers/submission-rig.ts";

const DAY_MS = 86_400_000;
const CHOSEN = "a password of my own";
const NEW = { email: "new@example.test", name: "New", role: "member" };
const LINK = /http:\/\/\S+\/password#(\w{43})/;

/** Alice and Olga own the workspace, Ann and Abe administer it, Bob is a member; all have PASSWORD. */
async function office() {
  const it = await bootAdminApi();
  const people = {
    olga: it.join("olga@example.test", "owner"),
    ann: it.join("ann@example.test", "admin"),
    abe: it.join("abe@example.test", "admin"),
    bob: it.join("bob@example.test", "member"),
  };
  for (const { userId } of [it.owner, ...Object.values(people)]) await setPassword(it, userId);
  const { store } = it.core;
  const visitor = page(it);
  return {
    ...it,
    ...people,
    /** Texts of the notices in a mailbox, newest first. */
    async notices(mailbox = "alice@example.test"): Promise<string[]> {
      await it.advance(60_000);
      const path = `/messages?mailbox=${mailbox}&from=postmaster@example.test&limit=100`;
      const { messages } = (await it.api.get<{ messages: { id: string }[] }>(path)).body;
      const read = messages.map(({ id }) => it.api.get<{ message: { text: string } }>(`/messages/${id}`));
      return (await Promise.all(read)).map(({ body }) => body.message.text);
    },
    /** The link that a person in the app, or else the operator, is shown for somebody. */
    link: async (id: string, by?: Page): Promise<string> => {
      if (!by) return store.transact((tx) => inviteUser(it.core, tx, id)).link;
      return (await by.send<{ link: string }>("POST", `/settings/people/${id}/link`)).body.link;
    },
    look: (link: string) => visitor.send("POST", "/password-link/token", { token: tokenIn(link) }),
    choose: async (link: string, password = CHOSEN) =>
      (await visitor.send("POST", "/password-link", { token: tokenIn(link), password })).status,
    signIn: async (email: string, password = CHOSEN) =>
      (await visitor.send("POST", "/sign-in", { email, password })).status,
    rows: () => store.db.$client.query("SELECT * FROM password_links").all() as Record<string, unknown>[],
  };
}

const tokenIn = (text: string): string => LINK.exec(text)?.[1] ?? "";

describe("over the API", () => {
  test("a new person is mailed a link where inviteTo says; no answer, log or row has it", async () => {
    const it = await office();
    const made = await it.call("POST", "/people", { ...NEW, invite: true, inviteTo: "alice@example.test" }, "once");
    expect([made.status, made.body.canSignIn, made.body.invitedUntil]).toEqual([
      201,
      false,
      new Date(it.runtime.now() + 7 * DAY_MS).toISOString(),
    ]);
    const again = await it.call("POST", "/people", { ...NEW, invite: true, inviteTo: "alice@example.test" }, "once");
    expect([again.replayed, again.body]).toEqual([true, made.body]);
    const [text = "", ...more] = await it.notices();
    expect([more, text]).toEqual([[], expect.stringContaining("You sign in as new@example.test")]);
    const token = tokenIn(text);
    const shown = JSON.stringify([made, again, it.lines, await it.call("GET", `/people/${made.body.id}`), it.rows()]);
    expect([token.length, shown.includes(token)]).toEqual([43, false]);

    expect((await it.look(text)).body).toEqual({ name: "New", email: "new@example.test", isReset: false });
    expect([await it.choose(text), await it.signIn("new@example.test")]).toEqual([204, 204]);
    expect((await it.call("GET", `/people/${made.body.id}`)).body).toMatchObject({
      canSignIn: true,
      invitedUntil: null,
    });
    expect(it.rows()).toEqual([]);
  });

  test("a further link, and one for somebody who has a password, is asked for by id", async () => {
    const it = await office();
    const first = await it.link(it.bob.userId);
    const { status, body } = await it.call("POST", `/people/${it.bob.userId}/invite`, {
      inviteTo: "alice@example.test",
    });
    expect([status, body.id, typeof body.invitedUntil]).toEqual([200, it.bob.userId, "string"]);
    expect((await it.look(first)).status).toBe(403);
    const [text = ""] = await it.notices();
    expect(text).toContain("choose another password for bob@example.test");
    expect(await it.choose(text)).toBe(204);
  });

  test("an address that is missing, none or suppressed refuses all", async () => {
    const it = await office();
    await it.call("POST", "/suppressions", { address: "gone@far.test" });
    for (const [given, told] of [
      [{ invite: true }, "400 bad_request"],
      [{ inviteTo: "alice@example.test" }, "400 bad_request"],
      [{ invite: false, inviteTo: "alice@example.test" }, "400 bad_request"],
      [{ invite: "yes", inviteTo: "alice@example.test" }, "400 bad_request"],
      [{ invite: true, inviteTo: "nobody" }, "400 bad_request"],
      [{ invite: true, inviteTo: "a@[127.0.0.1]" }, "400 bad_request"],
      [{ invite: true, inviteTo: "gone@far.test" }, "422 unprocessable"],
    ] as const) {
      expect([given, refusal(await it.call("POST", "/people", { ...NEW, ...given }))]).toEqual([given, told]);
      const { invite: _, ...alone } = given as Record<string, unknown>;
      const further = await it.call("POST", `/people/${it.bob.userId}/invite`, alone);
      if (alone.inviteTo !== "alice@example.test") expect([given, refusal(further)]).toEqual([given, told]);
    }
    expect((await it.call("POST", "/people", { ...NEW, invite: false })).status).toBe(201);
  });

  test("by keys that may administer all of the workspace alone, and so often an hour", async () => {
    const it = await office();
    const invite = (call: typeof it.call): Promise<Told> =>
      call("POST", `/people/${it.bob.userId}/invite`, { inviteTo: "alice@example.test" });
    expect(refusal(await invite(it.callAs(it.bob.key)))).toBe("403 missing_scope");
    const { key } = it.write((tx) =>
      developers.createKey(it.opened.core, tx, {
        ...{ userId: it.owner.userId, name: "K", scopes: ["admin"], policy: { mailboxes: ["alice@example.test"] } },
      }),
    );
    expect(refusal(await invite(it.callAs(key)))).toBe("403 forbidden");
    expect(
      refusal(await it.callAs(it.other.key)("POST", `/people/${it.bob.userId}/invite`, { inviteTo: "a@b.test" })),
    ).toBe("404 not_found");
    for (let i = 0; i < 10; i++) expect((await invite(it.call)).status).toBe(200);
    expect(refusal(await invite(it.call))).toBe("429 rate_limited");
    await it.advance(3_600_000);
    expect((await invite(it.call)).status).toBe(200);
  });
});

test("admins let members choose another password, owners everybody, and nobody themselves", async () => {
  const it = await office();
  const asAnn = it.callAs(it.ann.key);
  const invite = async (call: typeof it.call, { userId }: { userId: string }) =>
    (await call("POST", `/people/${userId}/invite`, { inviteTo: "alice@example.test" })).status;
  const [ann, alice] = [await signIn(it, "ann@example.test"), await signIn(it, "alice@example.test")];
  const show = async (by: Page, { userId }: { userId: string }) =>
    (await by.send("POST", `/settings/people/${userId}/link`)).status;
  for (const [who, byAnn, byAlice] of [
    [it.bob, 200, 200],
    [it.abe, 403, 200],
    [it.olga, 403, 200],
    [it.ann, 403, 200],
    [it.owner, 403, 403],
  ] as const) {
    expect([who, await invite(asAnn, who), await invite(it.call, who)]).toEqual([who, byAnn, byAlice]);
    const shown = (status: number) => (status === 200 ? 201 : status);
    expect([who, await show(ann, who), await show(alice, who)]).toEqual([who, shown(byAnn), shown(byAlice)]);
    const given = await ann.send("POST", `/settings/people/${who.userId}/password`, { password: PASSWORD });
    expect([who, given.status]).toEqual([who, byAnn]);
  }
  // Somebody without a password has nothing to lose.
  const { body } = await asAnn("POST", "/people", { ...NEW, role: "admin" });
  expect(await invite(asAnn, { userId: body.id as string })).toBe(200);
  expect((await (await signIn(it, "alice@example.test")).send("POST", `/settings/people/${body.id}/link`)).status).toBe(
    201,
  );
});

describe("a link", () => {
  test("in the app takes a recent proof of identity", async () => {
    const it = await office();
    const alice = await signIn(it, "alice@example.test");
    await it.advance(10 * 60_000);
    expect(await alice.send("POST", `/settings/people/${it.bob.userId}/link`)).toMatchObject({
      status: 403,
      body: { confirm: {} },
    });
  });

  test("works once, by POST alone, and until a password was chosen with it", async () => {
    const it = await office();
    const link = await it.link(it.bob.userId);
    const opened = await fetch(link.replace(/^.*(?=\/password)/, it.http));
    expect([opened.status, opened.headers.get("referrer-policy")]).toEqual([200, "no-referrer"]);
    expect(opened.headers.get("content-security-policy")).toContain("default-src 'none'");
    expect((await fetch(`${it.http}/app/password-link`)).status).toBe(405);
    expect([(await it.look(link)).status, (await it.look(link)).status]).toEqual([200, 200]);
    expect([await it.choose(link, "short"), await it.choose(link, "x".repeat(1_025))]).toEqual([400, 400]);
    const both = await Promise.all([it.choose(link), it.choose(link, `${CHOSEN}, too`)]);
    expect(both.sort()).toEqual([204, 403]);
    expect([(await it.look(link)).status, await it.choose(link)]).toEqual([403, 403]);
  });

  test("ends after seven days, with the next one, and with any other new password", async () => {
    const it = await office();
    const aged = await it.link(it.bob.userId);
    await it.advance(7 * DAY_MS - 1_000);
    expect((await it.look(aged)).status).toBe(200);
    await it.advance(1_000);
    expect([(await it.look(aged)).status, await it.choose(aged)]).toEqual([403, 403]);
    expect((await it.call("GET", `/people/${it.bob.userId}`)).body.invitedUntil).toBeNull();

    const [former, next] = [await it.link(it.bob.userId), await it.link(it.bob.userId)];
    expect([(await it.look(former)).status, (await it.look(next)).status]).toEqual([403, 200]);
    const bob = await signIn(it, "bob@example.test");
    await bob.send("POST", "/me/password", { present: PASSWORD, next: "changed by myself" });
    expect(await it.choose(next)).toBe(403);
  });

  test.each<[string, (it: Awaited<ReturnType<typeof office>>) => unknown]>([
    ["is removed", (it) => it.call("DELETE", `/people/${it.ann.userId}`)],
    ["is made a member", (it) => it.call("PATCH", `/people/${it.ann.userId}`, { role: "member" })],
    ["is locked", (it) => it.call("POST", `/people/${it.ann.userId}/lock`)],
  ])("ends when the admin who made it %s", async (_, change) => {
    const it = await office();
    const link = await it.link(it.bob.userId, await signIn(it, "ann@example.test"));
    expect((await it.look(link)).status).toBe(200);
    await change(it);
    expect([(await it.look(link)).status, await it.choose(link)]).toEqual([403, 403]);
  });

  test("of an admin ends when its person gets a role that is not the admin's to change", async () => {
    const it = await office();
    const link = await it.link(it.bob.userId, await signIn(it, "ann@example.test"));
    await it.call("PATCH", `/people/${it.bob.userId}`, { role: "owner" });
    expect(await it.choose(link)).toBe(403);
  });

  test("that a key asked for ends with the key", async () => {
    const it = await office();
    await it.callAs(it.ann.key)("POST", `/people/${it.bob.userId}/invite`, { inviteTo: "alice@example.test" });
    const [text = ""] = await it.notices();
    expect((await it.look(text)).status).toBe(200);
    const keys = developers.listKeys(it.opened.core, it.owner.workspaceId);
    const id = keys.find(({ userId }) => userId === it.ann.userId)?.id;
    await it.call("DELETE", `/keys/${id}`);
    expect(await it.choose(text)).toBe(403);
  });

  test("is guessed slowly, whatever is wrong with it in the same words", async () => {
    const it = await office();
    const used = await it.link(it.bob.userId);
    await it.choose(used);
    const unknown = await it.look("");
    expect(await it.look(used)).toMatchObject({ status: 403, body: unknown.body });
    // The twentieth failure is the last that is told at once.
    for (let i = 2; i < 20; i++) await it.look("");
    const since = it.runtime.now();
    let isTold = false;
    const late = it.look(used).then(() => {
      isTold = true;
    });
    while (!isTold) await it.advance(20);
    await late;
    expect(it.runtime.now() - since).toBeGreaterThanOrEqual(100);
  });

  test("of a reset ends sessions and app passwords; API keys and the second factor stay, and the person is told", async () => {
    const it = await office();
    const bob = await signIn(it, "bob@example.test");
    const { password } = (await bob.send<{ password: string }>("POST", "/app-passwords", { name: "Phone" })).body;
    const { secret } = (await bob.send<{ secret: string }>("POST", "/me/second-factor/new")).body;
    const code = () => computeTotpCode(readTotpSecret(secret) as Uint8Array, totpStepAt(it.runtime.now()));
    expect((await bob.send("POST", "/me/second-factor", { secret, code: code(), password: PASSWORD })).status).toBe(
      200,
    );
    const mailApp = async () => {
      const client = await connectSmtp(it.submissions, { tls: true });
      const { code } = await authPlain(client, "bob@example.test", password);
      client.destroy();
      return code;
    };
    expect(await mailApp()).toBe(235);

    const link = await it.link(it.bob.userId, await signIn(it, "alice@example.test"));
    expect((await it.look(link)).body).toMatchObject({ isReset: true });
    expect([(await bob.get("/me")).status, await mailApp()]).toEqual([200, 235]);
    expect(await it.choose(link)).toBe(204);
    expect([(await bob.get("/me")).status, await mailApp()]).toEqual([401, 535]);
    expect((await it.apiWith(it.bob.key).get("/mailboxes")).status).toBe(200);
    const visitor = page(it);
    const given = { email: "bob@example.test", password: CHOSEN };
    expect((await visitor.send("POST", "/sign-in", given)).body).toEqual({ next: "code" });
    await it.advance(30_000);
    expect((await visitor.send("POST", "/sign-in", { ...given, code: code() })).status).toBe(204);
    const [told = ""] = await it.notices("bob@example.test");
    expect(told).toContain("with a link that was made for you by an owner or admin of your workspace");
    expect(told).toContain("1 app password and 0 API keys were ended");
  });
});
