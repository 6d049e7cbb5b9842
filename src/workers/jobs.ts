/** The messages between the parser pool and its workers. */
import type { SigningKey } from "../authentication/dkim.ts";
import type { Authentication } from "../authentication/dmarc.ts";
import type { Arrival } from "../authentication/evidence.ts";
import type { RecordType } from "../base/runtime.ts";
import type { AnswerOrder, ReadInvitation } from "../documents/invitation.ts";
import type { DocumentText, FileHints } from "../documents/kind.ts";
import type { Described, OctetsParts } from "../mailbox/composers.ts";
import type { PreparedMessage } from "../mailbox/prepare.ts";
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

/**
 * Work for a worker: reading stored HTML, composing, preparing or recoding a message; for a worker of its own kind, reading a
 * document.
 */
export type Job = { blobFolder: string } & (MessageJob | OctetsJob | RecodingJob | { reading: Reading } | DocumentJob);

/** Composing the octets of a stored message. */
export interface OctetsJob {
  octets: OctetsParts;
  /** Where the worker writes them; without it, they are only described. */
  file?: string;
  /** The folder of the blobs that it reads, under their names, if they are not in the folder of blobs. */
  stage?: string;
}

/** Making content that was signed for sending fit a server that takes less than others. */
export interface RecodingJob {
  recoding: { content: Uint8Array; takes: Carriage; signing: Signing };
}

/** Extracting the text of a document, or reading an invitation and, with `answer`, answering it. */
export type DocumentJob =
  | { document: FileHints & { source: Source } }
  | { invitation: { source: Source; answer?: AnswerOrder | undefined } };

/** Preparing a message; a Composition is composed first. */
export interface MessageJob {
  source: Source | Composition;
  /** The message arrives: the worker authenticates it. */
  arrival?: Arrival;
  /** The folder where attachments wait until they are adopted, as those of an arriving message. The worker makes it. */
  stage?: string;
  /** Blobs are not in the folder of blobs: those that the worker reads are in `stage`, under their names. */
  apart?: true;
  /** Set for a message that cannot be parsed, which the worker only authenticates: the address shown as its author. */
  shownFrom?: string;
  /** The message is being sent: the worker signs it. */
  signing?: Signing;
  /** The message was kept elsewhere: the worker looks for neither a report nor junk tokens. */
  keptElsewhere?: true;
}

/** The result of a job. */
export interface Prepared {
  /** Absent if the job has `shownFrom`. */
  message?: PreparedMessage;
  /** For an arriving message. */
  authentication?: Authentication;
  /** With `stage`, the blobs that were not here yet: their names and durable files. */
  staged?: { name: string; file: string }[];
  /** For a message that is sent, what to transmit: its signatures, then the message. Absent if recoding changes nothing. */
  content?: OutboundContent;
  /** The result of composing octets. */
  octets?: Described;
  /** The result of reading HTML. */
  read?: Read;
  /** The result of reading a document; null when it is none. */
  document?: DocumentText | null;
  /** The result of reading an invitation; null when the file has none. */
  invitation?: ReadInvitation | null;
}
export interface PreparedInbound extends Required<Pick<Prepared, "message" | "authentication">> {
  /** Its attachments, which are no blobs before it is accepted: what is refused leaves none. */
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
export async function keepContent(
  blobs: Pick<Blobs, "write">,
  signatures: Uint8Array,
  message: Uint8Array,
): Promise<OutboundContent> {
  const size = signatures.byteLength + message.byteLength;
  if (size > LARGEST_ROW_CONTENT) return { blob: await blobs.write(signatures, message), size };
  return { bytes: joined(signatures, message) };
}

/** Both in an array of their own. */
export function joined(signatures: Uint8Array, message: Uint8Array): Uint8Array {
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

/** A DNS question of a worker. */
export interface Question {
  /** Unique within the worker. */
  number: number;
  name: string;
  type: RecordType;
  stage: Stage;
}

export type ToWorker = (Job & { id: number }) | { number: number; answer: Answer };

/** The end of a job. */
export type JobReply =
  | { id: number; result: Prepared }
  | { id: number; failure: { message: string; stack: string | undefined; code: string | undefined } };

export type FromWorker = { ready: true } | { id: number; question: Question } | JobReply;

/** The parser hung on a message or document, died of it or failed on it. */
export class UnparseableError extends Error {
  override readonly name = "UnparseableError";
}
