/** "Did you mean": suggestions for searches without results, which never reveal mail out of reach. */
import { describe, expect, test } from "bun:test";
import type { Caller } from "../../../src/access/caller.ts";
import { updateThread } from "../../../src/mailbox/changing/threads.ts";
import { listThreads, searchThreads } from "../../../src/mailbox/reading/listing.ts";
import { createAlice, createWorld, type World } from "../../harness/servers/mailbox-world.ts";

const suggestionOf = async (world: Pick<World, "core">, caller: Caller, q: string, more = {}) =>
  (await searchThreads(world.core, caller, { q, limit: 10, ...more })).suggestion;

async function seeded() {
  const seeded = createAlice();
  const { receive, core, alice } = seeded;
  await receive({
    from: "Annika Larsson <annika@remote.example>",
    subject: "Invoice for March",
    text: "The quarterly budget is attached, with the zanzibar figures.",
  });
  const { threadId } = await receive({ from: "Größe <post@größe.example>", subject: "Größentabelle" });
  await receive({ from: "bo@remote.example", subject: "Lunch", text: "Invoice again? Shall we meet?" });
  updateThread(core, alice, threadId, { starred: true, addLabels: ["To do", "Billing"] });
  return seeded;
}

describe("corrects", () => {
  test.each<[q: string, suggestion: string | undefined]>([
    // a letter left out, put in, exchanged, swapped
    ["invoce", "invoice"],
    ["invoiice", "invoice"],
    ["imvoice", "invoice"],
    ["invioce", "invoice"],
    ["nivoice", "invoice"],
    // a word that stands in a body alone
    ["zanzbar", "zanzibar"],
    // two letters of a long word of a subject
    ["grossntabele", "größentabelle"],
    // the rest stays as it was typed, operators too
    ["  Invioce   for MARCH", "invoice   for MARCH"],
    ["subject:invioce -lunch", "subject:invoice -lunch"],
    ['"quartely budget"', '"quarterly budget"'],
    ["from:anika invoice", "from:annika invoice"],
    ["from:annika@remtoe.example", "from:annika@remote.example"],
    ["from:larson subject:invioce", "from:larsson subject:invoice"],
    ["is:unread invioce", "is:unread invoice"],
    // operators and their values
    ["form:annika", "from:annika"],
    ["FORM:annika", "from:annika"],
    ["subjct:lunch", "subject:lunch"],
    ["is:unraed", "is:unread"],
    ["in:inbxo lunch", "in:inbox lunch"],
    ["newer-than:1y lunch", "newer_than:1y lunch"],
    ["lunch in:spma", undefined],
    ["si:stared", "is:starred"],
    ['form:"annika larsson"', 'from:"annika larsson"'],
    ["form:anika", "from:annika"],
    // finds something as it is
    ["-is:stared lunch", undefined],
    // labels that are in use
    ["label:biling", "label:Billing"],
    ["lable:biling größentabelle", "label:Billing größentabelle"],
    ['label:"to dp"', 'label:"To do"'],
    ["label:to-do", 'label:"To do"'],
    ["label:bilingual", undefined],
    ["label:biling lunch", undefined],
    // a word that is known, but not in this field
    ["from:invioce", undefined],
    // both words are known, but not together
    ["zanzibar lunch", undefined],
    // nothing near
    ["xylophone", undefined],
    ["is:important", undefined],
    ["https://nowhere.example", undefined],
    ["befor:tomorrow", undefined],
    // more words than a person mistypes
    ["invioce quartely zanzbar", undefined],
    // a similar word finds nothing with the rest
    ["invioce xylophone", undefined],
    ["lunhc zanzibar", undefined],
    // excluded words are never corrected
    ["xylophone -invioce", undefined],
    ["北亰", undefined],
    ["99999", undefined],
  ])("%s: %s", async (q, suggestion) => {
    const { world, alice } = await seeded();
    expect(await suggestionOf(world, alice, q)).toBe(suggestion as string);
    if (suggestion !== undefined) {
      expect((await searchThreads(world.core, alice, { q: suggestion, limit: 1 })).threads).toHaveLength(1);
    }
  });
});

test("suggests the most frequent among equally similar words", async () => {
  const { world, alice, receive } = await seeded();
  await receive({ text: "A cart." });
  for (const n of [1, 2]) await receive({ subject: `Card ${n}`, text: "The card." });
  expect(await suggestionOf(world, alice, "carx")).toBe("card");
});

test("suggests only for a search without results, on its first page", async () => {
  const { world, alice, core } = await seeded();
  const keys = async (filters: object) => Object.keys(await listThreads(core, alice, { limit: 1, ...filters }));
  const plain = ["threads", "nextCursor", "unread"];
  expect(await keys({ q: "invoice" })).toEqual(plain);
  expect(await keys({ q: "invioce" })).toEqual([...plain, "suggestion"]);
  expect(await keys({ folder: "spam" })).toEqual(plain);
  expect(await keys({ folder: "spam", q: "" })).toEqual(plain);
  // It finds results with the same filters as the search.
  expect(await suggestionOf(world, alice, "invioce", { folder: "spam" })).toBeUndefined();
  expect(await suggestionOf(world, alice, "invioce", { folder: "starred" })).toBeUndefined();
  expect(await keys({ q: "invioce", unread: true })).toEqual([...plain, "suggestion"]);
  expect(await keys({ q: "invioce", hasAttachments: true })).toEqual(plain);
  expect(await keys({ q: "invioce", label: "none" })).toEqual(plain);
});

test("suggests no word of another workspace, of a mailbox out of reach, of trash or spam", async () => {
  const world = createWorld();
  const [one, other] = [world.workspace("One", "one.example"), world.workspace("Other", "other.example")];
  const ann = world.user(one, "ann@one.example", "member");
  const owner = world.user(one, "owner@one.example", "owner");
  const eve = world.user(other, "eve@other.example", "owner");
  const box = world.box(one, "ann@one.example", ann);
  const shared = world.box(one, "team@one.example");
  await world.file(shared, { subject: "Palimpsest", from: "Xenia <xenia@remote.example>", text: "The sarcophagus." });
  await world.file(world.box(other, "eve@other.example", eve), { subject: "Kaleidoscope", text: "An ocelot." });
  const { threadId } = await world.file(box, { subject: "Rhododendron", text: "A pangolin." });
  updateThread(world.core, ann, threadId, { folder: "trash" });
  for (const caller of [owner, eve]) {
    const [thread] = (await listThreads(world.core, caller, { limit: 1 })).threads;
    updateThread(world.core, caller, thread?.id ?? "", { addLabels: ["Secretive"] });
  }

  const misspelt = [
    "label:secretiv",
    "palimpset",
    "sarcophagu",
    "from:xenja",
    "kaleidoscop",
    "ocelott",
    "rhododendrom",
    "pangolim",
  ];
  for (const q of misspelt) expect([q, await suggestionOf(world, ann, q)]).toEqual([q, undefined]);
  expect(await suggestionOf(world, ann, "pangolim", { folder: "trash" })).toBe("pangolin");
  expect(await suggestionOf(world, owner, "palimpset")).toBe("palimpsest");
  expect(await suggestionOf(world, owner, "label:secretiv")).toBe("label:Secretive");
  expect(await suggestionOf(world, owner, "kaleidoscop")).toBeUndefined();
  world.grant(shared, ann, "view");
  expect(await suggestionOf(world, ann, "sarcophagu")).toBe("sarcophagus");
  expect(await suggestionOf(world, ann, "from:xenja")).toBe("from:xenia");
  expect(await suggestionOf(world, ann, "sarcophagu", { mailbox: box })).toBeUndefined();
});

test("suggests no Bcc recipient, not even to the sender", async () => {
  const { world, alice, send } = createAlice();
  await send({ subject: "Plan", headers: ["Bcc: Hieronymus <hieronymus@remote.example>"] });
  for (const q of ["to:hieronymos", "hieronymos", "to:hieronymos@remote.example"]) {
    expect([q, await suggestionOf(world, alice, q)]).toEqual([q, undefined]);
  }
});

/** The turns that other work gets during a search for a misspelt word, with that many conversations of 150 words. */
async function turnsOfOthers(conversations: number): Promise<number> {
  const { receive, core, alice } = createAlice();
  const word = (n: number) => String.fromCodePoint(0xac00 + n).repeat(3);
  for (let i = 0; i < conversations; i++) {
    await receive({ subject: Array.from({ length: 150 }, (_, n) => word(150 * i + n)).join(" ") });
  }
  let turns = 0;
  let isSearching = true;
  const count = () => {
    turns++;
    if (isSearching) setImmediate(count);
  };
  setImmediate(count);
  await searchThreads(core, alice, { q: "zzqqz", limit: 10 });
  isSearching = false;
  return turns;
}

test("other work goes on while the words of many conversations are compared", async () => {
  expect((await turnsOfOthers(60)) - (await turnsOfOthers(1))).toBeGreaterThanOrEqual(4);
});
