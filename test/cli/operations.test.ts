/** Which operations of administration are commands (operations/command-line.ts), and why others are none. */
import { expect, test } from "bun:test";
import { ADMIN_OPERATIONS } from "../../src/operations/operations.ts";
import { openSetUp, openTerminal } from "../harness/servers/terminal.ts";

/** Operations without a command of their own, and the reason. */
const NO_COMMAND: Record<string, string> = {
  getMailbox: "mailbox list shows all of it",
  removeMailbox: "mailbox remove waits until the mail is deleted",
  addAlias: "mailbox alias adds and removes",
  removeAlias: "mailbox alias adds and removes, and shows the mailbox as it is then",
  removeGrant: "mailbox revoke shows the mailbox as it is then",
  getSignature: "people write it in the app",
  putSignature: "people write it in the app",
  getTemplates: "people write them in the app",
  putTemplates: "people write them in the app",
  addPerson: "user add takes a password",
  getPerson: "user list shows all of it",
  removePerson: "user remove can erase their mail",
  invitePerson: "user invite shows the link, which the operation mails",
  getDomain: "domain verify shows the records as they are found",
  verifyDomain: "domain verify can do without DNS, and fails while records are missing",
  listQueue: "queue list shows Bcc recipients",
  getKeyJournal: "key journal lists it",
  undoKey: "key undo does it",
  createKey: "key create makes one for anybody, and the operation asks for a person",
  getKey: "key list shows all of it",
  changeKey: "key update, pause and resume change anybody's, and the operation asks for a person",
  listHolds: "it asks for a person, who may send from the mailbox",
  approveHold: "a person approves, in the app or with a key that may",
  rejectHold: "a person rejects, in the app or with a key that may",
  revokeKey: "key revoke takes anybody's, and the operation asks for a person",
  getWebhook: "webhook list shows all of it",
  rotateWebhookSecret: "webhook secret shows the secret, and the one before",
  resendWebhookDelivery: "webhook resend is told the delivery alone",
  recoverWebhook: "webhook resend sends one delivery again; many are for programs",
};

test("every operation of administration is a command, or has a reason to be none", () => {
  const without = ADMIN_OPERATIONS.filter(({ commands = [] }) => commands.length === 0);
  expect(without.map(({ name }) => name).sort()).toEqual(Object.keys(NO_COMMAND).sort());
});

test("the overview has every command of an operation, once", async () => {
  const { stdout } = await openTerminal().say("--help");
  const listed = [...stdout.matchAll(/^ {2}mailroom (\w+(?: \w+)?) {2}/gm)].map(([, name]) => name);
  expect(new Set(listed).size).toBe(listed.length);
  const commands = ADMIN_OPERATIONS.flatMap(({ commands = [] }) => commands.map(({ name }) => name));
  expect(listed).toEqual(expect.arrayContaining(commands));
  const verbs = listed.filter((name) => name?.startsWith("user ")).map((name) => name?.split(" ")[1]);
  expect(verbs).toEqual(["add", "list", "role", "lock", "unlock", "password", "invite", "totp", "remove"]);
});

test("a list is whole, and sorted over all workspaces", async () => {
  let now = Date.now();
  const { ask } = await openSetUp({ runtime: { now: () => now++ } });
  await ask("workspace", "add", "Beta");
  const added: unknown[] = [];
  for (let count = 0; count < 110; count++) {
    const workspace = count % 50 === 1 ? "Beta" : "acme.test";
    added.push(await ask("suppression", "add", `n${count}@remote.example`, "--workspace", workspace));
  }
  expect(await ask<object[]>("suppression", "list")).toEqual(added as object[]);
  expect(await ask<object[]>("suppression", "list", "--workspace", "Beta")).toHaveLength(3);
});
