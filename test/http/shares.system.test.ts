/** One workspace, and one person in it, take as much as they get of what all share; others are served meanwhile. */
import { afterEach, expect, test } from "bun:test";
import * as domains from "../../src/admin/domains.ts";
import { makeDkimKeys } from "../../src/admin/domains.ts";
import * as workspaceAdmin from "../../src/admin/workspace-admin.ts";
import { readExposition } from "../harness/clients/exposition.ts";
import { openRaw, type RawClient } from "../harness/clients/raw-http.ts";
import { type Booted, boot } from "../harness/servers/boot.ts";
import { until } from "../harness/until.ts";

const clients: RawClient[] = [];
afterEach(() => {
  for (const { socket } of clients.splice(0)) socket.destroy();
});

/** Workspaces Example, of alice with more people, and Other. Each person has keys. */
async function start() {
  const booted = await boot();
  const keys = await makeDkimKeys();
  const { core, owner } = booted;
  const add = (workspaceId: string, email: string) => booted.join(email, "owner", { workspaceId }).userId;
  const other = booted.write((tx) => {
    const { id } = workspaceAdmin.addWorkspace(core, tx, "Other");
    domains.markDomainVerified(core, tx, domains.addDomain(core, tx, id, "other.test", keys).id);
    return id;
  });
  const users = {
    alice: owner.userId,
    ann: add(owner.workspaceId, "ann@example.test"),
    amy: add(owner.workspaceId, "amy@example.test"),
    abe: add(owner.workspaceId, "abe@example.test"),
    art: add(owner.workspaceId, "art@example.test"),
    bob: add(other, "bob@other.test"),
  };
  return { ...booted, users };
}

async function sharedIn(pool: string, kind: "held" | "most", { http }: Booted): Promise<number> {
  const families = readExposition(await (await fetch(`${http}/metrics`)).text());
  const samples = families.get("mailroom_shared")?.samples ?? [];
  return samples.find(({ labels }) => labels.pool === pool && labels.kind === kind)?.value ?? Number.NaN;
}

/** Begins a request on a connection of its own. */
async function begin({ http }: Booted, text: string): Promise<RawClient> {
  const client = await openRaw(Number(new URL(http).port));
  clients.push(client);
  client.write(text);
  return client;
}

const waiting = (key: string) =>
  `GET /api/v1/messages?waitSeconds=50 HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${key}\r\n\r\n`;

test("keys of a person, each with the four that it may have, do not hold all places of requests that wait", async () => {
  const world = await start();
  // A hundred, or fewer where few files may be open.
  const most = await sharedIn("waits", "most", world);
  const keys = Array.from({ length: Math.ceil(most / 4) + 1 }, () => world.keyOf(world.users.alice));
  const theirs = Math.floor(most / 2);
  const begun = await Promise.all(keys.flatMap((key) => [0, 1, 2, 3].map(() => begin(world, waiting(key)))));
  const refused = () => begun.filter((client) => client.text().startsWith("HTTP/1.1 429"));
  await until(() => refused().length === begun.length - theirs);
  expect(await sharedIn("waits", "held", world)).toBe(theirs);
  for (const user of [world.users.ann, world.users.bob]) await begin(world, waiting(world.keyOf(user)));
  await until(async () => (await sharedIn("waits", "held", world)) === theirs + 2);
  // Those are answered when something comes.
  await world.apiWith(world.keyOf(world.users.bob)).get("/mailboxes");
  const bob = clients.at(-1) as RawClient;
  await world.advance(50_000);
  expect((await bob.read(1))[0]?.status).toBe(200);
}, 120_000);

test("four people's slow uploads do not hold all places", async () => {
  const world = await start();
  const { alice, ann, amy, abe, art, bob } = world.users;
  const slow = (key: string) =>
    `POST /api/v1/send HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${key}\r\nContent-Type: application/json\r\nContent-Length: 9000000\r\n\r\n{`;
  for (const user of [alice, ann, amy, abe]) {
    const key = world.keyOf(user);
    for (let i = 0; i < 12; i++) await begin(world, slow(key));
  }
  const refused = () => clients.filter((client) => /^HTTP\/1\.1 (429|503)/.test(client.text())).length;
  await until(async () => (await sharedIn("uploads", "held", world)) + refused() === 48);
  expect(await sharedIn("uploads", "held", world)).toBeWithin(24, 37);
  for (const [user, from] of [
    [art, "art@example.test"],
    [bob, "bob@other.test"],
  ] as const) {
    const attachments = [{ filename: "a.bin", content: Buffer.alloc(100_000).toString("base64") }];
    const letter = { from, to: from, subject: "With a file", text: "x", attachments };
    const { status } = await world.apiWith(world.keyOf(user)).post("/send", letter);
    expect([from, status]).toEqual([from, 202]);
  }
}, 120_000);
