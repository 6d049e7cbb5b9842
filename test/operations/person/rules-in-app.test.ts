/** Rules and absences in the app: for the people who manage a mailbox, and forwarding after a proof (rules: Mail rules, Forwarding). */
import { describe, expect, test } from "bun:test";
import { accessNotices, type GrantAccess, grants, mailboxes } from "../../../src/store/schema.ts";
import { confirm, setPassword, signInOnly } from "../../harness/clients/browser-session.ts";
import { boot } from "../../harness/servers/boot.ts";

const STAR = { match: "from:ann", actions: [{ type: "star" }] };
const OUTSIDE = { match: "from:ann", actions: [{ type: "forward", to: "ann@away.example" }] };
const AWAY = { from: "2026-02-01T00:00:00Z", until: "2026-03-01T00:00:00Z", text: "Away" };

async function start() {
  const booted = await boot();
  const { options, store } = booted.core;
  const { mailboxId } = booted.owner;
  const bob = booted.join("bob@example.test");
  for (const id of [booted.owner.userId, bob.userId]) await setPassword(booted, id);
  return {
    ...booted,
    bob: { ...bob, page: await signInOnly(booted, "bob@example.test") },
    alice: await signInOnly(booted, "alice@example.test"),
    path: `/mailboxes/${mailboxId}`,
    bobs: `/mailboxes/${bob.mailboxId}`,
    share: (access: GrantAccess) =>
      store.db
        .insert(grants)
        .values({ mailboxId, userId: bob.userId, access })
        .onConflictDoUpdate({
          target: [grants.mailboxId, grants.userId],
          set: { access },
        })
        .run(),
    allow: () => store.transact((tx) => options.set(tx, "rules.forwardOutside", "true")),
    notices: () =>
      store.db
        .select()
        .from(accessNotices)
        .all()
        .map(({ userId, doneBy, detail }) => ({ userId, doneBy, ...JSON.parse(detail ?? "{}") })),
  };
}

describe("rules and absences", () => {
  test("are for whoever manages the mailbox", async () => {
    const { bob, path, bobs, share } = await start();
    const ask = async (to: string) => {
      const rules = [STAR];
      const answers = [
        await bob.page.get(`${to}/rules`),
        await bob.page.get(`${to}/rules/matches?match=ann`),
        await bob.page.send("PUT", `${to}/rules`, { rules }),
        await bob.page.get(`${to}/absence`),
        await bob.page.send("PUT", `${to}/absence`, AWAY),
        await bob.page.send("DELETE", `${to}/absence`),
      ];
      return answers.map(({ status }) => status);
    };
    const all = (status: number) => Array.from({ length: 6 }, () => status);
    expect(await ask(bobs)).toEqual([200, 200, 204, 200, 204, 204]);
    expect(await ask(path)).toEqual(all(404));
    share("view");
    expect(await ask(path)).toEqual(all(403));
    share("send");
    expect(await ask(path)).toEqual(all(403));
    share("full");
    expect(await ask(path)).toEqual([200, 200, 204, 200, 204, 204]);
  });

  test("read back as they were set", async () => {
    const { alice, path } = await start();
    const rules = [{ ...STAR, name: "Ann", enabled: false }];
    await alice.send("PUT", `${path}/rules`, { rules });
    expect((await alice.get(`${path}/rules`)).body).toEqual({ rules, forwardOutside: false });
    await alice.send("PUT", `${path}/absence`, AWAY);
    expect((await alice.get(`${path}/absence`)).body).toEqual({
      ...AWAY,
      from: "2026-02-01T00:00:00.000Z",
      until: "2026-03-01T00:00:00.000Z",
    });
  });
});

describe("forwarding outside", () => {
  test("takes the setting, then a proof; the owner is told, by whom", async () => {
    const { alice, bob, path, share, allow, notices, owner } = await start();
    const put = async (who: typeof alice, ...rules: object[]) => {
      const { status, body } = await who.send<{ code: string; confirm?: object } | undefined>("PUT", `${path}/rules`, {
        rules,
      });
      return [status, body?.code, body?.confirm];
    };
    expect(await put(alice, OUTSIDE)).toEqual([422, "unprocessable", undefined]);
    allow();
    expect(await put(alice, OUTSIDE)).toEqual([403, "forbidden", { code: false }]);
    expect(notices()).toEqual([]);
    await confirm(alice);
    expect(await put(alice, OUTSIDE)).toEqual([204, undefined, undefined]);
    const told = { userId: owner.userId, mailbox: "alice@example.test", to: ["ann@away.example"] };
    expect(notices()).toEqual([{ ...told, doneBy: "self" }]);
    // The same again is no change.
    expect(await put(alice, OUTSIDE)).toEqual([204, undefined, undefined]);
    expect(notices()).toHaveLength(1);

    share("full");
    expect(await put(bob.page, STAR, OUTSIDE)).toEqual([403, "forbidden", { code: false }]);
    await confirm(bob.page);
    expect(await put(bob.page, STAR, OUTSIDE)).toEqual([204, undefined, undefined]);
    expect(notices().at(-1)).toEqual({ ...told, doneBy: "share" });
    // To take it away needs none.
    expect(await put(bob.page, STAR)).toEqual([204, undefined, undefined]);
    expect(notices()).toHaveLength(2);
  });

  test("of a mailbox without an owner is told to the owners and admins", async () => {
    const { alice, path, allow, notices, owner, core } = await start();
    core.store.db.update(mailboxes).set({ ownerId: null }).run();
    allow();
    await confirm(alice);
    const rules = [OUTSIDE];
    expect((await alice.send("PUT", `${path}/rules`, { rules })).status).toBe(204);
    expect(notices()).toMatchObject([{ userId: owner.userId, doneBy: "self" }]);
  });

  test("says when it has stopped", async () => {
    const { alice, path, allow, core } = await start();
    allow();
    await confirm(alice);
    const rules = [OUTSIDE];
    await alice.send("PUT", `${path}/rules`, { rules });
    const actions = async () =>
      (await alice.get<{ rules: { actions: { stopped?: string }[] }[] }>(`${path}/rules`)).body.rules[0]?.actions;
    expect((await actions())?.[0]).not.toHaveProperty("stopped");
    core.store.transact((tx) => core.options.set(tx, "rules.forwardOutside", "false"));
    expect((await actions())?.[0]?.stopped).toContain("rules.forwardOutside");
  });
});
