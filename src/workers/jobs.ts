/** What the parser pool and its workers say to each other. */
import type { SigningKey } from "../authentication/dkim.ts";
import type { Authentication } from "../authentication/dmarc.ts";
import type { Arrival } from "../authentication/evidence.ts";
import type { PreparedMessage } from "../mailbox/prepare.ts";
import type { Composition } from "../message/composition.ts";
import type { Read, Reading } from "../message/reading.ts";
import type { Answer, RecordType } from "../net/dns-cache.ts";
import type { Source } from "../smtp/spool.ts";

/** How an outbound message is signed; without keys it is not. */
export interface Signing {
  keys: readonly SigningKey[];
  /** Epoch ms. */
  signedAt: number;
}

/** Work for a worker: to read stored HTML, or to prepare a message. */
export type Job = { blobFolder: string } & (MessageJob | { reading: Reading });

/** To prepare a message, after composing it if that is still to be done. */
export interface MessageJob {
  source: Source | Composition;
  /** The message arrives: the worker authenticates it. */
  arrival?: Arrival;
  /**
   * The message could not be parsed before, so the worker does not try again. Readers are shown this address as its
   * author.
   */
  shownFrom?: string;
  /** The message is being sent: the worker signs it. */
  signing?: Signing;
  /** The message was kept elsewhere: the worker looks neither for a report nor for the words that the junk filter counts. */
  keptElsewhere?: true;
}

/** The result of a job. */
export interface Prepared {
  /** Absent when the job said not to parse. */
  message?: PreparedMessage;
  /** Of a message that arrives. */
  authentication?: Authentication;
  /** The bytes to transmit of a message that is sent: its signatures, and then the message. */
  content?: Uint8Array<ArrayBuffer>;
  /** The result of reading HTML. */
  read?: Read;
}
export type PreparedInbound = Required<Pick<Prepared, "message" | "authentication">>;
export type PreparedOutbound = Required<Pick<Prepared, "message" | "content">>;

/**
 * The purpose of a DNS question. Each stage has its own time limit, so a sender whose DNS hangs cannot use up the time for
 * asking what the domain in From wants done.
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

/** A job is done, or failed. */
export type JobReply =
  | { id: number; result: Prepared }
  | { id: number; failure: { message: string; stack: string | undefined; code: string | undefined } };

export type FromWorker = { ready: true } | { id: number; question: Question } | JobReply;

/** The parser hangs on a message, dies of it or fails at it. */
export class UnparseableError extends Error {
  override readonly name = "UnparseableError";
}
