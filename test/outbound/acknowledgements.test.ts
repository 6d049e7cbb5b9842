/**
 * Every answer to the outside waits until the replica has the change (rules: Acknowledgements), on every road that takes mail
 * or changes something, and in the relay. Here, a switch stands for the replica.
 */
import { afterAll, describe, expect, test } from "bun:test";
import { unavailable } from "../../src/base/errors.ts";
import { connectSmtp } from "../harness/clients/smtp-client.ts";
import { letter } from "../harness/mail/mail.ts";
import { authPlain, PASSWORD } from "../harness/servers/submission-rig.ts";
import { watch, world } from "../harness/servers/submission-world.ts";
import { until } from "../harness/until.ts";

const it = await world();
const { api, core, mx, submission } = it;
let isThere = true;
let asked = 0;
core.store.replicateBy(async () => {
  asked++;
  if (!isThere) throw unavailable("The message is not safe on the replica yet; try again");
});

/** Without the replica, and with it again. */
async function without<T>(work: () => Promise<T>): Promise<T> {
  isThere = false;
  try {
    return await work();
  } finally {
    isThere = true;
  }
}

afterAll(() => {
  isThere = true;
});

const inbox = async (subject: string): Promise<unknown[]> =>
  (await api.get<{ threads: unknown[] }>(`/search?q=${encodeURIComponent(`subject:"${subject}"`)}`)).body.threads;

describe("mail that arrives", () => {
  test("is 452 until the replica has it, and taken once when it is repeated", async () => {
    const message = letter({ subject: "arrives twice" });
    const client = await connectSmtp(mx);
    const refused = await without(() => client.deliver({ to: "alice@example.test" }, message));
    expect(refused).toMatchObject({ code: 452, status: "4.3.1" });
    expect(await client.deliver({ to: "alice@example.test" }, message)).toMatchObject({ code: 250 });
    client.destroy();
    expect(await inbox("arrives twice")).toHaveLength(1);
  });

  test("in chunks, too", async () => {
    const message = letter({ subject: "in chunks" }).replaceAll(/\r?\n/g, "\r\n");
    const client = await connectSmtp(mx);
    const chunk = async () => {
      await client.expect(250, "MAIL FROM:<carol@remote.example>");
      await client.expect(250, "RCPT TO:<alice@example.test>");
      client.write(`BDAT ${Buffer.byteLength(message)} LAST\r\n${message}`);
      return client.reply();
    };
    expect(await without(chunk)).toMatchObject({ code: 452 });
    expect(await chunk()).toMatchObject({ code: 250 });
    client.destroy();
    expect(await inbox("in chunks")).toHaveLength(1);
  });
});

test("a submission is 452 until the replica has it, and taken and sent once when it is repeated", async () => {
  const seen = await watch(it);
  const message = letter({ from: "alice@example.test", to: "carol@remote.example", subject: "submitted" });
  const client = await connectSmtp(submission);
  await client.expect(220, "STARTTLS");
  await client.secure();
  await client.expect(250, "EHLO client.example");
  expect(await authPlain(client, "alice@example.test", PASSWORD)).toMatchObject({ code: 235 });
  const submit = () => client.deliver({ from: "alice@example.test", to: "carol@remote.example" }, message);
  expect(await without(submit)).toMatchObject({ code: 452 });
  expect(await submit()).toMatchObject({ code: 250 });
  client.destroy();
  await it.advance(10_000);
  expect(await seen.sent()).toHaveLength(1);
  expect(await seen.relayed()).toHaveLength(1);
});

describe("the API", () => {
  const letterTo = (subject: string) => ({
    from: "alice@example.test",
    to: "carol@remote.example",
    subject,
    text: "hello",
  });

  test("/send is 503 until the replica has it; with its key, it is sent once", async () => {
    const seen = await watch(it);
    const send = () => api.post("/send", letterTo("over the API"), { "Idempotency-Key": "one" });
    const refused = await without(send);
    expect([refused.status, refused.body.code, refused.headers.get("retry-after")]).toEqual([503, "server_error", "5"]);
    // The repeated request waits for the replica, too, though its answer is known.
    expect((await without(send)).status).toBe(503);
    const taken = await send();
    expect([taken.status, taken.headers.get("idempotency-replayed")]).toEqual([202, "true"]);
    await it.advance(10_000);
    expect(await seen.sent()).toHaveLength(1);
    expect(await seen.relayed()).toHaveLength(1);
  });

  test("so is every operation that changes something, over REST and MCP, and no GET", async () => {
    const [thread] = (await api.get<{ threads: { id: string }[] }>("/threads")).body.threads;
    const changes: [string, () => Promise<{ status: number; body: unknown }>][] = [
      ["patch", () => api.patch(`/threads/${thread?.id}`, { read: true })],
      ["reply", () => api.post(`/threads/${thread?.id}/reply`, { text: "yes" })],
      ["draft", () => api.post(`/threads/${thread?.id}/draft`, { text: "later" })],
      ["new draft", () => api.post("/api/ext/v1/drafts", { subject: "later" })],
      ["administration", () => api.post("/api/admin/v1/suppressions", { address: "gone@remote.example" })],
      ["tool", () => callTool("update_thread", { id: thread?.id, read: true })],
    ];
    const answers = await without(async () => {
      const found: [string, boolean][] = [];
      for (const [name, change] of changes) {
        const { status, body } = await change();
        found.push([name, status === 503 || /not safe on the replica/.test(JSON.stringify(body))]);
      }
      return found;
    });
    expect(answers.filter(([, waits]) => !waits)).toEqual([]);
    const before = asked;
    expect((await without(() => api.get("/threads"))).status).toBe(200);
    expect(asked).toBe(before);
  });

  async function callTool(name: string, given: object): Promise<{ status: number; body: unknown }> {
    const request = { jsonrpc: "2.0", id: 1, method: "tools/call", params: { name, arguments: given } };
    const response = await fetch(`${it.http}/api/mcp`, {
      method: "POST",
      headers: {
        authorization: `Bearer ${it.owner.apiKey}`,
        "content-type": "application/json",
        accept: "application/json, text/event-stream",
      },
      body: JSON.stringify(request),
    });
    return { status: response.status, body: await response.text() };
  }
});

test("nothing leaves that the replica has not got", async () => {
  await it.advance(10_000);
  const seen = await watch(it);
  await without(async () => {
    const before = asked;
    await api.post("/send", { from: "alice@example.test", to: "carol@remote.example", subject: "waits", text: "x" });
    it.runtime.advanceTo(it.runtime.now());
    // The request asked, and so has the relay.
    await until(() => asked > before + 1);
    expect(it.remote.messages.filter(({ content }) => content.includes("Subject: waits"))).toEqual([]);
  });
  await it.advance(2_000);
  expect(await seen.relayed()).toHaveLength(1);
});
