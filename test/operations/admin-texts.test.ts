/** Signatures and templates over the administration API and in the app (rules: Signatures and templates). */
import { beforeAll, describe, expect, test } from "bun:test";
import * as developers from "../../src/admin/developers.ts";
import * as mailboxAdmin from "../../src/admin/mailbox-admin.ts";
import * as removals from "../../src/admin/removals.ts";
import { mailboxTexts } from "../../src/store/schema.ts";
import { type Page, setPassword, signIn } from "../harness/clients/browser-session.ts";
import { type AdminApi, bootAdminApi } from "../harness/servers/admin-api.ts";

const DELAYED = { name: "Delayed", subject: "Your order", text: "It takes a week more.\nSorry." };
const THANKS = { name: "Thanks", text: "Thank you." };
let it: AdminApi;
let own: string;

beforeAll(async () => {
  it = await bootAdminApi();
  own = it.owner.mailboxId;
});

describe("over the API", () => {
  test("a mailbox has neither at first; both are replaced whole", async () => {
    expect(await it.call("GET", `/mailboxes/${own}/signature`)).toMatchObject({ status: 200, body: { text: "" } });
    expect(await it.call("GET", `/mailboxes/${own}/templates`)).toMatchObject({ status: 200, body: { templates: [] } });
    const put = await it.call("PUT", `/mailboxes/${own}/signature`, { text: "Alice\r\nExample \n" });
    expect(put).toMatchObject({ status: 200, body: { text: "Alice\nExample" } });
    const templates = [THANKS, { ...DELAYED, name: " Delayed " }];
    expect((await it.call("PUT", `/mailboxes/${own}/templates`, { templates })).body).toEqual({
      templates: [THANKS, DELAYED],
    });
    expect((await it.call("GET", `/mailboxes/${own}/signature`)).body).toEqual({ text: "Alice\nExample" });
    await it.call("PUT", `/mailboxes/${own}/templates`, { templates: [DELAYED] });
    expect((await it.call("GET", `/mailboxes/${own}/templates`)).body).toEqual({ templates: [DELAYED] });
  });

  test.each([
    ["two of one name", [THANKS, { ...THANKS, name: "THANKS " }], 422],
    ["too many", Array.from({ length: 51 }, (_, i) => ({ ...THANKS, name: `${i}` })), 422],
    ["one without a name", [{ ...THANKS, name: " " }], 400],
    ["one of unknown fields", [{ ...THANKS, html: "<b>" }], 400],
    ["one that is too long", [{ ...THANKS, text: "x".repeat(20_001) }], 400],
  ])("refuses %s, and keeps what was there", async (_, templates, status) => {
    await it.call("PUT", `/mailboxes/${own}/templates`, { templates: [DELAYED] });
    expect((await it.call("PUT", `/mailboxes/${own}/templates`, { templates })).status).toBe(status);
    expect((await it.call("GET", `/mailboxes/${own}/templates`)).body).toEqual({ templates: [DELAYED] });
  });

  test("a mailbox of another workspace, or that a key's policy leaves out, is not there", async () => {
    const { key } = it.write((tx) =>
      developers.createKey(it.opened.core, tx, {
        userId: it.owner.userId,
        name: "Other",
        scopes: ["admin"],
        policy: { mailboxes: ["mbx_other"] },
      }),
    );
    for (const what of ["signature", "templates"]) {
      expect((await it.call("GET", `/mailboxes/${it.other.mailboxId}/${what}`)).status).toBe(404);
      expect((await it.callAs(key)("GET", `/mailboxes/${own}/${what}`)).status).toBe(404);
    }
    expect((await it.call("PUT", `/mailboxes/${it.other.mailboxId}/signature`, { text: "x" })).status).toBe(404);
    expect((await it.callAs(key)("PUT", `/mailboxes/${own}/templates`, { templates: [] })).status).toBe(404);
  });

  test("they go with the mailbox", async () => {
    const { mailboxId } = it.join("gone@example.test", "member");
    await it.call("PUT", `/mailboxes/${mailboxId}/signature`, { text: "Gone" });
    await removals.removeMailbox(it.opened.core, mailboxId);
    const rows = it.core.store.db.select().from(mailboxTexts).all();
    expect(rows.map((row) => row.mailboxId)).toEqual([own]);
  });
});

describe("in the app", () => {
  const pages: Record<string, Page> = {};
  let shared: string;

  beforeAll(async () => {
    const { core } = it.opened;
    shared = it.write((tx) =>
      mailboxAdmin.addMailbox(core, tx, {
        workspaceId: it.owner.workspaceId,
        address: "team@example.test",
        name: "Team",
      }),
    );
    for (const access of ["view", "send", "full"] as const) {
      const email = `${access}@example.test`;
      const { userId } = it.join(email, "member");
      it.write((tx) => mailboxAdmin.grantMailboxAccess(tx, shared, userId, access));
      await setPassword(it, userId);
      pages[access] = await signIn(it, email);
    }
    it.join("none@example.test", "member");
    await it.call("PUT", `/mailboxes/${shared}/signature`, { text: "The team" });
    await it.call("PUT", `/mailboxes/${shared}/templates`, { templates: [THANKS] });
  });

  test("whoever sends from the mailbox reads them, and whoever only views it does not", async () => {
    const texts = { signature: "The team", templates: [THANKS] };
    expect((await pages.send?.get(`/mailboxes/${shared}/texts`))?.body).toEqual(texts);
    expect((await pages.full?.get(`/mailboxes/${shared}/texts`))?.body).toEqual(texts);
    expect((await pages.view?.get(`/mailboxes/${shared}/texts`))?.status).toBe(403);
    expect((await pages.full?.get(`/mailboxes/${own}/texts`))?.status).toBe(404);
  });

  test("whoever manages it changes them, one template at a time", async () => {
    const { full } = pages;
    const path = `/mailboxes/${shared}/templates`;
    expect((await full?.send("PATCH", `/mailboxes/${shared}/signature`, { text: "Us" }))?.status).toBe(200);
    expect((await full?.send("POST", path, DELAYED))?.body).toEqual({
      signature: "Us",
      templates: [THANKS, DELAYED],
    });
    const renamed = { ...THANKS, name: "Many thanks" };
    expect((await full?.send("POST", path, { ...renamed, replaces: "thanks" }))?.body.templates).toEqual([
      renamed,
      DELAYED,
    ]);
    expect((await full?.send("POST", path, { ...renamed, name: "Delayed" }))?.status).toBe(422);
    expect((await full?.send("POST", path, { ...renamed, replaces: "Gone" }))?.status).toBe(404);
    expect((await full?.send("DELETE", `${path}/many%20thanks`))?.body.templates).toEqual([DELAYED]);
    expect((await full?.send("DELETE", `${path}/many%20thanks`))?.status).toBe(404);
    for (const access of ["view", "send"]) {
      expect((await pages[access]?.send("PATCH", `/mailboxes/${shared}/signature`, { text: "x" }))?.status).toBe(403);
      expect((await pages[access]?.send("POST", path, THANKS))?.status).toBe(403);
      expect((await pages[access]?.send("DELETE", `${path}/Delayed`))?.status).toBe(403);
    }
  });

  test("a forwarded message begins with the signature of the mailbox that it is sent from", async () => {
    await it.api.post("/send", {
      from: "alice@example.test",
      to: "team@example.test",
      subject: "Boards",
      text: "12 of oak",
    });
    await it.advance(1_000);
    const { body } = await it.api.get<{ messages: { id: string }[] }>("/messages?mailbox=team@example.test");
    const forwarded = await pages.full?.send("POST", `/messages/${body.messages[0]?.id}/forward`);
    const draft = await pages.full?.get<{ text: string; from: string }>(`/drafts/${forwarded?.body.draftId}`);
    expect(draft?.body.from).toBe("team@example.test");
    expect(draft?.body.text).toMatch(/^\n\n-- \nUs\n\n-+ Forwarded message/);
  });

  test("what programs send has no signature", async () => {
    const sent = await it.api.post<{ emailId: string }>("/send", {
      from: "alice@example.test",
      to: "team@example.test",
      subject: "Plain",
      text: "As it is",
    });
    const { body } = await it.api.get<{ message: { text: string } }>(`/messages/${sent.body.emailId}`);
    expect(body.message.text.trim()).toBe("As it is");
  });
});
