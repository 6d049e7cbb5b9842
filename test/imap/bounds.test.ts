/** Bounds on the cost of a client: time before it signs in, memory for what it appends and for what it does not read. */
import { afterEach, beforeEach, expect, test } from "bun:test";
import { connect as connectTls, type TLSSocket } from "node:tls";
import * as developers from "../../src/admin/developers.ts";
import * as domains from "../../src/admin/domains.ts";
import { makeDkimKeys } from "../../src/admin/domains.ts";
import * as people from "../../src/admin/people.ts";
import * as workspaceAdmin from "../../src/admin/workspace-admin.ts";
import { largeMessageMemoryLimit } from "../../src/base/memory.ts";
import { type ImapAccount, imapStranger } from "../harness/clients/imap-client.ts";
import { type ImapWorld, imapWorld } from "../harness/servers/imap-world.ts";

const GIB = 1024 ** 3;
let world: ImapWorld;
let clients: ImapAccount[];

beforeEach(async () => {
  world = await imapWorld();
  clients = [];
  const { store, options } = world.app.core;
  store.transact((tx) => options.set(tx, "smtp.maxMessageBytes", `${GIB}`));
});
afterEach(() => {
  for (const client of clients) client.end();
});

const port = (): number => Number(world.app.ready.imaps?.split(":")[1]);
async function client(who?: { email: string; key: string }): Promise<ImapAccount> {
  const one = await world.client(who);
  clients.push(one);
  return one;
}
async function openConnections(): Promise<number> {
  const text = await (await fetch(`${world.app.http}/metrics`)).text();
  return Number(/^mailroom_imap_connections\{kind="open"\} (\d+)$/m.exec(text)?.[1]);
}
async function counted(direction: "received" | "sent"): Promise<number> {
  const text = await (await fetch(`${world.app.http}/metrics`)).text();
  return Number(new RegExp(`^mailroom_imap_bytes_total\\{direction="${direction}"\\} (\\d+)$`, "m").exec(text)?.[1]);
}
const APPEND = (octets: number): string => `a APPEND INBOX {${octets}}\r\n`;

test("a stranger has three minutes to sign in, whatever they say meanwhile", async () => {
  const stranger = await imapStranger(port());
  clients.push(stranger);
  for (let minute = 0; minute < 3; minute++) {
    await world.app.advance(59_000);
    expect((await stranger.say("NOOP")).status).toBe("OK");
  }
  await world.app.advance(4_000);
  expect(await stranger.line()).toBe("* BYE Sign in sooner");
  expect(await stranger.line()).toBeUndefined();
  const signedIn = await client();
  for (let minute = 0; minute < 5; minute++) await world.app.advance(60_000);
  expect((await signedIn.say("NOOP")).status).toBe("OK");
});

/** Writes octets, and waits until the server has them. */
async function send(one: Pick<ImapAccount, "write">, octets: string): Promise<void> {
  const before = await counted("received");
  one.write(octets);
  while ((await counted("received")) < before + octets.length) await world.app.advance(0);
}
/** Announces a message for which there is no room. */
async function expectRefused(one: ImapAccount): Promise<void> {
  await send(one, APPEND(5_000));
  let isTold = false;
  const told = one.line().finally(() => {
    isTold = true;
  });
  await world.app.advance(59_000);
  await counted("received");
  expect(isTold).toBe(false);
  await world.app.advance(1_000);
  expect(await told).toBe("a NO [LIMIT] Too much mail comes at once; try again");
}

/** Takes all of the room, by as many clients as it takes; returns them. */
async function fill(octets: number, next: (n: number) => Promise<ImapAccount>): Promise<ImapAccount[]> {
  const taking: ImapAccount[] = [];
  for (let left = Math.floor(octets); left > 0; left -= GIB) {
    const one = await next(taking.length);
    one.write(APPEND(Math.min(left, GIB)));
    expect(await one.line()).toBe("+ Go on");
    taking.push(one);
  }
  return taking;
}

test("messages that a person appends wait for room, and are refused after a minute", async () => {
  const [second, third] = [await client(), await client()];
  const taking = await fill(largeMessageMemoryLimit() / 4, () => client());
  await expectRefused(second);
  // Small ones need none.
  expect((await second.say("APPEND INBOX {22+}\r\nSubject: Small\r\n\r\nHi\r\n")).status).toBe("OK");
  for (const one of [second, third]) await send(one, APPEND(5_000));
  for (const one of taking) one.end();
  for (const one of [second, third]) {
    expect(await one.line()).toBe("+ Go on");
    const text = `Subject: Waited ${one === second}\r\n\r\n`;
    one.write(`${text.padEnd(5_000, "x")}\r\n`);
    expect(await one.line()).toStartWith("a OK [APPENDUID");
  }
  // Both have given their room back.
  await fill(largeMessageMemoryLimit() / 4, () => client());
});

test("all persons of a workspace together have a part of the memory, and leave some to another workspace", async () => {
  await fill((largeMessageMemoryLimit() * 3) / 4 - 1_000, (n) => client(world.member(`Person${n}`)));
  await expectRefused(await client());
  const { core } = world.app.opened;
  const { store } = core;
  const keys = await makeDkimKeys();
  const other = store.transact((tx) => {
    const { id: workspaceId } = workspaceAdmin.addWorkspace(core, tx, "Other");
    domains.markDomainVerified(core, tx, domains.addDomain(core, tx, workspaceId, "other.test", keys).id);
    const bob = { workspaceId, email: "bob@other.test", name: "Bob", role: "owner", ownMailbox: true } as const;
    const { userId } = people.addUser(core, tx, bob);
    return {
      email: bob.email,
      key: developers.createKey(core, tx, { userId, name: "K", scopes: ["read", "write"] }).key,
    };
  });
  await fill(largeMessageMemoryLimit() / 8, () => client(other));
}, 60_000);

test("a message that comes too slowly ends the session", async () => {
  const slow = await client();
  slow.write(APPEND(1_000_000));
  expect(await slow.line()).toBe("+ Go on");
  for (let span = 0; span < 2; span++) {
    await send(slow, "x".repeat(70_000));
    await world.app.advance(180_000);
  }
  await send(slow, "x".repeat(60_000));
  await world.app.advance(180_000);
  expect(await slow.line()).toBe("* BYE The message comes too slowly");
  expect(await slow.line()).toBeUndefined();
});

test("a client that does not read is ended, and costs no memory until then", async () => {
  await world.arrive({ subject: "Large", text: "y".repeat(4_000_000) });
  const socket: TLSSocket = connectTls({ host: "127.0.0.1", port: port(), rejectUnauthorized: false });
  const { apiKey } = world.app.owner;
  await new Promise<void>((resolve) => socket.once("data", () => resolve()));
  socket.pause();
  socket.write(`a LOGIN alice@example.test ${apiKey}\r\nb SELECT INBOX\r\n${"c FETCH 1 BODY[]\r\n".repeat(50)}`);
  // Until nothing more goes out.
  for (let before = -1, now = 0; now < 100_000 || now > before; now = await counted("sent")) {
    before = now;
    await world.app.advance(0);
  }
  expect(await openConnections()).toBe(1);
  for (let minute = 0; minute < 4; minute++) await world.app.advance(60_000);
  const most = await counted("sent");
  // The buffers of the machine, of 200 MB.
  expect(most).toBeLessThan(50_000_000);
  expect(await openConnections()).toBe(1);
  await world.app.advance(61_000);
  expect(await openConnections()).toBe(0);
  expect(await counted("sent")).toBe(most);
  socket.destroy();
});

test("a literal within IDLE, and within what a client proves who it is with, ends the session", async () => {
  const idling = await client();
  idling.write("a IDLE\r\n");
  expect(await idling.line()).toBe("+ idling");
  idling.write("b APPEND INBOX {50000000}\r\n");
  expect(await idling.line()).toStartWith("* BYE ");
  const stranger = await imapStranger(port());
  clients.push(stranger);
  stranger.write("a AUTHENTICATE PLAIN\r\n");
  expect(await stranger.line()).toStartWith("+ ");
  stranger.write("b {5}\r\n");
  expect(await stranger.line()).toStartWith("* BYE ");
});

test("FETCH lets others run between the messages that it reads", async () => {
  await world.arriveAll(Array.from({ length: 200 }, (_, i) => `Message ${i}`));
  const [fetcher, other] = [await client(), await client()];
  await fetcher.say("SELECT INBOX");
  const ended: string[] = [];
  const fetched = fetcher
    .say("FETCH 1:* BODY.PEEK[]")
    .then(({ untagged }) => ended.push(`FETCH of ${untagged.length}`));
  await Promise.all([fetched, other.say("NOOP").then(() => ended.push("NOOP"))]);
  expect(ended).toEqual(["NOOP", "FETCH of 200"]);
});

test("LIST lets others run, whatever it is asked and however many names there are", async () => {
  const {
    core: { store },
  } = world.app.opened;
  store.transact((tx) => people.setLabelFolders(tx, world.app.owner.userId, true));
  const [lister, other] = [await client(), await client()];
  for (let i = 0; i < 20; i++) expect((await lister.say(`CREATE Labels/${"a/".repeat(28)}${i}`)).status).toBe("OK");
  const pattern = `L${"*a".repeat(9)}c`;
  const asked = (count: number): string => `LIST "" (${Array(count).fill(pattern).join(" ")})`;
  expect((await lister.say(asked(11))).status).toBe("BAD");
  const ended: string[] = [];
  const listed = lister.say(asked(10)).then(() => ended.push("LIST"));
  await Promise.all([listed, other.say("NOOP").then(() => ended.push("NOOP"))]);
  expect(ended).toEqual(["NOOP", "LIST"]);
});
