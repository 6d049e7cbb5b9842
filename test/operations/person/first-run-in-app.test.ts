/** The first run over HTTP: it needs the token, slows guesses, happens once, and signs the owner in. */
import { describe, expect, test } from "bun:test";
import * as people from "../../../src/admin/people.ts";
import { setUpFirstWorkspace } from "../../../src/admin/setup.ts";
import * as workspaceAdmin from "../../../src/admin/workspace-admin.ts";
import { page } from "../../harness/clients/browser-session.ts";
import { boot, bootEmpty } from "../../harness/servers/boot.ts";
import { until } from "../../harness/until.ts";

const GIVEN = { domain: "acme.test", email: "ada@acme.test", name: "Ada", password: "correct horse" };

type Answer = { error?: string; code?: string; address?: string; apiKey?: string; dns?: { purpose: string }[] };

async function start() {
  const booted = await bootEmpty();
  const browser = page(booted);
  const token = booted.opened.firstRun.issueToken() ?? "";
  return {
    ...{ booted, browser, token },
    check: (given = token) => browser.send<Answer>("POST", "/setup/token", { token: given }),
    make: (given: object = {}) => browser.send<Answer>("POST", "/setup", { token, ...GIVEN, ...given }),
  };
}

describe("setting up", () => {
  test("does what the command does, signs the owner in, and happens once", async () => {
    const { booted, browser, check, make } = await start();
    expect((await browser.get("/setup")).body).toEqual({ due: true });
    expect((await check()).status).toBe(204);
    const { status, body, headers } = await make();
    expect([status, body.address, body.dns?.map(({ purpose }) => purpose)]).toEqual([
      200,
      "ada@acme.test",
      ["mx", "spf", "dkim", "dkim", "dmarc", "ownership"],
    ]);
    const { core } = booted.opened;
    expect(workspaceAdmin.listWorkspaces(core)).toMatchObject([{ name: "acme.test" }]);
    expect(people.listUsers(core)).toMatchObject([
      { email: "ada@acme.test", name: "Ada", role: "owner", canSignIn: true },
    ]);
    expect((await booted.apiWith(body.apiKey).get("/mailboxes")).body).toMatchObject({
      mailboxes: [{ address: "ada@acme.test" }],
    });
    const [cookie = ""] = (headers.get("set-cookie") ?? "").split(";");
    expect((await page(booted, cookie).get("/me")).body).toMatchObject({ email: "ada@acme.test", role: "owner" });
    const { password, email } = GIVEN;
    expect((await browser.send("POST", "/sign-in", { email, password })).status).toBe(204);

    expect((await browser.get("/setup")).body).toEqual({ due: false });
    expect([(await check()).status, (await make({ workspace: "Again" })).status]).toEqual([409, 409]);
    expect(workspaceAdmin.listWorkspaces(core)).toHaveLength(1);
  }, 120_000);

  test("two requests at once make one workspace", async () => {
    const { booted, make } = await start();
    const statuses = (await Promise.all([make(), make({ workspace: "Second" })])).map(({ status }) => status);
    expect(statuses.sort()).toEqual([200, 409]);
    expect(workspaceAdmin.listWorkspaces(booted.opened.core)).toHaveLength(1);
  }, 120_000);

  test("is refused after the command, even with the token", async () => {
    const { booted, browser, check, make } = await start();
    await setUpFirstWorkspace({ ...booted.opened, ...booted.core }, GIVEN);
    expect([(await check()).status, (await make()).status]).toEqual([409, 409]);
    expect((await browser.get("/setup")).body).toEqual({ due: false });
  }, 120_000);

  test.each([
    [{ domain: "acme" }, /"acme" is not a domain/],
    [{ email: "ada@other.test" }, /is not at acme\.test/],
    [{ name: " " }, /a name of 1 to 120/],
    [{ password: "" }, /give a password/],
    [{ domain: undefined }, /domain/],
  ])(
    "with %j is refused and makes nothing; the token goes on",
    async (wrong, says) => {
      const { booted, check, make } = await start();
      const { status, body } = await make(wrong);
      expect([status, body.error]).toEqual([400, expect.stringMatching(says)]);
      expect(workspaceAdmin.listWorkspaces(booted.opened.core)).toEqual([]);
      expect((await check()).status).toBe(204);
    },
    120_000,
  );
});

describe("without the token", () => {
  test("nothing is set up, and an earlier token is invalid", async () => {
    const { booted, check, make, token } = await start();
    booted.opened.firstRun.issueToken();
    for (const wrong of [token, "", "x".repeat(43)]) {
      expect([(await check(wrong)).status, (await make({ token: wrong })).status]).toEqual([403, 403]);
    }
    expect(workspaceAdmin.listWorkspaces(booted.opened.core)).toEqual([]);
  });

  test("guesses are slowed, one after the other; the right token is not", async () => {
    const { booted, check } = await start();
    for (let i = 0; i < 20; i++) expect((await check("guess")).status).toBe(403);
    const before = booted.runtime.timers().length;
    let told = 0;
    const guesses = [1, 2].map(() => check("guess").then(({ status }) => [++told, status]));
    await until(() => booted.runtime.timers().length !== before);
    expect((await check()).status).toBe(204);
    expect([told, booted.runtime.timers().length]).toEqual([0, before + 1]);
    await booted.advance(100);
    await until(() => told > 0 && booted.runtime.timers().length !== before);
    await booted.advance(200);
    expect((await Promise.all(guesses)).map(([, status]) => status)).toEqual([403, 403]);
  });

  test("another site's page sets nothing up", async () => {
    const { browser, token } = await start();
    const answer = await browser.fetch("/setup", {
      method: "POST",
      headers: { "content-type": "application/json", origin: "https://evil.example" },
      body: JSON.stringify({ token, ...GIVEN }),
    });
    expect(answer.status).toBe(403);
    expect((await browser.get("/setup")).body).toEqual({ due: true });
  });

  test("a server that has a workspace refuses everybody", async () => {
    const booted = await boot();
    expect(booted.opened.firstRun.issueToken()).toBeUndefined();
    const { status, body } = await page(booted).send<Answer>("POST", "/setup", { token: "", ...GIVEN });
    expect([status, body.code]).toEqual([409, "conflict"]);
  });
});
