/** Prepares the octets of mail that was filed without any for keeping. Uses no database, so that a parser can run it. */
import { createHtmlBudget } from "../../message/markup.ts";
import { parseMessage } from "../../message/parse.ts";
import { unpackText } from "../../message/reading.ts";
import { cutSkeleton } from "../../message/skeleton.ts";
import type { Blobs } from "../../store/blobs.ts";
import {
  type ComposeStored,
  composeMessageFile,
  composeOctets,
  describeOctets,
  type OctetsParts,
} from "../reading/composers.ts";
import { digestOctets, type KeptOctets, keepOctets, locateTexts, NO_TOP } from "./keep-octets.ts";

/** Runs `keepComposed` elsewhere, for `owner` (an id) who waits for it, or as bulk work. @throws AppError server_error 503 if it cannot be done now */
export type KeepComposed = (parts: OctetsParts, owner?: string) => Promise<KeptOctets>;

/** Composes a stored message, and prepares its octets for keeping. Rejects with the error of a blob that cannot be read or written. */
export async function keepComposed(parts: OctetsParts, blobs: Pick<Blobs, "read" | "write">): Promise<KeptOctets> {
  const bytes = await composeMessageFile(parts, blobs.read, parts.trace);
  const parsed = await parseMessage(bytes, createHtmlBudget());
  const positions = new Map(parts.files.map(({ blob }, position) => [blob, position]));
  const files = parsed.attachments.flatMap(({ source, content }) => {
    const position = positions.get(digestOctets(content).toString("hex"));
    return source && position !== undefined ? [{ ...source, position, content }] : [];
  });
  const texts = locateTexts(bytes, parsed, { text: parts.text, html: parts.html && unpackText(parts.html) });
  return keepOctets({ bytes, skeleton: cutSkeleton(bytes, [...files, ...texts]) }, NO_TOP, blobs);
}

/** Does on this thread what a server has its parsers do. */
export const createLocalComposers = (
  blobs: Pick<Blobs, "read" | "write">,
): { composeStored: ComposeStored; keepComposed: KeepComposed } => ({
  async composeStored(parts) {
    const composed = await composeOctets(parts, blobs.read);
    return { ...describeOctets(composed), bytes: composed.content.bytes };
  },
  keepComposed: (parts) => keepComposed(parts, blobs),
});
