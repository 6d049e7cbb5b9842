/** The text of an RTF file. Pictures, objects, style sheets and other tables are not text; hidden and deleted text is counted. */
import { parseRtf as readInto } from "../message/rtf.ts";
import { type Text, Unreadable } from "./extracted-text.ts";

export function readRtf(bytes: Uint8Array, text: Text): void {
  if (!readInto(bytes, text)) throw new Unreadable("groups are too deep inside each other");
}
