import { expect, test } from "bun:test";
import { connect } from "node:net";
import * as domains from "../src/admin/domains.ts";
import * as journal from "../src/admin/journal.ts";
import * as people from "../src/admin/people.ts";
import * as workspaceAdmin from "../src/admin/workspace-admin.ts";
import { createLog } from "../src/base/log.ts";
import { readConfig } from "../src/config.ts";
import { getThread, snoozeThread, updateThread } from "../src/mailbox/changing/threads.ts";
import { fileMessage } from "../src/mailbox/filing/filing.ts";
import { prepareMessage } from "../src/mailbox/filing/prepare.ts";
import { open } from "../src/open.ts";
import { serve } from "../src/serve.ts";
import { SCOPES } from "../src/store/schema.ts";
import { settle } from "./harness/data/settle.ts";
import { temporaryFolder } from "./harness/folder.ts";
import { letter } from "./harness/mail/mail.ts";
import { fakeRuntime } from "./harness/runtime.ts";
import { boot } from "./harness/servers/boot.ts";

/** True if a server listens at the address. */
const answers = (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1");
    socket.once("connect", () => {
      socket.destroy();
      resolve(true);
    });
    socket.once("error", () => resolve(false));
  });

test("while stopping, no listener accepts, and requests in flight are finished", async () => {
  const { server, mx, http, owner, runtime } = await boot();
  const slow = connect(Number(new URL(http).port), "127.0.0.1");
  slow.on("error", () => {});
  slow.write(
    `PATCH /api/v1/threads/x HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${owner.apiKey}\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{`,
  );
  // In flight: the server waits for the rest of the body, which never comes.
  await fetch(`${http}/healthz`);
  expect(await answers(mx.port)).toBe(true);

  let ended = false;
  const stopped = server.stop().then(() => {
    ended = true;
  });
  expect(await answers(mx.port)).toBe(false);
  expect(ended).toBe(false);
  slow.destroy();
  while (!ended) {
    runtime.advanceTo(runtime.now() + 1_000);
    await new Promise(setImmediate);
  }
  await stopped;
});

/** A server on a data folder without listeners; `beside` opens the folder, as a command does. */
async function onDisk() {
  const runtime = fakeRuntime();
  const data = temporaryFolder();
  const off = { MAILROOM_HTTP: "off", MAILROOM_MX: "off", MAILROOM_SUBMISSION: "off", MAILROOM_SUBMISSIONS: "off" };
  const log = createLog("silent", runtime.now, () => {});
  const beside = () => open(readConfig({ MAILROOM_DATA: data, ...off }), runtime, log);
  const opened = beside();
  return { runtime, data, opened, server: await serve(opened), beside };
}

test("the server follows a command's changes within 2 s", async () => {
  const {
    runtime,
    data,
    server,
    opened: {
      core: { options },
    },
  } = await onDisk();
  settle({ data }, { "api.keyRequestsPerMinute": "4711" });
  expect(options.get("api.keyRequestsPerMinute")).not.toBe(4711);
  runtime.advanceTo(runtime.now() + 2_000);
  await server.settled();
  expect(options.get("api.keyRequestsPerMinute")).toBe(4711);
  await server.stop(0);
});

test("a snooze that a command's undo brings back ends on time", async () => {
  const { runtime, opened, server, beside } = await onDisk();
  const command = beside();
  const { core } = command;
  const { store } = core;
  const { workspaceId, caller, mailboxId } = store.transact((tx) => {
    const workspaceId = workspaceAdmin.addWorkspace(core, tx, "Demo").id;
    domains.addDomain(command.core, tx, workspaceId, "example.test", []);
    const email = "alice@example.test";
    const made = people.addUser(core, tx, { workspaceId, email, name: "Alice", role: "owner", ownMailbox: true });
    const caller = { ...made, workspaceId, role: "owner", email, scopes: new Set(SCOPES) } as const;
    return { workspaceId, caller, mailboxId: made.mailboxId ?? "" };
  });
  const message = await prepareMessage(new TextEncoder().encode(letter({})), store.blobs);
  const filing = { mailboxId, receivedOn: caller.email, message, now: runtime.now() };
  const { threadId } = store.transact((tx) => fileMessage(core, tx, filing));
  snoozeThread(core, caller, threadId, runtime.now() + 3_600_000);
  updateThread(core, { ...caller, keyId: "key_agent" }, threadId, { folder: "archive" });
  runtime.advanceTo(runtime.now() + 60_000);
  await server.settled();
  await journal.takeBackKeyChanges(core, { workspaceId, keyId: "key_agent", userId: null }, 0, {
    face: "cli",
    dryRun: false,
  });
  for (let minutes = 0; minutes < 60; minutes++) {
    runtime.advanceTo(runtime.now() + 60_000);
    await server.settled();
  }
  const { thread } = getThread(opened.core, caller, threadId, { html: false });
  expect(thread).toMatchObject({ folder: "inbox", unread: true });
  expect(thread).not.toHaveProperty("snoozedUntil");
  command.close();
  await server.stop(0);
});
