/** Odd text of mail for property tests. It folds to other text, to nothing, or to several tokens. */
import fc from "fast-check";
import { anyCharacter } from "../harness/mail/any-character.ts";

const UNITS = [
  ..."aZ9é ß½ﬁΣς.-\n\t\0",
  ..."か北각ᄀ\u1161\u11a8가ﾊﾞน้ำ",
  ..."\u200b\u00ad\u0301\u3099\u309a\ufe0f\u200d\ufffb\ue000",
  "👩\u200d💻",
  "🏽",
  "İ",
  "𝐢",
  "\ud800",
  "\udc00",
  "invoice",
  "ınvoıce",
  "open amount",
];

/** Makes text of at most this many pieces. */
export const oddText = (pieces: number) =>
  fc
    .array(
      fc.oneof(
        { weight: 6, arbitrary: fc.constantFrom(...UNITS) },
        { weight: 1, arbitrary: fc.string({ unit: anyCharacter, minLength: 1, maxLength: 1 }) },
      ),
      { maxLength: pieces },
    )
    .map((units) => units.join(""));
