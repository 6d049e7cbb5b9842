/**
 * The adversarial matrix (rules: Reach): every person against every path to mail. Mail out of reach appears nowhere,
 * and looks exactly like mail that does not exist.
 */
import { describe, expect, test } from "bun:test";
import type { Caller } from "../../../src/access/caller.ts";
import { setThreadSnooze } from "../../../src/mailbox/changing/change.ts";
import { getThread, updateThread } from "../../../src/mailbox/changing/threads.ts";
import { listThreads, searchThreads } from "../../../src/mailbox/reading/listing.ts";
import { getVisibleHtml } from "../../../src/mailbox/reading/masked-codes.ts";
import { getAttachment, getMessage, getRawMessage, listMessages } from "../../../src/mailbox/reading/messages.ts";
import { listMailboxes } from "../../../src/mailbox/state/mailboxes.ts";
import type { ThreadPatch } from "../../../src/mailbox/state/views.ts";
import { GRANT_ACCESS } from "../../../src/store/schema.ts";
import { createWorld } from "../../harness/servers/mailbox-world.ts";

const FILE = ['Content-Disposition: attachment; filename="a.txt"'];

/** Two workspaces; the first has Ann, Ben and a shared mailbox; each mailbox has a message with an attachment. */
async function offices() {
  const world = createWorld();
  const here = world.workspace("Here", "here.test");
  const there = world.workspace("There", "there.test");
  const person = (name: string, role: Caller["role"], workspaceId = here) =>
    world.user(workspaceId, `${name}@${workspaceId === here ? "here" : "there"}.test`, role);
  const people = {
    owner: person("owner", "owner"),
    admin: person("admin", "admin"),
    ann: person("ann", "member"),
    view: person("view", "member"),
    send: person("send", "member"),
    full: person("full", "member"),
    stranger: person("stranger", "member"),
    elsewhere: person("elsewhere", "owner", there),
  };
  const boxes = {
    ann: world.box(here, "ann@here.test", people.ann),
    shared: world.box(here, "shared@here.test"),
    there: world.box(there, "boss@there.test", people.elsewhere),
  };
  for (const access of GRANT_ACCESS) world.grant(boxes.shared, people[access], access);
  const mails = {} as Record<keyof typeof boxes, { threadId: string; messageId: string; attachmentId: string }>;
  for (const [name, box] of Object.entries(boxes) as [keyof typeof boxes, string][]) {
    const filed = await world.file(box, { subject: `secret of ${name}`, headers: FILE });
    const byOwner = name === "there" ? people.elsewhere : people.owner;
    updateThread(world.core, byOwner, filed.threadId, { labels: ["tagged"], starred: true });
    const attachment = getMessage(world.core, byOwner, filed.messageId, { html: true }).attachments[0];
    mails[name] = { ...filed, attachmentId: attachment?.id ?? "" };
  }
  return { world, people, boxes, mails };
}

type Person = keyof Awaited<ReturnType<typeof offices>>["people"];
type Box = "ann" | "shared" | "there";
const REACHED: Record<Person, Box[]> = {
  owner: ["ann", "shared"],
  admin: ["ann", "shared"],
  ann: ["ann"],
  view: ["shared"],
  send: ["shared"],
  full: ["shared"],
  stranger: [],
  elsewhere: ["there"],
};
const MANAGES: Record<Person, boolean> = {
  owner: true,
  admin: true,
  ann: true,
  view: false,
  send: false,
  full: true,
  stranger: false,
  elsewhere: true,
};
const PEOPLE = Object.keys(REACHED) as Person[];
const BOXES: Box[] = ["ann", "shared", "there"];

/** The result of an act, or its whole refusal. */
async function outcomeOf(act: () => unknown): Promise<{ value: unknown } | { refused: object }> {
  try {
    return { value: await act() };
  } catch (error) {
    const { name, code, status, message, retryAfter } = error as Error & {
      code: string;
      status: number;
      retryAfter?: number;
    };
    return { refused: { name, code, status, message, retryAfter } };
  }
}

for (const who of PEOPLE) {
  describe(who, () => {
    for (const box of BOXES) {
      const reached = REACHED[who].includes(box);

      test(`${reached ? "reads" : "finds nothing of"} the mail of ${box}`, async () => {
        const { world, people, boxes, mails } = await offices();
        const { core } = world;
        const caller = people[who];
        const { threadId, messageId, attachmentId } = mails[box];
        const address = { ann: "ann@here.test", shared: "shared@here.test", there: "boss@there.test" }[box];
        const roads: [there: () => unknown, nowhere: () => unknown][] = [
          [
            () => getThread(core, caller, threadId, { html: true }),
            () => getThread(core, caller, "thr_none", { html: true }),
          ],
          [
            () => getMessage(core, caller, messageId, { html: true }),
            () => getMessage(core, caller, "msg_none", { html: true }),
          ],
          [
            () => getMessage(core, caller, messageId, { html: false }),
            () => getMessage(core, caller, "msg_none", { html: false }),
          ],
          [() => getRawMessage(core, caller, messageId), () => getRawMessage(core, caller, "msg_none")],
          [() => getAttachment(core, caller, attachmentId), () => getAttachment(core, caller, "att_none")],
          [
            () => updateThread(core, caller, threadId, { read: true }),
            () => updateThread(core, caller, "thr_none", { read: true }),
          ],
          ...[boxes[box], address].map((name): [() => unknown, () => unknown] => [
            () => listThreads(core, caller, { mailbox: name, limit: 5 }),
            () => listThreads(core, caller, { mailbox: "none@here.test", limit: 5 }),
          ]),
          [
            () => searchThreads(core, caller, { q: "secret", mailbox: address, limit: 5 }),
            () => searchThreads(core, caller, { q: "secret", mailbox: "mbx_none", limit: 5 }),
          ],
          [
            () => listMessages(core, caller, { mailbox: address, limit: 5 }),
            () => listMessages(core, caller, { mailbox: "mbx_none", limit: 5 }),
          ],
        ];
        for (const [there, nowhere] of roads) {
          const [found, missing] = [await outcomeOf(there), await outcomeOf(nowhere)];
          expect(missing).toMatchObject({ refused: { code: "not_found", status: 404 } });
          if (reached) expect(found).toHaveProperty("value");
          else expect(found).toEqual(missing);
        }
        const rich = await world.file(boxes[box], "From: x@else.test\nContent-Type: text/html\n\n<p>rich</p>\n");
        const visible = await getVisibleHtml(core, caller, { id: rich.messageId });
        expect(visible?.html.trim()).toBe(reached ? "<p>rich</p>" : undefined);
      });

      test(`${reached ? (MANAGES[who] ? "changes" : "may not change") : "can neither find nor change"} the mail of ${box}`, async () => {
        const { world, people, mails } = await offices();
        const { core } = world;
        const before = getThread(core, box === "there" ? people.elsewhere : people.owner, mails[box].threadId, {
          html: true,
        });
        const patches: ThreadPatch[] = [
          { starred: false },
          { folder: "trash" },
          { labels: [] },
          { addLabels: ["x"] },
          { removeLabels: ["tagged"] },
          { unread: false, starred: false },
        ];
        for (const patch of patches) {
          const outcome = await outcomeOf(() => updateThread(core, people[who], mails[box].threadId, patch));
          if (reached && MANAGES[who]) {
            expect(outcome).toHaveProperty("value");
            continue;
          }
          expect(outcome).toMatchObject({ refused: { code: reached ? "forbidden" : "not_found" } });
          expect(
            getThread(core, box === "there" ? people.elsewhere : people.owner, mails[box].threadId, { html: true }),
          ).toEqual(before);
        }
      });
    }

    test("sees in every list exactly what they reach", async () => {
      const { world, people } = await offices();
      const { core } = world;
      const caller = people[who];
      const subjects = REACHED[who].map((box) => `secret of ${box}`);
      const lists = [
        {},
        { folder: "all" },
        { folder: "starred" },
        { unread: true },
        { folder: "all", unread: true },
        { label: "tagged" },
        { hasAttachments: true },
        { q: "secret" },
        { q: "-nothing" },
        { q: "label:tagged" },
        { q: "is:starred" },
        { q: "is:unread secret" },
        { q: "-label:other" },
        { q: "from:carol has:attachment" },
        { q: "a.txt" },
      ] as const;
      for (const filters of lists) {
        const list = await listThreads(core, caller, { ...filters, limit: 100 });
        expect(list.threads.map(({ subject }) => subject).sort()).toEqual(subjects);
        expect(list.unread).toBe(subjects.length);
      }
      expect(
        listMessages(core, caller, { limit: 100 })
          .map(({ subject }) => subject)
          .sort(),
      ).toEqual(subjects);
      const addresses = { ann: "ann@here.test", shared: "shared@here.test", there: "boss@there.test" };
      expect(listMailboxes(core, caller).map(({ address }) => address)).toEqual(
        REACHED[who].map((box) => addresses[box]),
      );
    });
  });
}

test("a cursor of another person's list reveals nothing of theirs", async () => {
  const { world, people, boxes } = await offices();
  for (let i = 0; i < 3; i++) await world.file(boxes.ann, { subject: `more ${i}` });
  const { nextCursor } = await listThreads(world.core, people.owner, { limit: 1 });
  const page = await listThreads(world.core, people.view, { limit: 100, cursor: nextCursor ?? "" });
  expect(page.threads.filter(({ mailboxId }) => mailboxId !== boxes.shared)).toEqual([]);
});

test("permissions of a conversation are those of the mailbox", async () => {
  const { world, people, mails } = await offices();
  const permissions = (who: Person) =>
    getThread(world.core, people[who], mails.shared.threadId, { html: false }).permissions;
  expect(permissions("view")).toEqual({ send: false, manage: false });
  expect(permissions("send")).toEqual({ send: true, manage: false });
  expect(permissions("full")).toEqual({ send: true, manage: true });
  expect(permissions("admin")).toEqual({ send: true, manage: true });
});

test("mailboxes are listed with how they are reached, their aliases without catch-alls, and the unread of the inbox", async () => {
  const { world, people, boxes } = await offices();
  world.alias(boxes.ann, "sales@here.test");
  world.alias(boxes.ann, "help@here.test");
  world.alias(boxes.ann, "*@here.test");
  const snoozed = await world.file(boxes.ann, { subject: "later", from: "l@remote.example" });
  world.store.transact((tx) => setThreadSnooze(tx, snoozed.threadId, world.runtime.now() + 1));
  const archived = await world.file(boxes.ann, { subject: "done", from: "d@remote.example" });
  updateThread(world.core, people.ann, archived.threadId, { folder: "archive" });
  const all = { read: true, send: true, manage: true };
  expect(listMailboxes(world.core, people.ann)).toEqual([
    {
      id: boxes.ann,
      address: "ann@here.test",
      displayName: "ann@here.test",
      aliases: ["help@here.test", "sales@here.test"],
      source: "owner",
      access: all,
      unread: 1,
    },
  ]);
  expect(listMailboxes(world.core, people.admin).map(({ source }) => source)).toEqual(["admin", "admin"]);
  expect(listMailboxes(world.core, people.view)).toEqual([
    {
      id: boxes.shared,
      address: "shared@here.test",
      displayName: "shared@here.test",
      aliases: [],
      source: "grant",
      access: { read: true, send: false, manage: false },
      unread: 1,
    },
  ]);
});
