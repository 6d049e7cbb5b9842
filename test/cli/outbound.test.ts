/** The commands about outbound mail: pauses, the suppression list and the queue, as documents. */
import { expect, test } from "bun:test";
import { systemRuntime } from "../../src/base/runtime.ts";
import { addOutbound, setEntriesHeld } from "../../src/outbound/queue.ts";
import { queueEntries } from "../../src/store/schema.ts";
import { openStore } from "../../src/store/store.ts";
import { openSetUp, openTerminal, SETUP, type Terminal } from "../harness/servers/terminal.ts";

const ISO = expect.stringMatching(/^\d{4}-\d\d-\d\dT.*Z$/);

/** Puts a message to two recipients into the queue, as the server beside the commands does; the second is held. */
function fillQueue({ data }: Terminal, workspaceId: string): void {
  const runtime = systemRuntime();
  const store = openStore({ folder: data, runtime });
  store.transact((tx) => {
    addOutbound(tx, {
      id: "msg_1",
      workspaceId,
      mailboxId: "mbx_1",
      mailbox: "ada@acme.test",
      threadId: "thr_1",
      messageId: "<1@acme.test>",
      subject: "Hello",
      domain: "acme.test",
      returnPath: "bounce+1@acme.test",
      acceptedAt: runtime.now(),
      outsideRecipients: 2,
      recipients: [
        { id: "que_1", email: "Zoe@remote.example", field: "to" },
        { id: "que_2", email: "secret@remote.example", field: "bcc" },
      ],
      content: { bytes: new TextEncoder().encode("Subject: Hello\r\n\r\n") },
    });
    setEntriesHeld(
      tx,
      tx
        .select()
        .from(queueEntries)
        .all()
        .filter(({ id }) => id === "que_2"),
    );
  });
  store.close();
}

test("a mailbox and a workspace are paused, saying why, and resumed", async () => {
  const { ask, say } = await openSetUp();
  expect(await ask("mailbox", "pause", "Ada@acme.test", "--reason", "Sent spam")).toMatchObject({
    address: "ada@acme.test",
    state: "paused",
    paused: "Sent spam",
  });
  expect(await ask<object[]>("mailbox", "list")).toMatchObject([{ address: "ada@acme.test", paused: "Sent spam" }]);
  expect(await ask("mailbox", "resume", "ada@acme.test")).toMatchObject({ state: "active", paused: null });

  const paused = await ask("workspace", "pause", "Acme.TEST", "--reason", "Moving");
  expect(paused).toEqual({
    id: expect.stringMatching(/^wsp_/),
    name: "acme.test",
    state: "paused",
    paused: "Moving",
    mailboxes: 1,
    usedBytes: 0,
    mostMailboxes: null,
    mostBytes: null,
    createdAt: ISO,
  });
  expect(await ask<object[]>("workspace", "list")).toEqual([paused]);
  expect((await say("workspace", "list")).stdout).toMatch(/ acme\.test {2}paused {2}Moving {2}/);
  expect(await ask("workspace", "resume", "acme.test")).toEqual({ ...paused, state: "active", paused: null });
});

test("an address is suppressed, listed and allowed again", async () => {
  const { ask, say } = await openSetUp();
  const added = await ask("suppression", "add", "Zoe@Remote.example", "--reason", "Asked us to stop");
  expect(added).toEqual({
    id: expect.stringMatching(/^sup_/),
    address: "zoe@remote.example",
    reason: "Asked us to stop",
    workspace: "acme.test",
    createdAt: ISO,
  });
  expect(await ask("suppression", "add", "zoe@remote.example", "--reason", "Again")).toEqual(added);
  expect(await ask("suppression", "add", "max@remote.example")).toMatchObject({ reason: "Added by the operator" });
  expect(await ask<object[]>("suppression", "list")).toMatchObject([added, { address: "max@remote.example" }]);

  expect(await ask("suppression", "remove", "ZOE@remote.example")).toEqual({
    id: added.id,
    address: "zoe@remote.example",
    removed: true,
  });
  expect((await say("suppression", "remove", "zoe@remote.example")).exitCode).toBe(1);

  await ask("workspace", "add", "Beta");
  expect((await say("suppression", "add", "zoe@remote.example")).exitCode).toBe(2);
  await ask("suppression", "add", "max@remote.example", "--workspace", "Beta");
  const unsure = await say("suppression", "remove", "max@remote.example");
  expect([unsure.exitCode, unsure.stderr]).toEqual([2, expect.stringContaining("--workspace NAME")]);
  await ask("suppression", "remove", "max@remote.example", "--workspace", "acme.test");
  expect(await ask<object[]>("suppression", "list", "--workspace", "acme.test")).toEqual([]);
  // Only one workspace has it now.
  expect(await ask("suppression", "remove", "max@remote.example")).toMatchObject({ removed: true });
});

test("recipients in the queue are listed, retried and given up", async () => {
  const terminal = openTerminal();
  const { ask, say } = terminal;
  const { workspaceId } = await ask<{ workspaceId: string }>(...SETUP, "--workspace", "Acme");
  expect(await ask<object[]>("queue", "list")).toEqual([]);
  fillQueue(terminal, workspaceId);
  const waiting = {
    id: "que_1",
    recipient: "Zoe@remote.example",
    field: "to",
    state: "waiting",
    attempting: false,
    attempts: 0,
    nextAttemptAt: ISO,
    reply: null,
    mailbox: "ada@acme.test",
    emailId: "msg_1",
    messageId: "<1@acme.test>",
    workspace: "Acme",
    acceptedAt: ISO,
  };
  const hidden = { recipient: "secret@remote.example", field: "bcc" };
  const held = { ...waiting, ...hidden, id: "que_2", state: "held", nextAttemptAt: null };
  expect(await ask<object[]>("queue", "list", "--workspace", "Acme")).toEqual([waiting, held]);
  expect((await say("queue", "list")).stdout).toMatch(
    /\nque_2 {2}secret@remote\.example {2}bcc +held +0 +- +ada@acme\.test/,
  );

  expect(await ask("queue", "retry", "que_2")).toEqual({ id: "que_2", state: "waiting" });
  expect(await ask<object[]>("queue", "list")).toMatchObject([
    { id: "que_1", state: "waiting" },
    { id: "que_2", state: "waiting" },
  ]);
  expect(await ask("queue", "cancel", "que_1")).toEqual({ id: "que_1", state: "cancelled" });
  expect(await ask<object[]>("queue", "list")).toMatchObject([{ id: "que_2" }]);
  const late = await say("queue", "retry", "que_1");
  expect([late.exitCode, late.stderr]).toEqual([1, "mailroom: Queue entry que_1 is cancelled already\n"]);

  await ask("workspace", "add", "Beta");
  expect(await ask<object[]>("queue", "list", "--workspace", "Beta")).toEqual([]);
});
