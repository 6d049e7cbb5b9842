/** The message byte for byte, as its reader is served it (rules: Originals). */
import { eq, sql } from "drizzle-orm";
import { type Caller, findReach, isKeyDeniedSignInCodes, outOfReachError } from "../../access/caller.ts";
import { PolicyRefusal } from "../../access/policy.ts";
import { messages } from "../../store/schema.ts";
import { prepared } from "../../store/statement.ts";
import type { MailCore } from "../state/mail-core.ts";
import { type Composed, composeInParser, composeOctets } from "./composers.ts";
import { type KeptDescription, readKeptParts } from "./kept-octets.ts";
import { SMALL_MESSAGE } from "./messages.ts";
import { findServedOctets } from "./missing-octets.ts";

const queries = prepared((db) => ({
  reached: db
    .select({ seq: messages.seq, mailboxId: messages.mailboxId })
    .from(messages)
    .where(eq(messages.id, sql.placeholder("id")))
    .prepare(),
}));

/** True for octets that are put together on the main thread when they are read. */
export const areSmallOctets = ({ size }: KeptDescription): boolean => size <= SMALL_MESSAGE;

/** Puts octets together, small ones on this thread. @throws DamagedSkeleton; as composeOctets and composeInParser */
export function readServedOctets(
  { db, blobs, parser }: MailCore,
  kept: KeptDescription,
  userId: string,
): Promise<Composed> {
  const parts = readKeptParts(db, kept);
  return areSmallOctets(kept) ? composeOctets(parts, blobs.read) : composeInParser(parser, parts, userId);
}

/** A message byte for byte, as a download. */
export interface Original {
  filename: string;
  contentType: string;
  /** Number of octets, and their SHA-256. */
  size: number;
  digest: Uint8Array;
  /** Puts the octets together, in a file's memory if they are large. @throws as readServedOctets */
  read(): Promise<Uint8Array>;
}

/**
 * The message as the caller is served it over IMAP. @throws AppError not_found, PolicyRefusal for a key that reads no codes,
 * which are not masked in it; as readServedOctets
 */
export async function getOriginal(core: MailCore, caller: Caller, id: string): Promise<Original> {
  const { userId } = caller;
  const found = queries(core.db).reached.get({ id });
  if (!found || !findReach(core.db, caller, found.mailboxId)) throw outOfReachError("message");
  if (isKeyDeniedSignInCodes(caller)) {
    throw new PolicyRefusal(
      "forbidden",
      "The policy of this API key hides one-time codes, and an original has them: get the message, or its raw file",
    );
  }
  const kept = await findServedOctets(core, found.seq, userId);
  if (!kept) throw outOfReachError("message");
  const file = { filename: `${id}.eml`, contentType: "message/rfc822", size: kept.visibleSize };
  const read = () => readServedOctets(core, kept, userId);
  if (kept.visibleDigest) {
    return { ...file, digest: kept.visibleDigest, read: async () => (await read()).content.bytes };
  }
  const { content, digest } = await read();
  return { ...file, digest, read: async () => content.bytes };
}
