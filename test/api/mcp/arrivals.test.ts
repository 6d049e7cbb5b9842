/** Waiting for mail: list_messages with `waitSeconds` and `after`, on a clock that the test moves. */
import { expect, test } from "bun:test";
import { createRequestShares } from "../../../src/api/pools.ts";
import { createLongPolling } from "../../../src/api/waiting.ts";
import { listMessages } from "../../../src/operations/mail/message-operations.ts";
import type { MailContext } from "../../../src/operations/operation.ts";
import { connectMcp, type ToolClient, type ToolResult } from "../../harness/clients/mcp-client.ts";
import { fakeRuntime } from "../../harness/runtime.ts";
import { startApi, type TestApi } from "../../harness/servers/api-setup.ts";
import { testCore } from "../../harness/servers/core.ts";
import { until } from "../../harness/until.ts";

let counter = 0;
const mail = (subject: string, date = "Mon, 05 Jan 2026 08:00:00 +0000", from = "Carol <carol@remote.example>") =>
  [
    `From: ${from}`,
    "To: olga@example.test",
    `Subject: ${subject}`,
    `Message-ID: <wait-${++counter}@remote.example>`,
    `Date: ${date}`,
    "",
    "Hello",
    "",
  ].join("\n");

const subjects = ({ text }: ToolResult): string[] =>
  [...text.matchAll(/^ {2}\S.*> to \S+: (.*)$/gm)].map(([, subject = ""]) => subject);

async function start(): Promise<{ api: TestApi; mcp: ToolClient }> {
  const api = await startApi();
  return { api, mcp: await connectMcp(api.origin, api.key) };
}

const SECOND = 1_000;

/** Resolves when this many calls wait. Theirs are the only timers far ahead. */
async function waiting(api: TestApi, calls = 1): Promise<void> {
  const { timers, now } = api.runtime;
  const held = () => timers().filter((at) => at - now() > 10 * SECOND).length;
  await until(() => held() === calls);
}

test("arriving mail ends the wait of a call", async () => {
  const { api, mcp } = await start();
  await api.file(mail("Before"));
  const waits = mcp.call("list_messages", { waitSeconds: 30 });
  await waiting(api);
  await api.file(mail("Awaited"));
  expect(subjects(await waits)).toEqual(["Awaited"]);
});

test("a call without new mail ends after its time, with the nextAfter to continue from", async () => {
  const { api, mcp } = await start();
  await api.file(mail("Before"));
  const waits = mcp.call("list_messages", { waitSeconds: 30 });
  await waiting(api);
  let isDone = false;
  void waits.then(() => {
    isDone = true;
  });
  api.runtime.advanceTo(api.runtime.now() + 30 * SECOND - 1);
  await mcp.call("list_mailboxes");
  expect(isDone).toBe(false);
  api.runtime.advanceTo(api.runtime.now() + 1);
  const nothing = await waits;
  expect([nothing.isError, subjects(nothing), nothing.structured.count]).toEqual([false, [], 0]);
  expect(nothing.text).toContain("No new mail");
  expect(nothing.text).toContain(nothing.structured.nextAfter);

  await api.file(mail("Between"));
  const next = await mcp.call("list_messages", { waitSeconds: 30, after: nothing.structured.nextAfter });
  expect(subjects(next)).toEqual(["Between"]);
});

test("with each nextAfter in turn, a client gets every message once, whatever its Date", async () => {
  const { api, mcp } = await start();
  await api.file(mail("Old"));
  let { nextAfter: after } = (await mcp.call("list_messages")).structured;
  for (const n of [1, 2, 3, 4, 5]) await api.file(mail(`New ${n}`, `Mon, 0${6 - n} Jan 2020 08:00:00 +0000`));
  const seen: string[] = [];
  for (;;) {
    const page = await mcp.call("list_messages", { after, limit: 2 });
    if (page.structured.count === 0) break;
    seen.push(...subjects(page));
    after = page.structured.nextAfter;
  }
  expect(seen.sort()).toEqual(["New 1", "New 2", "New 3", "New 4", "New 5"]);
});

test("the nextAfter of a cut result follows the last message shown", async () => {
  const { api, mcp } = await start();
  let { nextAfter: after } = (await mcp.call("list_messages")).structured;
  const sent = Array.from({ length: 30 }, (_, n) => `${"Long subject ".repeat(15)}${n}`);
  for (const subject of sent.slice(0, 29)) await api.file(mail(subject));
  const seen: string[] = [];
  for (let page = 0; ; page++) {
    const result = await mcp.call("list_messages", { after, limit: 100, maxChars: 4_000, waitSeconds: 0 });
    if (result.structured.count === 0) break;
    expect(result.structured.nextOffset).toBeUndefined();
    if (page === 0) await api.file(mail(sent[29] as string));
    seen.push(...subjects(result).reverse());
    after = result.structured.nextAfter;
  }
  expect(seen).toEqual(sent);

  const cut = await mcp.call("list_messages", { limit: 100, maxChars: 4_000 });
  const { nextOffset: offset } = cut.structured;
  expect(cut.text).toContain(`the same arguments and offset ${offset}.`);
  const rest = await mcp.call("list_messages", { limit: 100, maxChars: 4_000, offset });
  expect(rest.structured).not.toHaveProperty("nextAfter");
  const both = await mcp.call("list_messages", { after, offset });
  expect([both.isError, both.structured.code]).toEqual([true, "bad_request"]);
});

test("mail outside the filters or the rights of a call does not end its wait", async () => {
  const { api, mcp } = await start();
  const max = await connectMcp(api.origin, api.keyOf("max"));
  const { nextAfter } = (await mcp.call("list_messages")).structured;
  const ofMax = mcp.call("list_messages", { waitSeconds: 50, mailbox: "max@example.test" });
  await waiting(api, 1);
  const ofOutbound = mcp.call("list_messages", { waitSeconds: 50, direction: "outbound" });
  await waiting(api, 2);
  await api.file(mail("For Olga"));
  api.runtime.advanceTo(api.runtime.now() + SECOND);
  await api.file(mail("For Max"), "mbx_max");
  expect(subjects(await ofMax)).toEqual(["For Max"]);
  // Max has a share of Olga's mailbox, so he reads its mail too.
  expect(subjects(await max.call("list_messages", { after: nextAfter }))).toEqual(["For Max", "For Olga"]);
  api.runtime.advanceTo(api.runtime.now() + 50 * SECOND);
  expect(subjects(await ofOutbound)).toEqual([]);
});

test("a call waits for mail from one sender, or in one conversation", async () => {
  const { api, mcp } = await start();
  await api.file(mail("Plan", undefined, "Ben <ben@remote.example>"));
  const [threadId] = /thr_\w+/.exec((await mcp.call("list_messages")).text) ?? [];
  const ofBen = mcp.call("list_messages", { waitSeconds: 50, from: "Ben@remote.example" });
  const ofThread = mcp.call("list_messages", { waitSeconds: 50, threadId });
  await waiting(api, 2);
  await api.file(mail("Other"));
  api.runtime.advanceTo(api.runtime.now() + SECOND);
  await api.file(mail("Re: Plan", undefined, "Ben <ben@remote.example>"));
  expect(subjects(await ofBen)).toEqual(["Re: Plan"]);
  expect(subjects(await ofThread)).toEqual(["Re: Plan"]);
});

test("a key that is revoked during the wait of its call gets no mail", async () => {
  const { api } = await start();
  const max = await connectMcp(api.origin, api.keyOf("max"));
  const waits = max.call("list_messages", { waitSeconds: 30 });
  await waiting(api);
  api.store.db.$client.run("UPDATE api_keys SET revoked_at = 1 WHERE user_id = 'max'");
  await api.file(mail("Not for Max any more"));
  const refused = await waits;
  expect([refused.isError, refused.structured.code]).toEqual([true, "unauthorized"]);
  expect(refused.text).not.toContain("Not for Max");
});

test("at most four calls of a key wait, and the next is refused", async () => {
  const { api, mcp } = await start();
  const held = Array.from({ length: 4 }, () => mcp.call("list_messages", { waitSeconds: 50 }));
  await waiting(api, 4);
  const refused = await mcp.call("list_messages", { waitSeconds: 50 });
  expect([refused.isError, refused.structured.code, refused.structured.retryAfter]).toEqual([true, "rate_limited", 50]);
  const max = await connectMcp(api.origin, api.keyOf("max"));
  const other = max.call("list_messages", { waitSeconds: 50 });
  await waiting(api, 5);
  await api.file(mail("For all"));
  for (const result of await Promise.all([...held, other])) expect(subjects(result)).toEqual(["For all"]);
});

test("a client that disconnects no longer counts as waiting", async () => {
  const { api, mcp } = await start();
  for (let i = 0; i < 4; i++) {
    const leaver = await connectMcp(api.origin, api.key);
    const gone = leaver.call("list_messages", { waitSeconds: 50 }).catch((error: unknown) => error);
    await waiting(api);
    await leaver.close();
    await gone;
    await waiting(api, 0);
  }
  const waits = mcp.call("list_messages", { waitSeconds: 50 });
  await waiting(api);
  await api.file(mail("Still served"));
  expect(subjects(await waits)).toEqual(["Still served"]);
});

const personOf = (name: string) => ({ workspaceId: name, userId: name });

test("a client that disconnected before the wait does not wait", async () => {
  const pools = createRequestShares({ mostConnections: 1_000, runtime: fakeRuntime() });
  const { wait } = createLongPolling(testCore(), { latest: () => "", places: pools.waits });
  const signal = AbortSignal.abort();
  expect(await wait(() => undefined, { ms: SECOND, who: personOf("a"), signal })).toBeUndefined();
});

test("waiting calls take at most a quarter of the connections", async () => {
  const pools = createRequestShares({ mostConnections: 8, runtime: fakeRuntime() });
  const { wait, stop } = createLongPolling(testCore(), { latest: () => "", places: pools.waits });
  const { signal } = new AbortController();
  const begin = (name: string) => wait(() => undefined, { ms: SECOND, who: personOf(name), signal });
  const waits = [begin("a"), begin("b")];
  await expect(begin("c")).rejects.toMatchObject({ code: "rate_limited" });
  stop();
  expect(await Promise.all(waits)).toEqual([undefined, undefined]);
});

test("stopping the server ends waiting calls", async () => {
  const { api, mcp } = await start();
  const waits = mcp.call("list_messages", { waitSeconds: 50 });
  await waiting(api);
  await api.stopApi();
  expect(subjects(await waits)).toEqual([]);
});

test("a waiting call looks at most a few times, whatever the number of commits", async () => {
  let looks = 0;
  const run = (context: MailContext, input: never) =>
    listMessages.run(
      {
        ...context,
        wait: (seconds, look) =>
          context.wait(seconds, (present) => {
            looks++;
            return look(present);
          }),
      },
      input,
    );
  const api = await startApi({ runs: { listMessages: run } });
  const mcp = await connectMcp(api.origin, api.key);
  const waits = mcp.call("list_messages", { waitSeconds: 50, mailbox: "max@example.test" });
  await waiting(api);
  looks = 0;
  for (let i = 0; i < 40; i++) await api.file(mail(`Noise ${i}`));
  expect(looks).toBeLessThanOrEqual(1);
  await api.file(mail("For Max"), "mbx_max");
  api.runtime.advanceTo(api.runtime.now() + SECOND);
  expect(subjects(await waits)).toEqual(["For Max"]);
});
