/** The messages between the parser pool and its parsers. */
import type { Signer, SigningKey } from "../authentication/dkim.ts";
import type { Authentication } from "../authentication/dmarc.ts";
import type { SmtpContext } from "../authentication/evidence.ts";
import type { RecordType } from "../base/runtime.ts";
import type { AnswerOrder, ReadInvitation } from "../documents/invitation.ts";
import type { DocumentText, FileHints } from "../documents/kind.ts";
import type { KeptOctets } from "../mailbox/filing/keep-octets.ts";
import type { PreparedMessage } from "../mailbox/filing/prepare.ts";
import type { Described, KeptParts, OctetsParts } from "../mailbox/reading/composers.ts";
import type { Composition } from "../message/composition.ts";
import type { Read, Reading } from "../message/reading.ts";
import type { Carriage } from "../message/recode.ts";
import type { Answer } from "../net/dns-cache.ts";
import type { Source } from "../smtp/spool.ts";
import type { Blobs } from "../store/blobs.ts";

/** How an outbound message is signed; without keys it stays unsigned. */
export interface Signing {
  keys: readonly SigningKey[];
  /** Epoch ms. */
  signedAt: number;
}

/** Signing of a message as a parser gets it: without the keys, which parsers never have. */
export interface SigningOrder {
  signers: readonly Signer[];
  /** Epoch ms. */
  signedAt: number;
}

/** Characters and bytes in a message between the two; what is larger is in a file. */
export const LARGEST_MESSAGE = 256 * 1024;

/** Work for a parser: reading stored HTML, composing, preparing or recoding a message, reading a document. */
export type Job = { blobFolder: string } & (
  | MessageJob
  | OctetsJob
  | KeepingJob
  | RecodingJob
  | { reading: Reading }
  | DocumentJob
);

/** Making the octets of a stored message. */
export interface OctetsJob {
  octets: OctetsParts | KeptParts;
  /** Where the parser writes them; without it, they are only described. */
  file?: string;
  /** The folder of the blobs that it reads, under their names, if they are not in the folder of blobs. */
  stage?: string;
}

/** Composing a stored message, whose octets are kept from now on. */
export interface KeepingJob {
  composed: OctetsParts;
  /** See MessageJob. */
  stage?: string;
  stageOnly?: true;
}

/** Making content that was signed for sending fit a server that takes less than others. */
export interface RecodingJob {
  source: Source;
  recoding: { takes: Carriage; signing: SigningOrder };
}

/** Extracting the text of a document, or reading an invitation and, with `answer`, answering it. */
export type DocumentJob =
  | { document: FileHints & { source: Source } }
  | { invitation: { source: Source; answer?: AnswerOrder | undefined } };

/** Whole lines that go on top of the octets of a message: a Bcc field, or fields of this server. */
export interface TopText {
  lines: string;
  isBcc?: boolean;
  /** The server whose results among the message's own fields are not served. */
  hostname?: string;
}

/** Preparing a message; a Composition is composed first. */
export interface MessageJob {
  source: Source | Composition;
  /** The message arrives: the parser authenticates it. */
  smtpContext?: SmtpContext;
  /** False for a message on which no junk filter has an opinion: the parser looks for no junk tokens. */
  isJudged?: boolean;
  /** The folder where attachments wait until they are adopted, as those of an arriving message. The parser makes it. */
  stage?: string;
  /** Blobs are not in the folder of blobs: those that the parser reads are in `stage`, under their names. */
  stageOnly?: true;
  /** Set for a message that cannot be parsed, which the parser only authenticates: the address shown as its author. */
  shownFrom?: string;
  /** Set for one that could not be authenticated either: only what its envelope and header prove counts. */
  headerOnly?: true;
  /** The message is being sent: the parser has it signed. */
  signing?: SigningOrder;
  /** Whole lines that go on top of its octets; a Bcc field is for its author alone. */
  top?: TopText;
  /** The message was kept elsewhere: the parser looks for neither a report nor junk tokens. */
  isTransferred?: true;
}

/** The result of a job. */
export interface Prepared {
  /** Absent if the job has `shownFrom`. */
  message?: PreparedMessage;
  /** The authentication of an arriving message. */
  authentication?: Authentication;
  /** Blobs that were not here yet, if the job has a `stage`: their names and durable files. */
  staged?: { name: string; file: string }[];
  /** The bytes to transmit of a message that is sent: its signatures, then the message. Absent if recoding changes nothing. */
  content?: OutboundContent;
  /** The result of composing octets. */
  octets?: Described;
  /** The result of composing octets that are kept. */
  kept?: KeptOctets;
  /** The result of reading HTML. */
  read?: Read;
  /** The result of reading a document; null when it is none. */
  document?: DocumentText | null;
  /** The result of reading an invitation; null when the file has none. */
  invitation?: ReadInvitation | null;
}
export interface PreparedInbound extends Required<Pick<Prepared, "message" | "authentication">> {
  /** Attachments, which are no blobs before the message is accepted: a refused message leaves none. */
  staged: Staged;
}

export interface Staged {
  /** How many of them are no blobs yet. */
  readonly count: number;
  /** Makes blobs of them. @throws the error of the file system */
  adopt(blobs: Pick<Blobs, "adopt">): Promise<void>;
  /** Removes what was not adopted. */
  drop(): Promise<void>;
}
export type PreparedOutbound = Required<Pick<Prepared, "message" | "content">>;

/** The bytes to transmit, or the blob that holds them, which is durable already. */
export type OutboundContent = { bytes: Uint8Array } | { blob: string; size: number };

/** Content up to this size, in bytes, is kept in a row; larger content in a blob. */
const LARGEST_ROW_CONTENT = 256 * 1024;

/** Makes large content durable, given in two pieces. @throws the error of the file system */
export async function storeOutboundContent(
  blobs: Pick<Blobs, "write">,
  signatures: Uint8Array,
  message: Uint8Array,
): Promise<OutboundContent> {
  const size = signatures.byteLength + message.byteLength;
  if (size > LARGEST_ROW_CONTENT) return { blob: await blobs.write(signatures, message), size };
  return { bytes: joinSignedMessage(signatures, message) };
}

/** Copies both into one new array. */
export function joinSignedMessage(signatures: Uint8Array, message: Uint8Array): Uint8Array {
  const bytes = new Uint8Array(signatures.byteLength + message.byteLength);
  bytes.set(signatures);
  bytes.set(message, signatures.byteLength);
  return bytes;
}

/**
 * The purpose of a DNS question. Each stage has its own time limit, so that a sender whose DNS hangs cannot use up the
 * time for the policy of the domain in From.
 */
export type Stage = "evidence" | "policy";

/** A question of a parser to the server. */
export type Question = DnsQuestion | SignatureQuestion;

/** The signature of the signer of this index over a canonical header. */
interface SignatureQuestion {
  /** Unique within the parser. */
  number: number;
  signer: number;
  header: Uint8Array;
}

export interface DnsQuestion {
  /** Unique within the parser. */
  number: number;
  name: string;
  type: RecordType;
  stage: Stage;
}

/** `reply`: the file for a result that is too large for a message. */
export type ToParser = (Job & { id: number; reply: string }) | { number: number; answer: Answer | Signature };

/** A signature, or why there is none. */
export type Signature = { signature: Uint8Array } | { unsigned: string };

/** The end of a job; without a result where that is in the file for the reply. */
export type JobReply =
  | { id: number; result?: Prepared }
  | { id: number; failure: { message: string; stack: string | undefined; code: string | undefined } };

export type FromParser = { ready: true } | { id: number; question: Question } | JobReply;

/** The parser hung on a message or document, died of it or failed on it. */
export class UnparseableError extends Error {
  override readonly name = "UnparseableError";
}
