/** Highlights of a search: in which messages, limited to what the caller may see, at a bounded cost. */
import { describe, expect, test } from "bun:test";
import type { Caller } from "../../../src/access/caller.ts";
import { getThread, updateThread } from "../../../src/mailbox/changing/threads.ts";
import { listThreads } from "../../../src/mailbox/reading/listing.ts";
import type { ThreadFilters } from "../../../src/mailbox/state/views.ts";
import { createAlice, createWorld, type World } from "../../harness/servers/mailbox-world.ts";

/** For each conversation found, `field: snippet` by message id. */
async function found(world: Pick<World, "core">, caller: Caller, filters: Partial<ThreadFilters>) {
  const { threads } = await listThreads(world.core, caller, { limit: 100, ...filters });
  return threads.map(({ highlights }) => highlights?.map(({ emailId, field, snippet }) => [emailId, field, snippet]));
}

describe("the highlighted messages of a conversation", () => {
  test("satisfy the query, latest first", async () => {
    const { world, alice, receive } = createAlice();
    const first = await receive({ messageId: "<1@x>", subject: "Oak", text: "The oak is old." });
    const answer = { headers: ["In-Reply-To: <1@x>"], subject: "Re: Oak" };
    await receive({ ...answer, from: "Bea <bea@remote.example>", text: "Which elm?" });
    const third = await receive({ ...answer, from: "Bea <bea@remote.example>", text: "An oak and an elm." });
    expect(third.threadId).toBe(first.threadId);
    expect(await found(world, alice, { q: "oak is" })).toEqual([
      [
        [first.messageId, "subject", "Oak"],
        [first.messageId, "text", "The oak is old."],
      ],
    ]);
    expect(await found(world, alice, { q: "oak elm" })).toHaveLength(1);
    // All conditions must match one message: Bea's message about an oak does not count for the first one.
    expect((await found(world, alice, { q: "from:bea text:x" })).flat()).toEqual([]);
    expect(await found(world, alice, { q: "an from:bea" })).toEqual([
      [
        [third.messageId, "text", "An oak and an elm."],
        [third.messageId, "from", "Bea <bea@remote.example>"],
      ],
    ]);
    expect((await found(world, alice, { q: "oak -from:bea" })).flat(2)).not.toContain(third.messageId);
  });

  test("satisfy the dates, too, and are at most three", async () => {
    const { world, alice, receive } = createAlice();
    const emailIds: string[] = [];
    for (let day = 1; day <= 5; day++) {
      const date = `Mon, 0${day} Jan 2024 08:00:00 +0000`;
      const headers = day === 1 ? [] : ["In-Reply-To: <0@x>"];
      const messageId = day === 1 ? "<0@x>" : `<${day}@x>`;
      const { messageId: emailId } = await receive({
        subject: "Days",
        text: `needle ${day}`,
        date,
        messageId,
        headers,
      });
      emailIds.push(emailId);
    }
    const ids = async (q: string) => (await found(world, alice, { q })).map((one) => one?.map(([id]) => id));
    expect(await ids("needle")).toEqual([emailIds.slice(2).reverse()]);
    expect(await ids("needle before:2024-01-03")).toEqual([emailIds.slice(0, 2).reverse()]);
    expect(await ids("needle after:2024-01-02 -4 -5")).toEqual([emailIds.slice(1, 3).reverse()]);
  });

  test("include attachments by name", async () => {
    const { world, alice, receive } = createAlice();
    const { messageId: emailId } = await receive(
      [
        "From: bea@remote.example",
        "To: alice@example.test",
        "Subject: Files",
        "Message-ID: <f@x>",
        "MIME-Version: 1.0",
        "Content-Type: multipart/mixed; boundary=b",
        "",
        "--b",
        "Content-Type: text/plain",
        "",
        "See there.",
        "--b",
        "Content-Type: application/pdf; name=Oak_plan.pdf",
        "Content-Disposition: attachment",
        "",
        "x",
        "--b--",
        "",
      ].join("\n"),
    );
    expect(await found(world, alice, { q: "plan.pdf has:attachment" })).toEqual([
      [[emailId, "attachment", "Oak_plan.pdf"]],
    ]);
  });
});

test("highlights are present with q, empty if only operators match, absent without q", async () => {
  const { alice, core, receive } = createAlice();
  const { threadId } = await receive({ subject: "Oak" });
  updateThread(core, alice, threadId, { starred: true, addLabels: ["Trees"] });
  const listed = async (filters: Partial<ThreadFilters>) =>
    (await listThreads(core, alice, { limit: 10, ...filters })).threads;
  for (const q of ["", "  ", "is:starred", "label:trees", "after:2020-01-01", "-elm", "***"]) {
    expect([q, (await listed({ q })).map(({ highlights }) => highlights)]).toEqual([q, [[]]]);
  }
  const [plain] = await listed({});
  expect(Object.keys(plain ?? {})).not.toContain("highlights");
  expect(Object.keys(getThread(core, alice, threadId, { html: true }).thread)).not.toContain("highlights");
  const [searched] = await listed({ q: "oak", folder: "inbox" });
  expect({ ...searched, highlights: undefined }).toEqual({ ...plain, highlights: undefined } as never);
});

test("highlights never include Bcc, not even for the sender", async () => {
  const { world, alice, send } = createAlice();
  const { messageId: emailId } = await send({
    to: "Bea <bea@remote.example>",
    subject: "Plan",
    text: "hidden plan",
    headers: ["Bcc: Hidden Person <hidden@remote.example>"],
  });
  expect(await found(world, alice, { q: "to:hidden" })).toEqual([]);
  expect(await found(world, alice, { q: "hidden remote" })).toEqual([
    [
      [emailId, "text", "hidden plan"],
      [emailId, "to", "Bea <bea@remote.example>"],
    ],
  ]);
});

test("highlights never include mail out of reach", async () => {
  const world = createWorld();
  const [one, other] = [world.workspace("One", "one.example"), world.workspace("Other", "other.example")];
  const [ann, bob, eve] = [
    world.user(one, "ann@one.example", "member"),
    world.user(one, "bob@one.example", "member"),
    world.user(other, "eve@other.example", "owner"),
  ];
  for (const [workspace, caller] of [
    [one, ann],
    [one, bob],
    [other, eve],
  ] as const) {
    const box = world.box(workspace, caller.email, caller);
    await world.file(box, { subject: `Of ${caller.email}`, text: "needle" });
  }
  for (const caller of [ann, bob, eve]) {
    const texts = (await found(world, caller, { q: "needle OR of" })).flat(2);
    expect(texts).toEqual([]);
    const [highlights, ...others] = await found(world, caller, { q: "needle of" });
    expect(others).toEqual([]);
    expect(highlights?.map(([, , snippet]) => snippet)).toEqual([`Of ${caller.email}`, "needle"]);
  }
});

test("the largest and oddest mail neither delays other requests nor uses up the highlights of other conversations", async () => {
  const { world, alice, receive } = createAlice();
  await receive({ from: "small@remote.example", text: "Die na\u00addel." });
  for (let n = 0; n < 3; n++) {
    const text = `${"Größe ist ein schönes Wort. ".repeat(36_000)} na\u00addel`;
    await receive({ subject: `Large ${n}`, from: `p${n}@remote.example`, text });
  }
  let turns = 0;
  let over = false;
  const others = (async () => {
    for (; !over; turns++) await new Promise((resolve) => setImmediate(resolve));
  })();
  const pages = await found(world, alice, { q: "nadel" });
  over = true;
  await others;
  expect(pages.map((highlights) => highlights?.map(([, , snippet]) => snippet))).toEqual([[], [], [], ["Die nadel."]]);
  expect(turns).toBeGreaterThan(2);
});
