/** A message that can still be undone is sent although the process is killed meanwhile, once; one that was undone is not. */
import { expect, test } from "bun:test";
import { page as openPage } from "../harness/clients/browser-session.ts";
import { settle } from "../harness/data/settle.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { run, runJson, serve } from "../harness/servers/process.ts";

/** Long enough to undo it and to kill the server before, however busy the machine is. */
const DUE_MS = 5_000;
const OWNER = "owner@example.test";

test("kill -9 between Send and sending neither loses nor doubles a message", async () => {
  const place = { data: temporaryFolder() };
  const { stdout, exitCode } = await run(
    place,
    ["setup", "--domain", "example.test", "--email", OWNER, "--name", "Owner", "--password-stdin", "--json"],
    "correct horse",
  );
  expect(exitCode).toBe(0);
  const { apiKey } = JSON.parse(stdout) as { apiKey: string };
  await runJson(place, "domain", "verify", "example.test", "--skip-dns");
  settle(place, { "api.ipRequestsPerMinute": "1000000", "api.keyRequestsPerMinute": "1000000" });

  const signIn = async ({ http }: { http: string }) => {
    const answer = await openPage({ http }).send("POST", "/sign-in", { email: OWNER, password: "correct horse" });
    expect(answer.status).toBe(204);
    return openPage({ http }, answer.headers.get("set-cookie")?.split(";")[0]);
  };
  const first = await serve(place);
  const before = await signIn(first);
  const send = async (subject: string) => {
    const letter = { from: OWNER, to: OWNER, subject, text: "x" };
    const { body } = await before.send<{ draftId: string; revision: number }>("POST", "/drafts", letter);
    const at = new Date(Date.now() + DUE_MS).toISOString();
    const request = { ...letter, revision: body.revision, attachments: [], at };
    const sent = await before.send<{ due?: object }>("POST", `/drafts/${body.draftId}/send`, request);
    expect([sent.status, sent.body.due]).toEqual([200, expect.anything()]);
    return body.draftId;
  };
  await send("kept");
  await before.send("POST", `/drafts/${await send("undone")}/undo`);
  await first.kill("SIGKILL");

  /** Subjects in a folder, as a server that has just started sees them. */
  const subjectsOf =
    ({ http }: { http: string }) =>
    async (folder: string) => {
      const headers = { authorization: `Bearer ${apiKey}` };
      const answer = await fetch(`${http}/api/v1/messages?folder=${folder}`, { headers });
      return ((await answer.json()) as { messages: { subject: string }[] }).messages.map(({ subject }) => subject);
    };
  const second = await serve(place);
  const subjects = subjectsOf(second);
  while ((await subjects("inbox")).length === 0) await Bun.sleep(20);
  expect([await subjects("sent"), await subjects("drafts"), await subjects("inbox")]).toEqual([
    ["kept"],
    ["undone"],
    ["kept"],
  ]);
  await second.kill("SIGKILL");
}, 120_000);
