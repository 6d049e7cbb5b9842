/** Doc comments are read one at a time, in the hover of an editor, so each stands alone. */
import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";

const root = join(import.meta.dir, "..");
/** Openings that refer to something outside of the comment, or hide its subject. */
const REFERS = /^(The same|Of|As|By|It|They|What|Who|Whoever|Nobody|None)\b/;
/** Openings of sentences, also inside a comment, whose subject the reader has to search for. */
const HIDES_SUBJECT = /^(What|Who|Whoever|Nobody|None)\b(?!.*\?$)/;

const docComments = (code: string): string[] =>
  [...code.matchAll(/\/\*\*((?:(?!\*\/).)*)\*\//gs)].map(([, text = ""]) => text.replace(/\s*\n\s*\*\s?/g, " ").trim());

function isHard(comment: string): boolean {
  const [, ...further] = comment.split(/(?<=[.!?])\s+/);
  return REFERS.test(comment) || further.some((sentence) => HIDES_SUBJECT.test(sentence));
}

test("comments that do not stand alone are told from others", () => {
  const hard = ["The same, later.", "As the server has it.", "Reads mail. Nobody else does.", "What a key may do."];
  const plain = ["Bytes that a key may take.", "Reads mail. It does so once.", "Asks: who may do this? A key may."];
  expect([...hard, ...plain].filter(isHard)).toEqual(hard);
});

test("each doc comment stands alone", () => {
  const files = [...new Bun.Glob("{src,test,packaging}/**/*.{ts,tsx}").scanSync({ cwd: root })].sort();
  const hard = files.flatMap((file) =>
    docComments(readFileSync(join(root, file), "utf8"))
      .filter(isHard)
      .map((comment) => `${file}: ${comment.slice(0, 100)}`),
  );
  expect(files.length).toBeGreaterThan(1_000);
  expect(hard).toEqual([]);
});
