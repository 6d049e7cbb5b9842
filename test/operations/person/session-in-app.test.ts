/** Signing in and out over HTTP, the end of sessions, and requests without a session or from other sites. */
import { beforeAll, describe, expect, test } from "bun:test";
import { eq } from "drizzle-orm";
import * as credentials from "../../../src/access/credentials.ts";
import * as people from "../../../src/admin/people.ts";
import { describeUserAgent } from "../../../src/operations/person/session-in-app.ts";
import { sessions, users } from "../../../src/store/schema.ts";
import { PASSWORD, page, setPassword, signIn } from "../../harness/clients/browser-session.ts";
import { holdPasswords } from "../../harness/quick-hash.ts";
import { type Booted, boot } from "../../harness/servers/boot.ts";
import { until } from "../../harness/until.ts";

const ALICE = "alice@example.test";
const DAY = 86_400_000;
let booted: Booted;
beforeAll(async () => {
  booted = await boot();
  await setPassword(booted, booted.owner.userId);
});

const tryIn = (given: unknown, headers: Record<string, string> = {}) =>
  page(booted).fetch("/sign-in", {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: JSON.stringify(given),
  });

describe("signing in", () => {
  test("gives a cookie that scripts and other sites cannot use, and stores only its hash", async () => {
    const answer = await tryIn({ email: " Alice@Example.test", password: PASSWORD });
    expect(answer.status).toBe(204);
    const [pair = "", ...attributes] = (answer.headers.get("set-cookie") ?? "").split("; ");
    expect(pair).toMatch(/^mailroom=[A-Za-z0-9]{43}$/);
    expect(attributes.sort()).toEqual(["HttpOnly", "Max-Age=7776000", "Path=/", "SameSite=Strict"]);
    expect(JSON.stringify(booted.core.store.db.select().from(sessions).all())).not.toContain(pair.slice(9));
    expect(await page(booted, pair).get("/me")).toMatchObject({
      status: 200,
      body: { id: booted.owner.userId, name: "Alice", email: ALICE, role: "owner" },
    });
  });

  test("in a signed-in browser ends the earlier session, unless it fails", async () => {
    const before = await signIn(booted, ALICE);
    const again = (password: string) => tryIn({ email: ALICE, password }, { cookie: before.cookie });
    expect([(await again("wrong")).status, (await before.get("/me")).status]).toEqual([401, 200]);
    const answer = await again(PASSWORD);
    const after = page(booted, answer.headers.get("set-cookie")?.split(";")[0] ?? "");
    expect([(await before.get("/me")).status, (await after.get("/me")).status]).toEqual([401, 200]);
  });

  test("with a password from before new ones had ten characters: it goes on, and the app is told until it is changed", async () => {
    const { core } = booted.opened;
    const { store } = core;
    const old = await credentials.hashPassword("old one");
    const ben = { email: "ben@example.test", name: "Ben", role: "member", ownMailbox: false } as const;
    const { workspaceId } = booted.owner;
    store.transact((tx) => people.addUser(core, tx, { ...ben, workspaceId, passwordHash: old }));
    const of = async (password: string) => {
      const { headers } = await tryIn({ email: ben.email, password });
      return page(booted, headers.get("set-cookie")?.split(";")[0] ?? "");
    };
    const tells = async (browser: ReturnType<typeof page>) => (await browser.get("/me")).body;
    const here = await of("old one");
    expect(await tells(here)).toMatchObject({ shortPassword: true });
    const refused = await here.send("POST", "/me/password", { present: "old one", next: "nine char" });
    expect([refused.status, refused.body]).toEqual([
      400,
      { error: "give a password of at least 10 characters", code: "bad_request" },
    ]);
    expect((await here.send("POST", "/me/password", { present: "old one", next: "ten chars." })).status).toBe(204);
    expect(await tells(await of("ten chars."))).toMatchObject({ shortPassword: false });
    expect(await tells(await signIn(booted, ALICE))).toMatchObject({ shortPassword: false });
  });

  test("in an open session tells the app, too, once the password is given again", async () => {
    const { core } = booted.opened;
    const { store } = core;
    const alice = await signIn(booted, ALICE);
    const passwordHash = await credentials.hashPassword("old one");
    store.transact((tx) => tx.update(users).set({ passwordHash }).where(eq(users.id, booted.owner.userId)).run());
    expect((await alice.send("POST", "/me/confirm", { password: "old one" })).status).toBe(204);
    expect(people.hasShortPassword(core, booted.owner.userId)).toBe(true);
    await setPassword(booted, booted.owner.userId);
    expect(people.hasShortPassword(core, booted.owner.userId)).toBe(false);
  });

  test("is put off while too many passwords are being checked", async () => {
    const hold = holdPasswords();
    const others = Array.from({ length: 64 }, () => credentials.verifyPassword("wrong", null));
    const { status, headers } = await tryIn({ email: ALICE, password: PASSWORD });
    expect([status, headers.get("retry-after")]).toEqual([503, "5"]);
    hold.release();
    await Promise.all(others);
    expect((await tryIn({ email: ALICE, password: PASSWORD })).status).toBe(204);
  });

  test("under https binds the cookie to this host and to TLS", async () => {
    const secure = await boot({ MAILROOM_BASE_URL: "https://mail.example.test" });
    await setPassword(secure, secure.owner.userId);
    const answer = await page(secure).fetch("/sign-in", {
      method: "POST",
      headers: { "content-type": "application/json", origin: "https://mail.example.test" },
      body: JSON.stringify({ email: ALICE, password: PASSWORD }),
    });
    expect(answer.headers.get("set-cookie")).toMatch(/^__Host-mailroom=\S+; .*Path=\/; .*; Secure$/);
    expect(answer.headers.get("strict-transport-security")).toMatch(/^max-age=\d+/);
  });

  test("does not tell which part was wrong, and refuses an API key as password", async () => {
    const { userId } = booted.core.store.transact((tx) =>
      people.addUser(booted.opened.core, tx, {
        workspaceId: booted.owner.workspaceId,
        email: "nopassword@example.test",
        name: "No",
        role: "member",
        ownMailbox: false,
      }),
    );
    expect(userId).toStartWith("usr_");
    const answers = await Promise.all(
      [
        { email: ALICE, password: "wrong" },
        { email: ALICE, password: "" },
        { email: ALICE, password: booted.owner.apiKey },
        { email: "nobody@example.test", password: PASSWORD },
        { email: "not an address", password: PASSWORD },
        { email: "nopassword@example.test", password: "" },
      ].map(async (given) => {
        const answer = await tryIn(given);
        return [answer.status, answer.headers.get("set-cookie"), await answer.text()];
      }),
    );
    const refusal = JSON.stringify({ error: "Email address and password do not match", code: "unauthorized" });
    expect(new Set(answers.map((answer) => JSON.stringify(answer)))).toEqual(
      new Set([JSON.stringify([401, null, refusal])]),
    );
  });

  test("is logged with its source, and without the input", async () => {
    const fresh = await boot();
    await setPassword(fresh, fresh.owner.userId);
    await signIn(fresh, ALICE);
    await page(fresh).send("POST", "/sign-in", { email: ALICE, password: "a guess of mine" });
    await page(fresh).send("POST", "/sign-in", { email: "a typo of mine", password: PASSWORD });
    const said = fresh.lines.filter(({ message }) => /^sign(ed in|-in failed)$/.test(String(message)));
    expect(said).toMatchObject([
      { message: "signed in", over: "app", account: ALICE, source: "127.0.0.1", userId: fresh.owner.userId },
      { message: "sign-in failed", over: "app", account: ALICE, source: "127.0.0.1" },
      { message: "sign-in failed", over: "app", account: null, source: "127.0.0.1" },
    ]);
    const lines = JSON.stringify(fresh.lines);
    for (const secret of [PASSWORD, "a guess of mine", "a typo of mine"]) expect(lines).not.toContain(secret);
  });

  test.each([
    [{}, 400],
    [{ email: ALICE }, 400],
    [{ email: ALICE, password: 1 }, 400],
    [{ email: ALICE, password: "x".repeat(1_025) }, 400],
    [{ email: ALICE, password: "x".repeat(20_000) }, 413],
  ])("with %j is %d", async (given, status) => {
    expect((await tryIn(given)).status).toBe(status);
  });

  test("is slowed for guesses", async () => {
    const slow = await boot();
    // The password is quick to check, so only the response is slow.
    await setPassword(slow, slow.owner.userId);
    const guess = () =>
      page(slow)
        .send("POST", "/sign-in", { email: ALICE, password: "guess" })
        .then(({ status }) => status);
    for (let i = 0; i < 20; i++) expect(await guess()).toBe(401);
    const before = slow.runtime.timers().length;
    let told = false;
    const last = guess().then((status) => {
      told = true;
      return status;
    });
    await until(() => slow.runtime.timers().length !== before);
    expect(told).toBe(false);
    await slow.advance(2_000);
    expect(await last).toBe(401);
  });
});

describe("a session", () => {
  const status = async (one: { get(path: string): Promise<{ status: number }> }) => (await one.get("/me")).status;

  test("ends by signing out, and no other session ends", async () => {
    const [one, other] = [await signIn(booted, ALICE), await signIn(booted, ALICE)];
    const answer = await one.send("POST", "/sign-out");
    expect([answer.status, answer.headers.get("set-cookie")]).toEqual([
      204,
      "mailroom=; Max-Age=0; Path=/; HttpOnly; SameSite=Strict",
    ]);
    expect([await status(one), await status(other)]).toEqual([401, 200]);
  });

  test("is listed with the others, and each can be ended", async () => {
    const fresh = await boot();
    await setPassword(fresh, fresh.owner.userId);
    const [one, other, third] = [await signIn(fresh, ALICE), await signIn(fresh, ALICE), await signIn(fresh, ALICE)];
    type Listed = { sessions: { id: string; current: boolean }[] };
    const { body } = await one.get<Listed>("/sessions");
    expect(body.sessions.map(({ current }) => current).sort()).toEqual([false, false, true]);
    const theirs = (await other.get<Listed>("/sessions")).body.sessions.find(({ current }) => current);
    expect((await one.send("DELETE", `/sessions/${theirs?.id}`)).status).toBe(204);
    expect([await status(one), await status(other), await status(third)]).toEqual([200, 401, 200]);
    expect((await one.send("DELETE", "/sessions")).status).toBe(204);
    expect([await status(one), await status(third)]).toEqual([200, 401]);
    expect((await one.send("DELETE", "/sessions/ses_none")).status).toBe(404);
  });

  test("of another person cannot be ended", async () => {
    const fresh = await boot();
    const bob = fresh.core.store.transact((tx) =>
      people.addUser(fresh.opened.core, tx, {
        workspaceId: fresh.owner.workspaceId,
        email: "bob@example.test",
        name: "Bob",
        role: "member",
        ownMailbox: true,
      }),
    );
    for (const id of [fresh.owner.userId, bob.userId]) await setPassword(fresh, id);
    const [alice, his] = [await signIn(fresh, ALICE), await signIn(fresh, "bob@example.test")];
    const { body } = await his.get<{ sessions: { id: string }[] }>("/sessions");
    expect((await alice.send("DELETE", `/sessions/${body.sessions[0]?.id}`)).status).toBe(404);
    expect(await status(his)).toBe(200);
  });

  test("ends when the password changes, and when the person is removed", async () => {
    const fresh = await boot();
    const { core } = fresh.opened;
    const { store } = core;
    const { userId } = store.transact((tx) =>
      people.addUser(core, tx, {
        workspaceId: fresh.owner.workspaceId,
        email: "carol@example.test",
        name: "Carol",
        role: "admin",
        ownMailbox: true,
      }),
    );
    await setPassword(fresh, userId);
    const before = await signIn(fresh, "carol@example.test");
    await setPassword(fresh, userId);
    const after = await signIn(fresh, "carol@example.test");
    expect([await status(before), await status(after)]).toEqual([401, 200]);
    store.transact((tx) => people.removeUser(tx, userId));
    expect(await status(after)).toBe(401);
  });

  test("lasts at most 90 days while it is used, and ends after 14 idle days", async () => {
    const fresh = await boot();
    await setPassword(fresh, fresh.owner.userId);
    const [used, idle] = [await signIn(fresh, ALICE), await signIn(fresh, ALICE)];
    for (let day = 0; day < 88; day += 8) {
      await fresh.advance(8 * DAY);
      expect([day, await status(used)]).toEqual([day, 200]);
      // The use is written after the response.
      await fresh.core.store.enqueue(() => undefined);
    }
    expect(await status(idle)).toBe(401);
    await fresh.advance(2 * DAY);
    expect(await status(used)).toBe(401);
    await fresh.advance(DAY);
    expect(fresh.core.store.db.select().from(sessions).all()).toEqual([]);
  });

  test("that is not kept ends with the browser, and after twelve idle hours", async () => {
    const fresh = await boot();
    await setPassword(fresh, fresh.owner.userId);
    const answer = await page(fresh).send("POST", "/sign-in", { email: ALICE, password: PASSWORD, keep: false });
    const [pair = "", ...attributes] = (answer.headers.get("set-cookie") ?? "").split("; ");
    expect(attributes.sort()).toEqual(["HttpOnly", "Path=/", "SameSite=Strict"]);
    const unkept = page(fresh, pair);
    for (let hours = 0; hours < 44; hours += 11) {
      await fresh.advance(11 * 3_600_000);
      expect([hours, await status(unkept)]).toEqual([hours, 200]);
      await fresh.core.store.enqueue(() => undefined);
    }
    await fresh.advance(12 * 3_600_000);
    expect(await status(unkept)).toBe(401);
  });

  test("shows its source and its browser", async () => {
    const fresh = await boot({ MAILROOM_TRUSTED_PROXIES: "127.0.0.0/8" });
    await setPassword(fresh, fresh.owner.userId);
    const answer = await page(fresh).fetch("/sign-in", {
      method: "POST",
      headers: {
        "content-type": "application/json",
        "x-forwarded-for": "2001:db8:1:2:3::4",
        "user-agent": "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
      },
      body: JSON.stringify({ email: ALICE, password: PASSWORD }),
    });
    const mine = page(fresh, answer.headers.get("set-cookie")?.split(";")[0]);
    const at = new Date(fresh.runtime.now()).toISOString();
    expect((await mine.get<{ sessions: object[] }>("/sessions")).body.sessions).toEqual([
      {
        id: expect.stringMatching(/^ses_/),
        browser: "Firefox on Linux",
        source: "2001:db8:1:2::/64",
        current: true,
        createdAt: at,
        lastUsedAt: at,
      },
    ]);
  });

  test("has the person's current role", async () => {
    const fresh = await boot();
    const { core } = fresh.opened;
    const { store } = core;
    const { userId } = store.transact((tx) =>
      people.addUser(core, tx, {
        workspaceId: fresh.owner.workspaceId,
        email: "dan@example.test",
        name: "Dan",
        role: "admin",
        ownMailbox: true,
      }),
    );
    await setPassword(fresh, userId);
    const dan = await signIn(fresh, "dan@example.test");
    const reached = async () =>
      (await dan.get<{ mailboxes: { address: string }[] }>("/mailboxes")).body.mailboxes.map(({ address }) => address);
    expect(await reached()).toEqual([ALICE, "dan@example.test"]);
    store.transact((tx) => people.setRole(tx, userId, "member"));
    expect(await reached()).toEqual(["dan@example.test"]);
  });
});

describe("without a session", () => {
  test.each([
    ["GET", "/me"],
    ["GET", "/mailboxes"],
    ["GET", "/threads"],
    ["GET", "/live"],
    ["POST", "/send"],
    ["POST", "/sign-out"],
  ])("%s %s is 401", async (method, path) => {
    for (const cookie of ["", "mailroom=", `mailroom=${"A".repeat(43)}`, `other=${"A".repeat(43)}`]) {
      const answer = await page(booted, cookie).fetch(path, { method });
      expect([answer.status, await answer.json()]).toEqual([
        401,
        { error: "Sign in to continue", code: "unauthorized" },
      ]);
    }
  });

  test("an API key is no session, and a session's token is no API key", async () => {
    const { apiKey } = booted.owner;
    const byKey = await page(booted).fetch("/me", { headers: { authorization: `Bearer ${apiKey}` } });
    expect(byKey.status).toBe(401);
    const { cookie } = await signIn(booted, ALICE);
    expect((await booted.apiWith(cookie.split("=")[1]).get("/mailboxes")).status).toBe(401);
    expect((await fetch(`${booted.http}/api/v1/mailboxes`, { headers: { cookie } })).status).toBe(401);
  });
});

describe("the origin of a request", () => {
  const table: [what: string, headers: Record<string, string>, status: number][] = [
    ["our origin", {}, 204],
    ["our origin, as browsers say it", { "sec-fetch-site": "same-origin" }, 204],
    ["another origin", { origin: "https://evil.example" }, 403],
    ["another port", { origin: "http://127.0.0.1:1" }, 403],
    ["a sandboxed frame", { origin: "null" }, 403],
    ["another host of our site", { "sec-fetch-site": "same-site" }, 403],
    ["another site", { "sec-fetch-site": "cross-site" }, 403],
  ];
  test.each(table)("a change from %s is allowed or refused", async (_, headers, status) => {
    const { cookie } = await signIn(booted, ALICE);
    const answer = await page(booted, cookie).fetch("/sign-out", { method: "POST", headers });
    expect(answer.status).toBe(status);
    expect((await page(booted, cookie).get("/me")).status).toBe(status === 204 ? 401 : 200);
  });

  test("a request without an origin may read, but not change", async () => {
    const { cookie } = await signIn(booted, ALICE);
    expect((await fetch(`${booted.http}/app/sign-out`, { method: "POST", headers: { cookie } })).status).toBe(403);
    expect((await fetch(`${booted.http}/app/me`, { headers: { cookie } })).status).toBe(200);
    const crossSite = { cookie, "sec-fetch-site": "cross-site" };
    expect((await fetch(`${booted.http}/app/me`, { headers: crossSite })).status).toBe(403);
  });

  test("another site's form can sign nobody in", async () => {
    const given = { email: ALICE, password: PASSWORD };
    expect((await tryIn(given, { origin: "https://evil.example" })).status).toBe(403);
    expect((await tryIn(given, { "content-type": "text/plain" })).status).toBe(400);
  });

  test("a body that is not JSON is refused", async () => {
    const { cookie } = await signIn(booted, ALICE);
    const answer = await page(booted, cookie).fetch("/send", {
      method: "POST",
      headers: { "content-type": "application/x-www-form-urlencoded" },
      body: "from=alice%40example.test",
    });
    expect(answer.status).toBe(400);
  });
});

describe("the name of a browser", () => {
  test.each([
    [
      "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/138.0.0.0 Safari/537.36",
      "Chrome on Windows",
    ],
    [
      "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/138.0.0.0 Safari/537.36 Edg/138.0.0.0",
      "Edge on Windows",
    ],
    [
      "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.5 Safari/605.1.15",
      "Safari on macOS",
    ],
    ["Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0", "Firefox on Linux"],
    [
      "Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) CriOS/138.0.0.0 Mobile/15E148 Safari/604.1",
      "Chrome on iPhone",
    ],
    [
      "Mozilla/5.0 (Linux; Android 14; SM-S928B) AppleWebKit/537.36 (KHTML, like Gecko) SamsungBrowser/27.0 Chrome/125.0.0.0 Mobile Safari/537.36",
      "Samsung Internet on Android",
    ],
    [
      "Mozilla/5.0 (Linux; Android 15; Pixel 9) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/138.0.0.0 Mobile Safari/537.36 OPR/90.0.0.0",
      "Opera on Android",
    ],
    ["Mozilla/5.0 (iPad; CPU OS 18_5 like Mac OS X) AppleWebKit/605.1.15 Mobile/15E148", "A browser on iPad"],
    ["curl/8.14.1", "curl/8.14.1"],
    [`${"x".repeat(100)}`, "x".repeat(40)],
    ["  ", "An unnamed program"],
  ])("%s", (userAgent, described) => {
    expect(describeUserAgent(userAgent)).toBe(described);
  });
});
