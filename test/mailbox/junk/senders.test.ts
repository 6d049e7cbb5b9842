/** Training with mail that fails DMARC: a spoofed From neither gains nor costs the real sender trust. */
import { describe, expect, test } from "bun:test";
import { updateThread } from "../../../src/mailbox/changing/threads.ts";
import { isExemptFromJunkFilter, readJunkSender } from "../../../src/mailbox/junk/senders.ts";
import type { AuthVerdicts } from "../../../src/store/schema.ts";
import { createAlice } from "../../harness/servers/mailbox-world.ts";

const from = "Bank <info@bank.example>";
const OWN: AuthVerdicts = { spf: "pass", dkim: "pass", dmarc: "pass" };
const SPOOFED: AuthVerdicts = { spf: "fail", dkim: "none", dmarc: "fail" };

const trusts = (auth: AuthVerdicts) =>
  isExemptFromJunkFilter(readJunkSender({ email: "info@bank.example" }, auth), "forgiven");

function createReader() {
  const alice = createAlice();
  let count = 0;
  const arrive = async (auth: AuthVerdicts | undefined, spam = false) => {
    const { threadId } = await alice.receive({ from, subject: `Letter ${++count}` }, { ...(auth && { auth }), spam });
    return { threadId, folder: alice.thread(threadId).folder };
  };
  return {
    ...alice,
    arrive,
    folderOf: async (auth: AuthVerdicts | undefined, spam = false) => (await arrive(auth, spam)).folder,
    move: (threadId: string, folder: "inbox" | "spam") => updateThread(alice.core, alice.alice, threadId, { folder }),
  };
}

test("a spoofed message trained as spam does not block the sender it shows", async () => {
  const { arrive, folderOf, move } = createReader();
  move((await arrive(SPOOFED)).threadId, "spam");
  expect(await folderOf(SPOOFED)).toBe("spam");
  expect(await folderOf(OWN)).toBe("inbox");
  expect(await folderOf(undefined)).toBe("inbox");
});

test("a sender trained as spam is spam, spoofed or not, until forgiven in the same way", async () => {
  const { arrive, folderOf, move } = createReader();
  move((await arrive(OWN)).threadId, "spam");
  expect(await folderOf(OWN)).toBe("spam");
  const spoofed = await arrive(SPOOFED);
  expect(spoofed.folder).toBe("spam");
  move(spoofed.threadId, "inbox");
  expect(await folderOf(SPOOFED)).toBe("inbox");
  expect(await folderOf(OWN)).toBe("spam");
});

describe("a forgiven sender", () => {
  test("does not protect spoofed mail: DMARC still files it to spam", async () => {
    const { arrive, folderOf, move } = createReader();
    const { threadId } = await arrive(OWN);
    for (const folder of ["spam", "inbox"] as const) move(threadId, folder);
    expect(await folderOf(OWN)).toBe("inbox");
    expect(await folderOf(SPOOFED, true)).toBe("spam");
  });

  test("is not affected by forgiving spoofed mail", async () => {
    const { arrive, folderOf, move } = createReader();
    move((await arrive(OWN)).threadId, "spam");
    move((await arrive(SPOOFED, true)).threadId, "inbox");
    expect(await folderOf(OWN)).toBe("spam");
  });
});

test("mail without a DMARC policy counts as the sender's own", async () => {
  const { arrive, folderOf, move } = createReader();
  const none = { spf: "none", dkim: "none", dmarc: "none" };
  const { threadId } = await arrive(none);
  move(threadId, "spam");
  expect(await folderOf(none)).toBe("spam");
  expect(await folderOf(OWN)).toBe("spam");
  move(threadId, "inbox");
  expect(await folderOf(none)).toBe("inbox");
});

describe("mail whose DMARC could not be evaluated", () => {
  for (const dmarc of ["temperror", "permerror"]) {
    test(`is spam if its sender is trained as spam, but is not trusted: ${dmarc}`, async () => {
      const { arrive, folderOf, move } = createReader();
      const unknown = { spf: "none", dkim: "none", dmarc };
      const { threadId } = await arrive(OWN);
      move(threadId, "spam");
      expect(await folderOf(unknown)).toBe("spam");
      expect(trusts(unknown)).toBe(false);
      expect(trusts(OWN)).toBe(true);
      expect(trusts(SPOOFED)).toBe(false);
    });
  }
});
