/** MAIL at the MX listener: it begins a transaction, of which a source and its network may begin only so many. */
import type { Runtime } from "../base/runtime.ts";
import type { MailboxRoute } from "../mailbox/addresses.ts";
import type { OutboundMessage } from "../outbound/queue.ts";
import { Refusal } from "../smtp/refusal.ts";
import type { Options } from "../store/settings.ts";
import { createAllowance, type Peer } from "./connect.ts";

/** A recipient that RCPT admitted. It has a route, or is the return path of a message. */
export interface Admitted {
  /** As in RCPT TO. */
  address: string;
  route?: MailboxRoute;
  /** The message that we sent with this address as its return path. */
  sent?: OutboundMessage;
}

/** One message, from MAIL to DATA. */
export interface Transaction {
  /** Empty when nobody is to answer automatically (RFC 5321 §4.5.5). */
  reversePath: string;
  /** Recipients that RCPT admitted, by their spelling there. */
  admitted: Map<string, Admitted>;
}

/** @throws Refusal tooMuchMail */
export type StartMail = (peer: Peer, reversePath: string) => Transaction;

export function createStartMail({
  options,
  runtime,
}: {
  options: Pick<Options, "get">;
  runtime: Pick<Runtime, "now">;
}): StartMail {
  const mayStart = createAllowance(runtime, () => options.get("mx.messagesPerMinute"), "minute", "hour");
  return (peer, reversePath) => {
    if (!peer.isTrusted && !mayStart(peer)) throw new Refusal("tooMuchMail");
    return { reversePath, admitted: new Map() };
  };
}
