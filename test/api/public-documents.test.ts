/** The public documents change on purpose alone: a commit that changes one renews its hash here, and says what changed. */
import { expect, test } from "bun:test";
import { PUBLIC_DOCUMENTS } from "./public-documents.ts";

const HASHES: Record<string, string> = {
  v1: "927c6a670900fafd4a6fe0005688c4167c641b5feb9c4267734dc94295de003a",
  "ext-v1": "85d233b28753acc378c1c6cc0bd4b5adc4ab9923bf1a845a17e04dc671175678",
  "admin-v1": "798b5129f22d89fca903a7e70817675e9f4a820f2ea271c87d17fdb34cdc12f7",
  mcp: "0c7095f3eddc08e054880d11c901d26d7bb54c111e290dc86de519cab66725a1",
};

test.each(PUBLIC_DOCUMENTS)("$name is the document that programs know", ({ name, text }) => {
  const hash = new Bun.CryptoHasher("sha256").update(text).digest("hex");
  const compare = "To compare, run this here and on main, then diff: bun test/api/public-documents.ts FOLDER";
  expect(hash, compare).toBe(HASHES[name] as string);
});

test("each hash is of a document", () => {
  expect(Object.keys(HASHES)).toEqual(PUBLIC_DOCUMENTS.map(({ name }) => name));
});
