/** kill -9 while a person approves held messages: each is sent once, or waits on as it was. */
import { expect, test } from "bun:test";
import { settle } from "../harness/data/settle.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { run, runJson, serve } from "../harness/servers/process.ts";

const OWNER = "owner@example.test";
const COUNT = 40;

test("kill -9 between approval and sending neither loses nor doubles a message", async () => {
  const place = { data: temporaryFolder() };
  const setup = [
    "setup",
    "--domain",
    "example.test",
    "--email",
    OWNER,
    "--name",
    "Owner",
    "--password-stdin",
    "--json",
  ];
  expect((await run(place, setup, "correct horse")).exitCode).toBe(0);
  await runJson(place, "domain", "verify", "example.test", "--skip-dns");
  const limits = [
    "api.ipRequestsPerMinute",
    "api.keyRequestsPerMinute",
    "sending.mailboxPerHour",
    "sending.workspacePerHour",
  ];
  settle(place, Object.fromEntries(limits.map((name) => [name, "1000000"])));
  const keyFor = async (scopes: string, ...more: string[]) =>
    (
      await runJson<{ key: string }>(
        place,
        "key",
        "create",
        "--user",
        OWNER,
        "--name",
        "K",
        "--scopes",
        scopes,
        ...more,
      )
    ).key;
  const agent = await keyFor("send", "--policy", '{"send":"hold"}');
  const person = await keyFor("read,approve");

  const calls = ({ http }: { http: string }) => {
    const ask = (key: string, path: string, body?: object) =>
      fetch(`${http}${path}`, {
        method: body ? "POST" : "GET",
        headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
        ...(body && { body: JSON.stringify(body) }),
      });
    const listed = async <T>(path: string, name: string) =>
      ((await (await ask(person, path)).json()) as Record<string, T[]>)[name] ?? [];
    return {
      ask,
      approve: (id: string) => ask(person, `/api/admin/v1/holds/${id}/approve`, {}),
      waiting: async () => (await listed<{ id: string }>("/api/admin/v1/holds?limit=100", "holds")).map(({ id }) => id),
      subjects: async (folder: string) =>
        (await listed<{ subject: string }>(`/api/v1/messages?folder=${folder}&limit=100`, "messages"))
          .map(({ subject }) => subject)
          // The server tells the owner by mail that messages wait.
          .filter((subject) => subject.startsWith("Held ")),
    };
  };

  const first = await serve(place);
  const before = calls(first);
  const held = new Map<string, string>();
  for (let i = 0; i < COUNT; i++) {
    const subject = `Held ${i}`;
    const answer = await before.ask(agent, "/api/v1/send", { from: OWNER, to: OWNER, subject, text: "x" });
    const { emailId } = (await answer.json()) as { emailId: string };
    expect(answer.status).toBe(202);
    held.set(emailId, subject);
  }
  const approved = new Set<string>();
  const { promise: some, resolve } = Promise.withResolvers<void>();
  const all = [...held.keys()].map(async (id) => {
    const answer = await before.approve(id).catch(() => undefined);
    if (answer?.status !== 200) return;
    approved.add(id);
    if (approved.size >= COUNT / 4) resolve();
  });
  await some;
  await first.kill("SIGKILL");
  await Promise.all(all);

  const second = await serve(place);
  const after = calls(second);
  const waiting = await after.waiting();
  for (const id of approved) expect(waiting).not.toContain(id);
  const sent = [...held].filter(([id]) => !waiting.includes(id)).map(([, subject]) => subject);
  expect((await after.subjects("sent")).sort()).toEqual(sent.sort());
  for (const id of waiting) expect((await after.approve(id)).status).toBe(200);
  const everything = [...held.values()].sort();
  let inbox = await after.subjects("inbox");
  while (inbox.length < COUNT) {
    await Bun.sleep(20);
    inbox = await after.subjects("inbox");
  }
  expect(inbox.sort()).toEqual(everything);
  expect((await after.subjects("sent")).sort()).toEqual(everything);
  expect(await after.waiting()).toEqual([]);
  await second.kill("SIGKILL");
}, 120_000);
