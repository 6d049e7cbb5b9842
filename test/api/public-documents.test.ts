/** The public documents change on purpose alone: a commit that changes one renews its hash here, and says what changed. */
import { expect, test } from "bun:test";
import { PUBLIC_DOCUMENTS } from "./public-documents.ts";

const HASHES: Record<string, string> = {
  v1: "5cc91fa3187a668aa8edaf2428d86b2b8509c71f306cf2371e62f3b648f3180c",
  "ext-v1": "feb1812e5d77c7067581bea186b072d6849d35bdb15ce80cf44fb10027605b1e",
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
