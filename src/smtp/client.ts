/**
 * A session with a mail host (RFC 5321): AUTH, transactions, and the result for each recipient.
 *
 * Invariant: a recipient is accepted only if the remote replied 2yz to RCPT for it and then to the end of the message.
 */
import { isAscii } from "node:buffer";
import type { SMTPConnectionEnvelope, SMTPConnectionSendInfo, SMTPEnvelope } from "nodemailer/lib/smtp-connection";
import {
  type ClientContext,
  describeSmtpError,
  isSmtpRefusalCode,
  openSmtpConnection,
  resultWithoutReply,
  type SmtpConnection,
  type SmtpError,
  type Target,
} from "./client-connection.ts";
import { DeliveryFailure, type DeliveryResult, toDeliveryResult } from "./delivery-result.ts";
import { formatMailDsnParameters, formatRcptDsnParameters, type TransactionDsn } from "./dsn.ts";

export interface Transaction {
  /** Reverse-path without angle brackets; "" for the null reverse-path. */
  reversePath: string;
  /** Addresses without angle brackets, domains in A-labels; no two the same. */
  recipients: readonly string[];
  /** The message, its lines ending in CRLF. */
  content: Uint8Array;
  /** Makes the message fit a remote that does not offer what it needs, as far as that is possible. */
  recode?(offers: Offers): Promise<Uint8Array>;
  /** Given to a remote that supports DSN. */
  dsn?: TransactionDsn;
}

export interface Transmission {
  /** Results, one for each recipient, in order. */
  results: DeliveryResult[];
  /** The connection ended before the remote decided about any recipient: nothing was transmitted. */
  unstarted: boolean;
}

export interface ClientCredentials {
  user: string;
  pass: string;
}

export interface SmtpSession {
  /** @throws DeliveryFailure, always deferred; its code is 5yz when the remote refuses the credentials */
  authenticate(credentials: ClientCredentials): Promise<void>;
  /** Rejects only as `recode` of the transaction does. */
  transmit(transaction: Transaction): Promise<Transmission>;
  /** Tells whether a transaction may be sent over it now. */
  usable(): boolean;
  /**
   * Tells whether the message is being transmitted or its reply is awaited: ending the session now might deliver it
   * twice.
   */
  isTransmitting(): boolean;
  /** Sends QUIT. A transaction under way ends at once, and fails. */
  close(): void;
}

const COMMAND_MS = 5 * 60_000;
/** Time limit of a whole transaction. nodemailer ends one after 10 minutes of silence (RFC 5321 §4.5.3.2.6). */
const TRANSACTION_MS = 20 * 60_000;

/** The extensions 8BITMIME (RFC 6152) and SMTPUTF8 (RFC 6531): what a remote offers, or a message needs. */
interface Offers {
  eightBit: boolean;
  utf8: boolean;
}

/** The replies that nodemailer notes in the envelope that it is given, even when the connection is lost. */
type NotedReplies = Pick<SMTPConnectionEnvelope, "accepted" | "rejectedErrors"> & { mailError: SmtpError };

/** Opens a session. @throws DeliveryFailure; its result has a `code` when the remote replied and refused */
export async function openSmtpSession(target: Target, context: ClientContext): Promise<SmtpSession> {
  const connection = await openSmtpConnection(target, context);
  /** The remote may still hold a transaction, which RSET ends. */
  let unfinished = false;

  async function transact(reversePath: string, recipients: readonly string[], content: Buffer, needs: Offers) {
    const { nodemailer } = connection;
    const envelope: SMTPEnvelope & Partial<NotedReplies> = {
      from: reversePath === "" ? false : reversePath,
      to: [...recipients],
      size: content.length,
      use8BitMime: needs.eightBit,
    };
    nodemailer.hasBegun = false;
    nodemailer.declaresUtf8 = needs.utf8 && [reversePath, ...recipients].every(isAsciiText);
    try {
      if (unfinished) await connection.exchange<boolean>(COMMAND_MS, (done) => nodemailer.reset(done));
      unfinished = true;
      const info = await connection.exchange<SMTPConnectionSendInfo>(TRANSACTION_MS, (done) =>
        nodemailer.send(envelope, content, done),
      );
      unfinished = false;
      return collectRoundResults(connection.target, recipients, envelope, info.response);
    } catch (error) {
      // RSET was refused, so the effect of another MAIL is unknown.
      if ((error as SmtpError).command === "RSET") connection.close();
      return collectRoundResults(connection.target, recipients, envelope, error as SmtpError);
    }
  }

  return {
    async authenticate(credentials) {
      const { target, nodemailer } = connection;
      try {
        await connection.exchange<boolean>(COMMAND_MS, (done) => nodemailer.login({ ...credentials }, done));
      } catch (thrown) {
        connection.close();
        const error = thrown as SmtpError;
        const { responseCode: code, response = "" } = error;
        throw new DeliveryFailure(
          isSmtpRefusalCode(code)
            ? toDeliveryResult({ command: "auth", code, text: response, remote: target.host })
            : resultWithoutReply(target, "4.4.2", describeSmtpError(error)),
        );
      }
    },

    async transmit({ reversePath, recipients, content, recode, dsn }) {
      const bytes = await contentFor(connection, content, recode);
      const needs = neededExtensions(bytes);
      needs.utf8 ||= !isAsciiText(reversePath);
      const results = new Map<string, DeliveryResult>();
      for (const recipient of recipients) {
        const obstacle = obstacleFor(connection, recipient, bytes.length, needs);
        if (obstacle) results.set(recipient, obstacle);
      }
      const given = connection.offered.has("DSN") ? dsn : undefined;
      connection.nodemailer.parameters = given && {
        mail: formatMailDsnParameters(given),
        rcpt: new Map([...given.recipients].map(([recipient, dsn]) => [recipient, formatRcptDsnParameters(dsn)])),
      };
      let left = recipients.filter((recipient) => !results.has(recipient));
      let unstarted = false;
      for (let rounds = 0; left.length > 0; rounds++) {
        const round = await transact(reversePath, left, bytes, needs);
        for (const [recipient, result] of round.results) results.set(recipient, result);
        unstarted = round.unstarted && rounds === 0;
        // Recipients beyond the limit of one transaction go into another, while some are accepted each time.
        left = round.taken ? left.filter((recipient) => wasTooMany(results.get(recipient))) : [];
      }
      const ofAll = recipients.flatMap((recipient) => results.get(recipient) ?? []);
      return { results: given ? ofAll.map((result) => ({ ...result, reports: true })) : ofAll, unstarted };
    },
    usable: connection.usable,
    isTransmitting: () => connection.nodemailer.hasBegun && !connection.nodemailer.destroyed,
    close: connection.close,
  };
}

/** The message as this connection carries it, as far as it can be brought into such a form. */
async function contentFor(
  { offered }: SmtpConnection,
  content: Uint8Array,
  recode: Transaction["recode"],
): Promise<Buffer> {
  const bytes = toBuffer(content);
  const eightBit = offered.has("8BITMIME");
  // RFC 6531 §3.1: only together with 8BITMIME.
  const utf8 = eightBit && offered.has("SMTPUTF8");
  return isAscii(bytes) || utf8 || !recode ? bytes : toBuffer(await recode({ eightBit, utf8 }));
}

function neededExtensions(content: Buffer): Offers {
  const eightBit = !isAscii(content);
  return { eightBit, utf8: eightBit && !isAscii(sliceHeaderSection(content)) };
}

const toBuffer = ({ buffer, byteOffset, byteLength }: Uint8Array): Buffer =>
  Buffer.from(buffer, byteOffset, byteLength);

/** Returns the result for a recipient to whom this connection cannot carry the message; undefined when it can. */
function obstacleFor(
  { offered, target: { host } }: SmtpConnection,
  recipient: string,
  size: number,
  needs: Offers,
): DeliveryResult | undefined {
  // The stage is EHLO: the remote lacks support, and the address is not at fault.
  const because = (status: string, text: string) => toDeliveryResult({ command: "ehlo", status, text, remote: host });
  const limit = Number(offered.get("SIZE") || 0);
  if (limit > 0 && size > limit) return because("5.3.4", `${host} takes no message of more than ${limit} bytes`);
  if ((needs.utf8 || !isAsciiText(recipient)) && !offered.has("SMTPUTF8")) {
    return because("5.6.7", `${host} takes no internationalised mail (SMTPUTF8)`);
  }
  if (needs.eightBit && !offered.has("8BITMIME")) {
    return because("5.6.3", `${host} takes no 8-bit mail (8BITMIME), and this message must not be re-encoded`);
  }
  // Such characters are legal within quotes, but nodemailer refuses them.
  if (/[\p{Cc}<>]/u.test(recipient)) return because("5.1.3", "the address holds a character that cannot be sent");
  return undefined;
}

interface Round {
  results: Map<string, DeliveryResult>;
  /** The remote accepted the message, for one recipient at least. */
  taken: boolean;
  unstarted: boolean;
}

/** Returns the results of a transaction. `end`: the reply to the message, or the error that ended the transaction. */
function collectRoundResults(
  target: Target,
  recipients: readonly string[],
  { accepted = [], rejectedErrors = [], mailError }: Partial<NotedReplies>,
  end: string | SmtpError,
): Round {
  const refusals = new Map(rejectedErrors.map((error: SmtpError) => [error.recipient, error]));
  const rest =
    typeof end === "string"
      ? toDeliveryResult({ command: "data", code: Number(end.slice(0, 3)), text: end, remote: target.host })
      : resultOfFailure(target, end, accepted.length);
  const resultFor = (recipient: string): DeliveryResult => {
    // A remote that has refused MAIL refuses each pipelined RCPT as well, because there is no sender.
    if (mailError) return resultOfReply(target, "mail", mailError);
    const refusal = refusals.get(recipient);
    return refusal ? resultOfReply(target, "rcpt", refusal) : rest;
  };
  const replies = mailError ? [mailError, ...refusals.values()] : [...refusals.values()];
  return {
    results: new Map(recipients.map((recipient) => [recipient, resultFor(recipient)])),
    taken: typeof end === "string",
    unstarted:
      typeof end !== "string" && accepted.length === 0 && replies.every(({ responseCode }) => responseCode === 421),
  };
}

/** Returns the result for recipients that were accepted, or had no reply yet, when the transaction failed. */
function resultOfFailure(target: Target, error: SmtpError, accepted: number): DeliveryResult {
  const { command, responseCode: code, response } = error;
  if (command === "DATA") {
    const result = resultOfReply(target, "data", error);
    // With several recipients, the reply does not tell which one it is about.
    return accepted > 1 ? { ...result, hard: false } : result;
  }
  // Any other text that comes with the loss of a connection may be a reply to no command.
  return code === 421 && response !== undefined
    ? toDeliveryResult({ command: "data", code, text: response, remote: target.host })
    : resultWithoutReply(target, "4.4.2", describeSmtpError(error));
}

function resultOfReply(target: Target, command: "mail" | "rcpt" | "data", error: SmtpError): DeliveryResult {
  const { responseCode: code, response } = error;
  if (!isSmtpRefusalCode(code) || response === undefined)
    return resultWithoutReply(target, "4.5.0", describeSmtpError(error));
  return toDeliveryResult({ command, code, text: response, remote: target.host });
}

/**
 * Tells whether the server took no more recipients: 452, or 552 from older servers (RFC 5321 §4.5.3.1.10), with RFC
 * 3463's status.
 */
function wasTooMany(result: DeliveryResult | undefined): boolean {
  return (result?.code === 452 || result?.code === 552) && /^[45]\.5\.3$/.test(result.status ?? "");
}

const isAsciiText = (text: string): boolean => isAscii(Buffer.from(text));

function sliceHeaderSection(content: Buffer): Buffer {
  const end = content.indexOf("\r\n\r\n");
  return end < 0 ? content : content.subarray(0, end);
}
