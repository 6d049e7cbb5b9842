/** The role of a listener decides what SMTP commands do: MX (inbound/mx.ts) or submission (outbound/submission.ts). */

import type { TransactionDsn } from "./dsn.ts";

export interface SmtpRole {
  /** The parameters that MAIL may have; any other is an error (RFC 5321 §4.1.1.11). */
  readonly mailParameters: readonly string[];
  /** The parameters that RCPT may have. DSN is offered where both lists have those of RFC 3461. */
  readonly rcptParameters: readonly string[];
  /** Clients must sign in, under TLS, before they send mail. */
  readonly requiresAuth: boolean;
  /** Most recipients of one message; further ones are put off. */
  maxRecipients(): number;
  /** Tells whether a client may exceed its share of connections, and speak out of turn. */
  isTrusted(ip: string): boolean;
  /** Tells whether a client has shown that its mail is wanted: connections are kept for such clients. */
  isKnown?(ip: string): boolean;
  /** Opens a session; called once a connection. @throws Refusal when it is not admitted */
  open(client: { trace: string; ip: string }): SmtpCommands;
}

/** The commands of one connection. Any error other than a Refusal is a fault of ours. */
export interface SmtpCommands {
  /** Handles AUTH; absent where nobody signs in. Resolves when the credentials are right. @throws Refusal */
  authenticate?(credentials: Credentials): Promise<void>;
  /** Handles MAIL. `reversePath` is empty for a bounce (RFC 5321 §4.5.5). @throws Refusal */
  startMail(reversePath: string): void;
  /** Handles RCPT; a refusal may be delayed. `declaredSize` is that of MAIL, 0 when none was given. @throws Refusal */
  admitRecipient(recipient: string, declaredSize: number): void | Promise<void>;
  /** Handles DATA, to the last byte of `content`. Resolves with the text of the 250. @throws Refusal */
  acceptMessage(envelope: Envelope, content: AsyncIterable<Uint8Array>): Promise<string>;
}

/** The client, and its commands before DATA. */
export interface Envelope {
  /** Trace id of the SMTP session. */
  trace: string;
  ip: string;
  /** The name in EHLO. */
  helo: string;
  tls: boolean;
  /** Empty for a bounce (RFC 5321 §4.5.5). */
  reversePath: string;
  /** Addresses as in RCPT TO, in order. */
  recipients: readonly string[];
  dsn: TransactionDsn;
}

export interface Credentials {
  username: string;
  password: string;
}
