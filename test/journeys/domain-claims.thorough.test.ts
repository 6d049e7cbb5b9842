/**
 * Whose mail a domain's is (rules: Domain owner): that of the workspace that verified it. Over real sockets, with a
 * world whose zones a test may change: nobody gets their neighbours' mail by claiming where it goes, and an owner who
 * proves the domain gets it whoever claimed it before.
 */
import { Database } from "bun:sqlite";
import { describe, expect, test } from "bun:test";
import { join } from "node:path";
import { eq } from "drizzle-orm";
import * as developers from "../../src/admin/developers.ts";
import type { DomainEntry } from "../../src/admin/domains.ts";
import * as domains from "../../src/admin/domains.ts";
import { makeDkimKeys } from "../../src/admin/domains.ts";
import * as erasure from "../../src/admin/erasure.ts";
import * as mailboxAdmin from "../../src/admin/mailbox-admin.ts";
import * as people from "../../src/admin/people.ts";
import * as workspaceAdmin from "../../src/admin/workspace-admin.ts";
import { reversePathTo } from "../../src/outbound/queue.ts";
import { MIGRATIONS } from "../../src/store/migrate.ts";
import { addresses, dkimKeys, MAIL_SCOPES, outboundContents, outboundMessages } from "../../src/store/schema.ts";
import type { Client } from "../harness/clients/api.ts";
import { setPassword, signIn } from "../harness/clients/browser-session.ts";
import { connectSmtp } from "../harness/clients/smtp-client.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { letter } from "../harness/mail/mail.ts";
import { type Habits, type Records, type Zone, zone } from "../harness/peers/dns-server.ts";
import { deliverTo, startRemoteMx } from "../harness/peers/remote-mx.ts";
import { type Booted, boot, bootEmpty } from "../harness/servers/boot.ts";

const MINUTE = 60_000;
const dkim = [makeDkimKeys(), makeDkimKeys()];

interface Claimant {
  workspaceId: string;
  userId: string;
  mailboxId: string;
  api: Client;
  domain: DomainEntry;
}

interface Listed {
  threads: { id: string; subject: string; from: { email: string }; receivedOn: string }[];
}

/** An appliance with Alice's verified example.test, in a world of that zone; `asked`: the questions for texts. */
async function world(description: Zone = {}, habits?: Habits) {
  const dns = zone(description, habits);
  const asked = () => dns.questions.filter((question) => question.startsWith("txt "));
  const booted = await boot({}, dns);
  const { core, write } = booted;

  /** A workspace that claims the domain, its owner with a mailbox there, and their key. */
  async function claim(workspace: string, name: string, email = `owner@${name}`): Promise<Claimant> {
    const keys = await (dkim[workspaceAdmin.listWorkspaces(core).length % 2] ?? dkim[0]);
    const made = write((tx) => {
      const { id: workspaceId } = workspaceAdmin.addWorkspace(core, tx, workspace);
      const domain = domains.addDomain(core, tx, workspaceId, name, keys ?? []);
      const owner = { workspaceId, email, name: workspace, role: "owner" } as const;
      const { userId } = people.addUser(core, tx, { ...owner, ownMailbox: false });
      const address = `owner@${name}`;
      const mailboxId = mailboxAdmin.addMailbox(core, tx, { workspaceId, address, name: workspace, ownerId: userId });
      const { key } = developers.createKey(core, tx, { userId, name: "K", scopes: MAIL_SCOPES });
      return { workspaceId, userId, mailboxId, domain, key };
    });
    return { ...made, api: booted.apiWith(made.key) };
  }

  /** Puts what the domain's records ask for into the world. */
  function publish({ id }: DomainEntry): void {
    for (const { type, name, value } of domains.listDomainRecords(core, id)) {
      if (type !== "TXT") continue;
      const before = (description[name] ?? {}) as Records;
      description[name] = { ...before, txt: [...(before.txt ?? []), value] };
    }
  }

  return {
    ...booted,
    ...{ asked, description, claim, publish },
    stateOf: ({ workspaceId, domain }: Claimant) => domains.getDomainById(core, workspaceId, domain.id).state,
    /** Those of before the rule. */
    tolerate: ({ domain }: Claimant) =>
      core.db.$client.query("UPDATE domains SET accepts_unverified = 1 WHERE id = ?").run(domain.id),
    verify: ({ domain }: Claimant) => write((tx) => domains.markDomainVerified(core, tx, domain.id)),
  };
}

/** One reply to RCPT, in a session of its own. */
async function rcpt({ mx }: Pick<Booted, "mx">, to: string): Promise<string> {
  const client = await connectSmtp(mx);
  await client.expect(250, "MAIL FROM:<carol@remote.example>");
  const { code, lines } = await client.command(`RCPT TO:<${to}>`);
  client.destroy();
  return `${code} ${lines.join(" ")}`;
}

async function deliver({ mx }: Pick<Booted, "mx">, to: string, subject: string): Promise<string> {
  const client = await connectSmtp(mx);
  const mail = letter({ from: "carol@remote.example", to, subject, messageId: `<${subject}@remote.example>` });
  const { code, lines } = await client.deliver({ from: "carol@remote.example", to }, mail.replaceAll(/\r?\n/g, "\r\n"));
  client.destroy();
  return `${code} ${lines.join(" ")}`;
}

const subjects = async ({ api }: { api: Client }, folder = "all"): Promise<string[]> =>
  (await api.get<Listed>(`/threads?folder=${folder}&limit=100`)).body.threads.map(({ subject }) => subject).sort();

const send = ({ api }: { api: Client }, from: string, to: string) =>
  api.post<{ error?: string; code?: string; emailId?: string; threadId?: string }>("/send", {
    ...{ from, to, subject: "Hello", text: "Hi" },
  });

const NOT_VERIFIED = "451 4.7.1 shop.test is not verified here yet, try again later";
const ACCEPTED = /^250 /;

/** Before a domain could be claimed by several workspaces. */
const SCHEMA_BEFORE = 19;

describe("mail from other servers", () => {
  test("is not taken for a domain that nobody has verified; its records are looked for, whoever asks, every five minutes", async () => {
    const it = await world();
    const owner = await it.claim("Shop", "shop.test");
    expect(await rcpt(it, "owner@shop.test")).toBe(NOT_VERIFIED);
    expect(it.asked()).toEqual(["txt _mailroom.shop.test"]);
    for (const name of ["owner", "nobody", "postmaster", "abuse", "owner+tag", "name."]) {
      expect(await rcpt(it, `${name}@shop.test`)).toBe(NOT_VERIFIED);
    }
    // The records come, and nobody asks again yet.
    it.publish(owner.domain);
    await it.advance(5 * MINUTE - 1);
    expect(await rcpt(it, "owner@shop.test")).toBe(NOT_VERIFIED);
    expect(it.asked()).toEqual(["txt _mailroom.shop.test"]);
    await it.advance(1);
    expect(await deliver(it, "owner@shop.test", "First")).toMatch(ACCEPTED);
    expect(it.stateOf(owner)).toBe("verified");
    expect(await subjects(owner)).toEqual(["First"]);
    const asked = it.asked().length;
    expect(await deliver(it, "postmaster@shop.test", "Second")).toMatch(ACCEPTED);
    expect(await rcpt(it, "nobody@shop.test")).toBe("550 5.1.1 No such mailbox here");
    expect(
      it
        .asked()
        .slice(asked)
        .filter((name) => name.endsWith("shop.test")),
    ).toEqual([]);
    expect(await rcpt(it, "owner@elsewhere.test")).toBe("550 5.7.1 We do not relay for this domain");
  });

  test("waits no longer than fifteen seconds for DNS, and asks once for all who wait", async () => {
    const answer = Promise.withResolvers<void>();
    const isAbout = (question: string) => question === "txt _mailroom.shop.test";
    const it = await world({}, { hold: (question) => (isAbout(question) ? answer.promise : undefined) });
    const owner = await it.claim("Shop", "shop.test");
    const clients = await Promise.all([connectSmtp(it.mx), connectSmtp(it.mx)]);
    for (const client of clients) await client.expect(250, "MAIL FROM:<carol@remote.example>");
    const replies = Promise.all(clients.map((client) => client.command("RCPT TO:<owner@shop.test>")));
    while (!it.asked().some(isAbout)) await new Promise((resolve) => setImmediate(resolve));
    await it.advance(15_000);
    expect((await replies).map(({ code }) => code)).toEqual([451, 451]);
    expect(it.asked().filter(isAbout)).toHaveLength(1);
    for (const client of clients) client.destroy();
    // It counts when it comes all the same.
    it.publish(owner.domain);
    answer.resolve();
    while (it.stateOf(owner) !== "verified") await new Promise((resolve) => setImmediate(resolve));
    expect(await rcpt(it, "owner@shop.test")).toMatch(ACCEPTED);
  });

  test("is taken for the workspace whose token is published, whoever else claims the domain", async () => {
    const it = await world();
    const squatter = await it.claim("Squatter", "shop.test");
    const owner = await it.claim("Shop", "shop.test", "boss@elsewhere.example");
    it.publish(owner.domain);
    expect(await deliver(it, "owner@shop.test", "Secret")).toMatch(ACCEPTED);
    expect([it.stateOf(squatter), it.stateOf(owner)]).toEqual(["lost", "verified"]);
    expect(await subjects(owner)).toEqual(["Secret"]);
    expect(await subjects(squatter)).not.toContain("Secret");
    // One question for however many claims, then those of the one that is there.
    expect(it.asked().filter((question) => question === "txt _mailroom.shop.test")).toHaveLength(2);
  });

  test("is put off for a stranger as for those whom the operator trusts", async () => {
    const it = await world();
    const { options } = it.core;
    it.write((tx) => options.set(tx, "mx.trustedNetworks", "none"));
    const owner = await it.claim("Shop", "shop.test");
    expect(await rcpt(it, "owner@shop.test")).toBe(NOT_VERIFIED);
    it.publish(owner.domain);
    await it.advance(5 * MINUTE);
    expect(await deliver(it, "owner@shop.test", "First")).toMatch(ACCEPTED);
  });

  test("is taken at the operator's word", async () => {
    const it = await world();
    const owner = await it.claim("Shop", "shop.test");
    it.verify(owner);
    expect(await deliver(it, "owner@shop.test", "First")).toMatch(ACCEPTED);
    expect(it.asked().filter((name) => name.endsWith("shop.test"))).toEqual([]);
  });

  test("still comes to the unverified domains of an older version", async () => {
    const folder = temporaryFolder();
    const file = join(folder, "mailroom.db");
    const sqlite = new Database(file, { create: true });
    for (const sql of MIGRATIONS.slice(0, SCHEMA_BEFORE)) sqlite.exec(sql);
    sqlite.exec(`
      PRAGMA user_version = ${SCHEMA_BEFORE};
      INSERT INTO workspaces (id, name, created_at) VALUES ('wsp_1', 'One', 1);
      INSERT INTO users (id, workspace_id, email, name, role, created_at) VALUES ('usr_1', 'wsp_1', 'a@old.test', 'A', 'owner', 1);
      INSERT INTO domains VALUES ('dom_1', 'wsp_1', 'old.test', 'token', NULL, 1), ('dom_2', 'wsp_1', 'known.test', 'token', 7, 1);
      INSERT INTO mailboxes (id, workspace_id, address, name, owner_id, created_at, paused_reason)
        VALUES ('mbx_1', 'wsp_1', 'a@old.test', 'A', 'usr_1', 1, 'why');
      INSERT INTO addresses VALUES ('a@old.test', 'mbx_1', 'dom_1', 'primary', 1), ('*@known.test', 'mbx_1', 'dom_2', 'catch-all', 1)`);
    sqlite.close();
    const it = await bootEmpty({ MAILROOM_DATA: folder }, { file });
    const { core } = it.opened;
    const { store } = core;
    expect(domains.listDomains(core).map(({ name, state, takesMail }) => [name, state, takesMail])).toEqual([
      ["known.test", "verified", true],
      ["old.test", "unverified", true],
    ]);
    expect(mailboxAdmin.getMailboxByAddress(core, "a@old.test")).toMatchObject({
      pausedReason: "why",
      catchAlls: ["*@known.test"],
    });
    expect(await deliver(it, "a@old.test", "Old")).toMatch(ACCEPTED);
    expect(await deliver(it, "any@known.test", "Known")).toMatch(ACCEPTED);
    // One that is added now is new.
    store.transact((tx) => domains.addDomain(core, tx, "wsp_1", "new.test", []));
    expect(await rcpt(it, "a@new.test")).toContain("451 4.7.1 new.test is not verified here yet");
  });
});

describe("mail from here", () => {
  test("to a domain that another workspace merely claims leaves the server, to whichever address", async () => {
    const remote = await startRemoteMx();
    const it = await world({
      "mail.example": { mx: [[10, "mx.mail.example"]] },
      "mx.mail.example": { a: [remote.host] },
    });
    const { core } = it.opened;
    const { store } = core;
    deliverTo(remote, it.core);
    const squatter = await it.claim("Squatter", "mail.example", "squatter@elsewhere.example");
    it.write((tx) => mailboxAdmin.addAlias(core, tx, squatter.mailboxId, "bank@mail.example"));
    it.write((tx) => mailboxAdmin.addAlias(core, tx, squatter.mailboxId, "*@mail.example"));
    const victims = ["owner", "bank", "anybody", "postmaster", "abuse"].map((name) => `${name}@mail.example`);
    for (const to of victims) expect((await send(it, "alice@example.test", to)).status).toBe(202);
    await it.server.settled();
    expect(remote.messages.flatMap(({ to }) => to).sort()).toEqual(victims.sort());
    expect(await subjects(squatter)).toEqual([]);
    expect(store.db.$client.query("SELECT DISTINCT outside_recipients FROM outbound_messages").values()).toEqual([[1]]);
    // Its own mail it keeps to itself, and what others send from outside is put off.
    expect(await rcpt(it, "bank@mail.example")).toContain("451 4.7.1 mail.example is not verified here yet");
    it.verify(squatter);
    expect((await send(it, "alice@example.test", "bank@mail.example")).status).toBe(202);
    await it.server.settled();
    expect(await subjects(squatter)).toEqual(["Hello"]);
    expect(remote.messages).toHaveLength(victims.length);
  });

  test("to a domain that the workspace itself claims stays, in its own mailboxes", async () => {
    const it = await world();
    const { core } = it.opened;
    const keys = await makeDkimKeys();
    await it.claim("Other", "shop.test");
    it.write((tx) => domains.addDomain(core, tx, it.owner.workspaceId, "shop.test", keys));
    const { workspaceId } = it.owner;
    it.write((tx) => mailboxAdmin.addMailbox(core, tx, { workspaceId, address: "owner@shop.test", name: "Shop" }));
    expect((await send(it, "alice@example.test", "owner@shop.test")).status).toBe(202);
    await it.server.settled();
    const { body } = await it.api.get<Listed>("/threads?folder=inbox&mailbox=owner@shop.test");
    expect(body.threads.map(({ receivedOn }) => receivedOn)).toEqual(["owner@shop.test"]);
    expect((await send(it, "owner@shop.test", "alice@example.test")).body.error).toBe(
      "The domain shop.test is not verified, so nothing can be sent from owner@shop.test",
    );
  });
});

describe("when another workspace verifies the domain", () => {
  /** Shop has had shop.test since before the rule, with mail in it; then the real owner shows that it is theirs. */
  async function takeOver() {
    const it = await world();
    const loser = await it.claim("Loser", "shop.test");
    it.tolerate(loser);
    it.write((tx) => mailboxAdmin.addAlias(it.opened.core, tx, loser.mailboxId, "sales@shop.test"));
    it.write((tx) => mailboxAdmin.addAlias(it.opened.core, tx, loser.mailboxId, "*@shop.test"));
    const { body } = await loser.api.get("/mailboxes");
    expect(body.mailboxes).toMatchObject([{ aliases: ["sales@shop.test"] }]);
    expect(await deliver(it, "owner@shop.test", "Before")).toMatch(ACCEPTED);
    const winner = await it.claim("Winner", "shop.test", "boss@elsewhere.example");
    return { ...it, loser, winner };
  }

  test("mail goes to it; what the other had stays readable, takes none and sends none", async () => {
    const it = await takeOver();
    const { loser, winner } = it;
    // A claim alone changes nothing.
    expect(await deliver(it, "owner@shop.test", "Between")).toMatch(ACCEPTED);
    it.verify(winner);
    expect(await deliver(it, "owner@shop.test", "After")).toMatch(ACCEPTED);
    expect(await subjects(winner)).toEqual(["After"]);
    expect(await subjects(loser)).toEqual(expect.arrayContaining(["Before", "Between"]));
    expect(await subjects(loser)).not.toContain("After");

    const { body } = await loser.api.get<{ mailboxes: { address: string; access: object }[] }>("/mailboxes");
    expect(body.mailboxes).toMatchObject([{ address: "owner@shop.test", aliases: [], access: { read: true } }]);
    const { body: listed } = await loser.api.get<Listed>("/threads?mailbox=owner@shop.test");
    expect(listed.threads.map(({ subject }) => subject)).toContain("Before");
    const sent = await send(loser, "owner@shop.test", "alice@example.test");
    expect([sent.status, sent.body.error]).toEqual([
      422,
      "The domain shop.test was verified by another workspace, so nothing can be sent from owner@shop.test",
    ]);
    const thread = listed.threads.find(({ subject }) => subject === "Before");
    const reply = await loser.api.post(`/threads/${thread?.id}/reply`, { text: "Yes" });
    expect(reply.status).toBe(422);
  });

  test("mail from it is signed with the keys of whose it is alone, though others have made some for its name", async () => {
    const it = await takeOver();
    it.verify(it.winner);
    // It waits.
    it.description["far.example"] = "SERVFAIL";
    expect((await send(it.winner, "owner@shop.test", "ann@far.example")).status).toBe(202);
    const { store } = it.core;
    const [content] = store.db.select().from(outboundContents).all();
    const text = Buffer.from(content?.bytes ?? "").toString();
    expect(text.match(/^DKIM-Signature: /gm)).toHaveLength(2);
    expect(store.db.select().from(dkimKeys).where(eq(dkimKeys.domainId, it.loser.domain.id)).all()).toHaveLength(2);
  });

  test("its owners are told, in their mailbox, never at the address that is another's now", async () => {
    const it = await takeOver();
    it.verify(it.winner);
    await it.advance(MINUTE);
    const { body } = await it.loser.api.get<Listed>("/threads?folder=all");
    const notice = body.threads.find(({ subject }) => subject === "shop.test was verified by another workspace");
    expect(notice?.from.email).toBe(`postmaster@${it.opened.config.hostname}`);
    const { body: whole } = await it.loser.api.get<{ messages: { text: string }[] }>(`/threads/${notice?.id}`);
    expect(whole.messages[0]?.text).toContain("no mail comes to your mailboxes for *@shop.test, owner@shop.test,");
    expect(whole.messages[0]?.text).not.toContain("Winner");
    await it.advance(10 * MINUTE);
    expect((await subjects(it.loser)).filter((subject) => subject.includes("verified"))).toHaveLength(1);
    expect(await subjects(it.winner)).toEqual([]);
  });

  test("people of the other still sign in with their address, and their keys work", async () => {
    const it = await takeOver();
    it.verify(it.winner);
    await setPassword(it, it.loser.userId);
    const page = await signIn(it, "owner@shop.test");
    expect((await page.get("/me")).status).toBe(200);
    expect((await it.loser.api.get("/threads")).status).toBe(200);
  });

  test("a message that was on its way in meanwhile goes to whose the domain is when it ends", async () => {
    const it = await takeOver();
    const client = await connectSmtp(it.mx);
    await client.expect(250, "MAIL FROM:<carol@remote.example>");
    await client.expect(250, "RCPT TO:<owner@shop.test>");
    await client.expect(354, "DATA");
    client.write("From: carol@remote.example\r\nTo: owner@shop.test\r\nSubject: Late\r\n\r\n");
    it.verify(it.winner);
    client.write("text\r\n.\r\n");
    await client.expect(250);
    client.destroy();
    expect(await subjects(it.winner)).toEqual(["Late"]);
    expect(await subjects(it.loser)).not.toContain("Late");
  });

  test("a message whose domain is nobody's any more when it ends is put off", async () => {
    const it = await takeOver();
    it.verify(it.winner);
    const client = await connectSmtp(it.mx);
    await client.expect(250, "MAIL FROM:<carol@remote.example>");
    await client.expect(250, "RCPT TO:<owner@shop.test>");
    await client.expect(354, "DATA");
    it.write((tx) => {
      tx.delete(addresses).where(eq(addresses.mailboxId, it.winner.mailboxId)).run();
      domains.removeDomain(tx, it.winner.domain.id);
    });
    const { code, lines } = await client.command("Subject: Late\r\n\r\ntext\r\n.");
    expect(`${code} ${lines.join(" ")}`).toBe(NOT_VERIFIED);
    client.destroy();
    // What it had before the other came it has no more: the rule is for all alike by now.
    expect(it.stateOf(it.loser)).toBe("unverified");
    expect(await rcpt(it, "owner@shop.test")).toBe(NOT_VERIFIED);
  });

  test("who had it can erase what they have of it, and nothing of whose it is goes along", async () => {
    const it = await takeOver();
    it.verify(it.winner);
    expect(await deliver(it, "owner@shop.test", "After")).toMatch(ACCEPTED);
    const { core } = it.opened;
    const { store } = core;
    const { workspaceId } = it.loser;
    const second = { workspaceId, email: "second@elsewhere.example", name: "Second", role: "owner" } as const;
    it.write((tx) => people.addUser(core, tx, { ...second, ownMailbox: false }));
    let erased: object | undefined;
    erasure.erasePerson(core, it.loser.userId, { compact: false }).then((done) => {
      erased = done;
    });
    // It pauses between its portions.
    while (!erased) await it.advance(1_000);
    expect(erased).toMatchObject({ mailboxes: ["owner@shop.test"] });
    expect(mailboxAdmin.listMailboxes(core, workspaceId)).toEqual([]);
    expect(store.db.$client.query("PRAGMA foreign_key_check").all()).toEqual([]);
    expect(await subjects(it.winner)).toEqual(["After"]);
    it.write((tx) => domains.removeDomain(tx, it.loser.domain.id));
    expect(await deliver(it, "owner@shop.test", "Later")).toMatch(ACCEPTED);
  });

  test("a mailbox of nobody's there is not taken for one that is being removed", async () => {
    const it = await takeOver();
    const { core } = it.opened;
    const { workspaceId } = it.loser;
    it.write((tx) => mailboxAdmin.addMailbox(core, tx, { workspaceId, address: "team@shop.test", name: "Team" }));
    expect(await deliver(it, "team@shop.test", "Kept")).toMatch(ACCEPTED);
    it.verify(it.winner);
    await it.advance(2 * 60 * MINUTE);
    expect(mailboxAdmin.getMailboxByAddress(core, "team@shop.test", workspaceId)).toMatchObject({
      lost: true,
      removing: false,
    });
    expect(await subjects(it.loser)).toContain("Kept");
  });

  test("nobody can take it from the workspace that verified it, nor learn whose it is", async () => {
    const it = await takeOver();
    it.verify(it.winner);
    for (const refused of [() => it.verify(it.loser), () => it.claim("Fourth", "shop.test")]) {
      const said = await Promise.resolve()
        .then(refused)
        .catch((error) => error);
      expect([said.code, said.message]).toEqual([
        "conflict",
        "shop.test was verified by another workspace of this server",
      ]);
    }
  });
});

describe("mail that was accepted while the domain was verified for its sender", () => {
  test("is not sent once another workspace has it, and the sender is told", async () => {
    const remote = await startRemoteMx({ rcpt: "450 4.2.0 later" });
    const it = await world({ "far.example": { mx: [[10, "mx.far.example"]] }, "mx.far.example": { a: [remote.host] } });
    const { core } = it.opened;
    const { store } = core;
    deliverTo(remote, it.core);
    const former = await it.claim("Former", "shop.test", "former@elsewhere.example");
    it.verify(former);
    const { body } = await send(former, "owner@shop.test", "ann@far.example");
    await it.server.settled();
    const attempts = remote.connections;
    expect(attempts).toBe(1);
    // The former owner gives the domain up.
    it.write((tx) => {
      tx.delete(addresses).where(eq(addresses.mailboxId, former.mailboxId)).run();
      domains.removeDomain(tx, former.domain.id);
    });
    const heir = await it.claim("New", "shop.test", "new@elsewhere.example");
    it.verify(heir);
    // What its mail brings back is heard, and is not the new owner's to read.
    const [message] = store.db.select().from(outboundMessages).all();
    const returnPath = message ? reversePathTo(message, []) : "";
    expect(await rcpt(it, returnPath)).toMatch(ACCEPTED);
    expect(await deliver(it, returnPath, "Automatic answer")).toContain("550 5.1.1");
    expect(await subjects(heir)).toEqual([]);

    await it.advance(MINUTE);
    expect(remote.connections).toBe(attempts);
    const { body: thread } = await former.api.get<{ messages: { text: string }[] }>(`/threads/${body.threadId}`);
    expect(thread.messages.at(-1)?.text).toContain("verified by another workspace");
    expect(mailboxAdmin.listMailboxes(core, former.workspaceId)).toHaveLength(1);
  });
});
