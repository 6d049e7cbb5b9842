/** Large bodies: uploads to a draft are checked before they are read and go to the disk, and the total under way is limited. */
import { beforeAll, describe, expect, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { join } from "node:path";
import { settle } from "../harness/data/settle.ts";
import { atEndOfFile } from "../harness/end.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { run, runJson, type Served, serve } from "../harness/servers/process.ts";
import { diskNote, MB, mountDisk } from "../harness/small-disk.ts";
import { until } from "../harness/until.ts";

const OWNER = "owner@example.test";
const LARGE = 19_000_000;

const sockets: Socket[] = [];
atEndOfFile(() => {
  for (const socket of sockets.splice(0)) socket.destroy();
});

/** Starts a server of its own, where the owner is signed in. */
async function start(data: string) {
  const setUp = ["setup", "--domain", "example.test", "--email", OWNER, "--name", "Owner"];
  const { password, apiKey } = await runJson<{ password: string; apiKey: string }>({ data }, ...setUp);
  await run({ data }, ["domain", "verify", "example.test", "--skip-dns"]);
  settle({ data }, { "api.ipRequestsPerMinute": "1000000", "api.keyRequestsPerMinute": "1000000" });
  const server = await serve({ data });
  return { ...(await signIn(server, password)), data, server, apiKey, password };
}

async function signIn({ http }: Served, password: string) {
  const signedIn = await fetch(`${http}/app/sign-in`, {
    method: "POST",
    headers: { origin: http, "content-type": "application/json" },
    body: JSON.stringify({ email: OWNER, password }),
  });
  const cookie = (signedIn.headers.get("set-cookie") ?? "").split(";")[0] ?? "";
  const headers = { origin: http, cookie };
  const begun = await fetch(`${http}/app/drafts`, {
    method: "POST",
    headers: { ...headers, "content-type": "application/json" },
    body: JSON.stringify({ from: OWNER, to: "" }),
  });
  const { draftId } = (await begun.json()) as { draftId: string };
  return { headers, draftId, upload: `/app/drafts/${draftId}/attachments?name=a.bin` };
}

/** Sends a POST of `size` bytes, of which it writes `sent`. */
function post({ http }: Served, path: string, headers: Record<string, string>, size: number, sent: number) {
  const { hostname, port, host } = new URL(http);
  const socket = connect(Number(port), hostname);
  sockets.push(socket);
  const one = { socket, text: "", closed: false };
  socket.on("data", (chunk) => {
    one.text += chunk.toString("latin1");
  });
  socket.on("close", () => {
    one.closed = true;
  });
  socket.on("error", () => {});
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  socket.write(`POST ${path} HTTP/1.1\r\nhost: ${host}\r\ncontent-length: ${size}\r\n${lines.join("")}\r\n`);
  socket.write(Buffer.alloc(sent, 0x20));
  return one;
}

const statusOf = async (one: { text: string; closed: boolean }): Promise<number> => {
  await until(() => one.text.includes("\r\n\r\n") || one.closed);
  return Number(one.text.slice(9, 12));
};

const codeOf = ({ text }: { text: string }): string | undefined => /"code":"(\w+)"/.exec(text)?.[1];

/** Reads the peak memory of the process, in bytes. */
const peakOf = ({ pid }: Served): number =>
  Number(/^VmHWM:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, "latin1"))?.[1]) * 1024;

const spooled = (data: string): string[] => readdirSync(join(data, "spool"));

let started: Awaited<ReturnType<typeof start>>;
beforeAll(async () => {
  started = await start(temporaryFolder());
}, 60_000);

describe("an upload", () => {
  test("to a missing draft, or too large, is refused before it is read, 40 at once", async () => {
    const { server, headers, draftId } = started;
    const before = peakOf(server);
    for (const [path, size, refusal] of [
      ["/app/drafts/thr_nowhere/attachments?name=a", LARGE, [404, "not_found"]],
      [`/app/drafts/${draftId}/attachments?name=a`, 30_000_000, [413, "payload_too_large"]],
    ] as const) {
      const all = Array.from({ length: 40 }, () => post(server, path, headers, size, 0));
      for (const one of all) expect([await statusOf(one), codeOf(one)]).toEqual([...refusal]);
      const written = Array.from({ length: 40 }, () => post(server, path, headers, size, LARGE - 1));
      for (const one of written) expect(await statusOf(one)).toBe(refusal[0]);
    }
    expect(peakOf(server) - before).toBeLessThan(200_000_000);
    for (const one of sockets.splice(0)) one.destroy();
  }, 60_000);

  test("goes to disk, belongs to the draft when it is whole, and leaves nothing in the spool", async () => {
    const { server, headers, draftId, upload, data } = started;
    const before = peakOf(server);
    const bytes = crypto.getRandomValues(Buffer.alloc(60_000));
    for (let i = 0; i < 5; i++) {
      const one = post(server, upload, headers, 3_000_000, 0);
      for (let n = 0; n < 49; n++) one.socket.write(bytes);
      await until(() => spooled(data).length === 1);
      one.socket.write(bytes);
      expect(await statusOf(one)).toBe(201);
      expect(spooled(data)).toEqual([]);
      one.socket.destroy();
    }
    const opened = (await (await fetch(`${server.http}/app/drafts/${draftId}`, { headers })).json()) as {
      attachments: { id: string; size: number }[];
    };
    expect(opened.attachments.map(({ size }) => size)).toEqual([3_000_000, 3_000_000, 3_000_000, 3_000_000, 3_000_000]);
    const file = await fetch(`${server.http}/app/attachments/${opened.attachments[4]?.id}`, { headers });
    expect(Buffer.from(await file.arrayBuffer()).equals(Buffer.concat(new Array(50).fill(bytes)))).toBe(true);
    for (const { id } of opened.attachments) {
      await fetch(`${server.http}/app/drafts/${draftId}/attachments/${id}`, { method: "DELETE", headers });
    }
    expect(peakOf(server) - before).toBeLessThan(100_000_000);
  }, 60_000);

  test("in chunks is refused when it becomes too large, and is not stored", async () => {
    const { server, headers, upload, data } = started;
    const body = new ReadableStream({
      pull(controller) {
        controller.enqueue(new Uint8Array(500_000));
      },
    });
    const answer = await fetch(server.http + upload, { method: "POST", headers, body }).catch(() => undefined);
    expect(answer?.status ?? 413).toBe(413);
    await until(() => spooled(data).length === 0);
  }, 60_000);

  test("that breaks off is not stored, and a thirteenth one of a person at the same time is refused", async () => {
    const { server, headers, upload, data } = started;
    const slow = Array.from({ length: 12 }, () => post(server, upload, headers, LARGE, 100_000));
    await until(() => spooled(data).length === 12);
    const refused = post(server, upload, headers, 100, 100);
    expect([await statusOf(refused), codeOf(refused), refused.text]).toEqual([
      429,
      "rate_limited",
      expect.stringMatching(/\r\nretry-after: 5\r\n/i),
    ]);
    for (const { socket } of slow) socket.destroy();
    await until(() => spooled(data).length === 0);
    const one = post(server, upload, headers, 100, 100);
    expect(await statusOf(one)).toBe(201);
  }, 60_000);

  test("that a crash cut off is deleted at the next start", async () => {
    const { server, headers, upload, data } = started;
    post(server, upload, headers, LARGE, 1_000_000);
    await until(() => spooled(data).length === 1);
    await server.kill("SIGKILL");
    expect(spooled(data)).toHaveLength(1);
    started = { ...started, server: await serve({ data }) };
    expect(spooled(data)).toEqual([]);
    const one = post(started.server, upload, { ...headers, origin: started.server.http }, 100, 100);
    expect(await statusOf(one)).toBe(201);
  }, 60_000);
});

describe("a body in memory", () => {
  test("is not read without a key or a session", async () => {
    const { server } = started;
    const before = peakOf(server);
    for (const [path, headers, status] of [
      ["/api/v1/send", { "content-type": "application/json" }, 401],
      ["/api/mcp", { "content-type": "application/json" }, 401],
      ["/app/drafts", { "content-type": "application/json", "sec-fetch-site": "same-origin" }, 401],
      ["/app/drafts/thr_1/attachments", { "sec-fetch-site": "same-origin" }, 401],
      ["/app/sign-in", { "content-type": "application/json", "sec-fetch-site": "same-origin" }, 413],
    ] as const) {
      const all = Array.from({ length: 20 }, () => post(server, path, headers, 8_000_000, 7_999_999));
      for (const one of all) expect([path, await statusOf(one)]).toEqual([path, status]);
      for (const one of sockets.splice(0)) one.destroy();
    }
    expect(peakOf(server) - before).toBeLessThan(100_000_000);
  }, 60_000);

  test.each([
    // Where files may come along, what is kept in memory counts as it comes; elsewhere the declared length does.
    ["REST", "/api/v1/send", 7_999_999, (key: string) => ({ authorization: `Bearer ${key}` })],
    ["MCP", "/api/mcp", 1_000, (key: string) => ({ authorization: `Bearer ${key}` })],
    ["the app", "/app/drafts", 1_000, (_: string, session: Record<string, string>) => session],
  ])(
    "is one of so many under way of a person, over %s",
    async (_, path, sent, credentials) => {
      const { server, apiKey } = started;
      const session = { ...started.headers, origin: server.http };
      const headers = { "content-type": "application/json", ...credentials(apiKey, session) };
      const size = 8_000_000;
      const posts = Array.from({ length: 6 }, () => post(server, path, headers, size, sent));
      const answered = () => posts.filter(({ text }) => text !== "");
      await until(() => answered().length === 3);
      for (const one of answered()) expect([await statusOf(one), codeOf(one)]).toEqual([429, "rate_limited"]);
      // Small bodies are not counted.
      expect(await statusOf(post(server, path, headers, 2, 2))).toBe(400);
      expect(answered().length).toBe(3);
      for (const { socket } of posts) socket.destroy();
      await until(async () => (await statusOf(post(server, path, headers, size, size))) === 400);
    },
    60_000,
  );
});

test("a file of 18 MB is sent without taking many times its size of memory", async () => {
  const { server, apiKey } = await start(temporaryFolder());
  const before = peakOf(server);
  const form = new FormData();
  form.set("request", JSON.stringify({ from: OWNER, to: "reader@remote.invalid", subject: "Large", text: "x" }));
  form.append("file", new Blob([new Uint8Array(18_000_000)]), "a.bin");
  const headers = { authorization: `Bearer ${apiKey}` };
  const { status } = await fetch(`${server.http}/api/v1/send`, { method: "POST", headers, body: form });
  expect(status).toBe(202);
  expect(peakOf(server) - before).toBeLessThan(140_000_000);
}, 60_000);

test.skipIf(diskNote !== "")(
  `a full disk refuses an upload and keeps nothing of it${diskNote}`,
  async () => {
    const disk = mountDisk(60 * MB);
    const { server, headers, upload, data } = await start(disk.path);
    disk.fill(5 * MB);
    const one = post(server, upload, headers, 12_000_000, 12_000_000);
    expect([await statusOf(one), codeOf(one)]).toEqual([503, "server_error"]);
    expect(one.text).toMatch(/\r\nretry-after: \d+\r\n/i);
    expect(spooled(data)).toEqual([]);
    disk.empty();
    expect(await statusOf(post(server, upload, headers, 12_000_000, 12_000_000))).toBe(201);
  },
  60_000,
);
