/**
 * Nothing is half written: the process is killed while a message is uploaded, a draft changes, many conversations change,
 * a label is renamed everywhere, and when messages that were put off are due (rules: Arrival, Drafts over the API, Further
 * API, Sending later). After each start, each is as before or as after.
 */
import { expect, test } from "bun:test";
import { randomBytes } from "node:crypto";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { type Answer, apiClient, type Client } from "../harness/clients/api.ts";
import { settle } from "../harness/data/settle.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { letter, mailer } from "../harness/mail/mail.ts";
import { run, runJson, serve } from "../harness/servers/process.ts";
import { until } from "../harness/until.ts";

interface File {
  id: string;
}
interface Draft {
  id: string;
  revision: number;
  text: string;
  attachments: File[];
}
interface Thread {
  id: string;
  folder: string;
  unread: boolean;
  labels: string[];
}
interface Message {
  id: string;
  subject: string;
}

/** Something that a kill interrupts. */
interface Change {
  /** Prepares the request of a round. */
  prepare(round: number): Promise<() => Promise<Answer<unknown>>>;
  /** Checks that it is as before the request or as after it. True if it is as after. */
  isDone(): Promise<boolean>;
}

const EXT = "/api/ext/v1";
const OWNER = "owner@example.test";
const ROUNDS = 6;
/** More than two portions of the renaming of a label. */
const CONVERSATIONS = 450;
const AT_ONCE = 100;
/** Messages that are due at one time. */
const DUE = 10;

async function setUp() {
  const place = { data: temporaryFolder() };
  const { apiKey } = await runJson<{ apiKey: string }>(
    place,
    ...["setup", "--domain", "example.test", "--email", OWNER, "--name", "Owner"],
  );
  await run(place, ["domain", "verify", "example.test", "--skip-dns"]);
  settle(place, {
    "api.ipRequestsPerMinute": "1000000",
    "api.keyRequestsPerMinute": "1000000",
    "sending.mailboxPerHour": "1000000",
    "sending.workspacePerHour": "1000000",
  });
  let server = await serve(place);
  let api = apiClient(server.http, apiKey);
  return {
    place,
    api: () => api,
    server: () => server,
    /** Sends a form with files. */
    async post(method: string, path: string, request: object, files: Buffer[], headers: Record<string, string> = {}) {
      const body = new FormData();
      body.set("request", JSON.stringify(request));
      for (const [n, file] of files.entries()) body.append("file", new Blob([new Uint8Array(file)]), `${n}.bin`);
      const authorization = `Bearer ${apiKey}`;
      const response = await fetch(server.http + path, { method, body, headers: { authorization, ...headers } });
      return { status: response.status, headers: response.headers, body: await response.json() };
    },
    async killAndStart() {
      await server.kill("SIGKILL");
      server = await serve(place);
      api = apiClient(server.http, apiKey);
      expect(readdirSync(join(place.data, "spool"))).toEqual([]);
    },
  };
}

const listThreads = async (api: Client): Promise<Thread[]> => {
  const threads: Thread[] = [];
  for (let cursor: string | null = ""; cursor !== null; ) {
    const { body }: Answer<{ threads: Thread[]; nextCursor: string | null }> = await api.get(
      `/threads?folder=all&limit=100${cursor && `&cursor=${cursor}`}`,
    );
    threads.push(...body.threads);
    cursor = body.nextCursor;
  }
  return threads;
};
const messagesIn = async (api: Client, folder: string, subject: RegExp): Promise<Message[]> => {
  const { body } = await api.get<{ messages: Message[] }>(`/messages?folder=${folder}&limit=100`);
  return body.messages.filter((message) => subject.test(message.subject));
};
/** Contents of files, in hex. */
const contentsOf = (api: Client, files: readonly File[]): Promise<string[]> =>
  Promise.all(files.map(async ({ id }) => Buffer.from((await api.bytes(`/attachments/${id}`)).body).toString("hex")));
const hexOf = (files: readonly Buffer[]): string[] => files.map((file) => file.toString("hex"));

/** Checks the stored rows and files as an operator does. */
async function expectSound(place: { data: string }): Promise<void> {
  const folder = temporaryFolder();
  await runJson(place, "backup", folder);
  expect(await runJson(place, "backup", "verify", folder)).toMatchObject({ ok: true, problems: [] });
  const checks = JSON.parse((await run(place, ["doctor", "--json"])).stdout) as { id: string; state: string }[];
  const ofStore = checks.filter(({ id }) => ["schema", "search", "queue"].includes(id));
  expect(ofStore.map(({ id, state }) => [id, state])).toEqual(["schema", "search", "queue"].map((id) => [id, "ok"]));
}

/** A message with a file, sent once. */
function upload({ post, api }: Awaited<ReturnType<typeof setUp>>): Change {
  let subject = "";
  let send = (): Promise<Answer<unknown>> => Promise.reject();
  let file = "";
  return {
    async prepare(round) {
      const bytes = randomBytes(6_000_000);
      subject = `Upload ${round}`;
      file = bytes.toString("hex");
      const request = { from: OWNER, to: OWNER, subject, text: "x" };
      send = () => post("POST", "/api/v1/send", request, [bytes], { "idempotency-key": subject });
      return send;
    },
    async isDone() {
      const pattern = new RegExp(`^${subject}$`);
      const [sent] = await messagesIn(api(), "sent", pattern);
      const again = await send();
      expect([again.status, again.headers.get("idempotency-replayed")]).toEqual([202, sent ? "true" : null]);
      await until(async () => (await messagesIn(api(), "inbox", pattern)).length > 0);
      for (const folder of ["sent", "inbox"]) {
        const messages = await messagesIn(api(), folder, pattern);
        expect(messages).toHaveLength(1);
        const { body } = await api().get<{ message: { attachments: File[] } }>(`/messages/${messages[0]?.id}`);
        expect((await contentsOf(api(), body.message.attachments)).join() === file).toBe(true);
      }
      return sent !== undefined;
    },
  };
}

/** Text and files of a draft. */
async function draft({ post, api }: Awaited<ReturnType<typeof setUp>>): Promise<Change> {
  const { id } = (await api().post<Draft>(`${EXT}/drafts`, { subject: "Draft", text: "0" })).body;
  const read = async () => (await api().get<Draft>(`${EXT}/drafts/${id}`)).body;
  let before: { text: string; files: Buffer[] } = { text: "0", files: [] };
  let after = before;
  return {
    async prepare(round) {
      const { revision } = await read();
      after = { text: String(round), files: [randomBytes(3_000_000), randomBytes(1_000)] };
      const request = { revision, text: after.text, attachments: [] };
      return () => post("PATCH", `${EXT}/drafts/${id}`, request, after.files);
    },
    async isDone() {
      const { text, attachments } = await read();
      const isDone = text.trim() === after.text;
      const expected = isDone ? after : before;
      expect(text.trim()).toBe(expected.text);
      expect((await contentsOf(api(), attachments)).join() === hexOf(expected.files).join()).toBe(true);
      before = expected;
      return isDone;
    },
  };
}

/** A hundred conversations that are moved and marked. */
function bulk({ api }: Awaited<ReturnType<typeof setUp>>, ids: readonly string[]): Change {
  const states = { inbox: "inbox true", archive: "archive false" };
  type Place = keyof typeof states;
  let folder = "inbox" as Place;
  let before = folder;
  return {
    async prepare() {
      before = folder;
      folder = folder === "inbox" ? "archive" : "inbox";
      const request = { ids, folder, unread: folder === "inbox" };
      return () => api().patch(`${EXT}/threads`, request);
    },
    async isDone() {
      const threads = (await listThreads(api())).filter(({ id }) => ids.includes(id));
      const found = new Set(threads.map((thread) => `${thread.folder} ${thread.unread}`));
      expect([threads.length, found.size]).toEqual([ids.length, 1]);
      const isDone = found.has(states[folder]);
      expect([...found]).toEqual([states[isDone ? folder : before]]);
      if (!isDone) folder = before;
      return isDone;
    },
  };
}

/** A label of all conversations: renamed in portions, and the same request does the rest. */
function label({ api }: Awaited<ReturnType<typeof setUp>>, ids: readonly string[]): Change {
  let name = "Label 0";
  let before = name;
  let rename = (): Promise<Answer<unknown>> => Promise.reject();
  const counts = async () =>
    (await api().get<{ labels: { name: string; threads: number }[] }>(`${EXT}/labels`)).body.labels;
  return {
    async prepare(round) {
      before = name;
      name = `Label ${round}`;
      rename = () => api().patch(`${EXT}/labels/${encodeURIComponent(before)}`, { name });
      return rename;
    },
    async isDone() {
      const threads = (await listThreads(api())).filter(({ id }) => ids.includes(id));
      const withLabel = (label: string) => threads.filter(({ labels }) => labels.join() === label).length;
      const expected = [before, name].map((label) => ({ name: label, threads: withLabel(label) }));
      expect(withLabel(before) + withLabel(name)).toBe(ids.length);
      expect(await counts()).toEqual(expected.filter(({ threads }) => threads > 0));
      const isDone = withLabel(before) === 0;
      expect(await rename()).toMatchObject(isDone ? { status: 404 } : { body: { threads: withLabel(before) } });
      expect(await counts()).toEqual([{ name, threads: ids.length }]);
      return isDone;
    },
  };
}

test("kill -9 during uploads and changes leaves each as before or as after", async () => {
  const world = await setUp();
  const { api, server } = world;
  const sender = mailer(server().mx, { connections: 8, starttls: false });
  await Promise.all(
    Array.from({ length: CONVERSATIONS }, (_, n) =>
      sender.send({ from: "carol@remote.example", to: OWNER }, letter({ to: OWNER, subject: `News ${n}` })),
    ),
  );
  sender.close();
  const ids = (await listThreads(api())).map(({ id }) => id);
  expect(ids).toHaveLength(CONVERSATIONS);
  for (let n = 0; n < ids.length; n += AT_ONCE) {
    await api().patch(`${EXT}/threads`, { ids: ids.slice(n, n + AT_ONCE), labels: ["Label 0"] });
  }
  const changes = [upload(world), await draft(world), bulk(world, ids.slice(0, AT_ONCE)), label(world, ids)];

  /** Times that changes take, in ms, measured in the first round. In the other rounds the kill falls into that time. */
  const took: number[] = [];
  const done = [0, 0, 0, 0];
  for (let round = 0; round <= ROUNDS; round++) {
    // The first job of a server starts a parser, which takes longer than a change.
    expect((await api().post(`${EXT}/drafts`, { subject: "Starts a parser", text: "x" })).status).toBe(201);
    const requests: (() => Promise<Answer<unknown>>)[] = [];
    for (const change of changes) requests.push(await change.prepare(round + 1));
    if (round === 0) {
      for (const [n, request] of requests.entries()) {
        const begun = performance.now();
        expect((await request()).status).toBeLessThan(300);
        took[n] = performance.now() - begun;
      }
    } else {
      const killed = Math.max(...took);
      const ended = requests.map(async (request, n) => {
        await Bun.sleep(killed - Math.random() * (took[n] as number));
        return request();
      });
      const settled = Promise.allSettled(ended);
      await Bun.sleep(killed);
      await world.killAndStart();
      for (const end of await settled) if (end.status === "fulfilled") expect(end.value.status).toBeLessThan(300);
    }
    for (const [n, change] of changes.entries()) if (await change.isDone()) done[n] = (done[n] as number) + 1;
  }
  // The first round is not interrupted; of the others some are, and some are not.
  const sum = done.reduce((total, n) => total + n, 0);
  expect([sum > done.length, sum < done.length * (ROUNDS + 1)]).toEqual([true, true]);
  await expectSound(world.place);
}, 300_000);

test("kill -9 when messages are due sends each once", async () => {
  const { place, api, killAndStart } = await setUp();
  for (let round = 1; round <= 3; round++) {
    const due = Date.now() + 1_500;
    const subject = `Due ${round}`;
    const scheduled = await Promise.all(
      Array.from({ length: DUE }, (_, n) =>
        api().post<{ scheduled: boolean }>("/send", {
          ...{ from: OWNER, to: OWNER, subject: `${subject} ${n}`, text: "x" },
          sendAt: new Date(due).toISOString(),
        }),
      ),
    );
    expect(scheduled.map(({ status, body }) => [status, body.scheduled])).toEqual(scheduled.map(() => [202, true]));
    const pattern = new RegExp(`^${subject} `);
    expect(await messagesIn(api(), "sent", pattern)).toEqual([]);
    await Bun.sleep(due - Date.now() + Math.random() * 150);
    await killAndStart();
    await until(async () => (await messagesIn(api(), "inbox", pattern)).length >= DUE);
    await until(async () => (await messagesIn(api(), "drafts", pattern)).length === 0);
    const expected = Array.from({ length: DUE }, (_, n) => `${subject} ${n}`);
    for (const folder of ["sent", "inbox"]) {
      const found = await messagesIn(api(), folder, pattern);
      expect(found.map((message) => message.subject).sort()).toEqual(expected);
    }
  }
  await expectSound(place);
}, 120_000);
