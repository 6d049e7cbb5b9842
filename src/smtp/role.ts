/** What a listener asks of the role it plays, MX (mx.ts) or submission (submission.ts): what SMTP's commands mean. */

export interface SmtpRole {
  /** The parameters that MAIL may have: whatever other is an error (RFC 5321 §4.1.1.11). */
  readonly mailParameters: readonly string[];
  /** Somebody has to sign in, under TLS, before there is mail. */
  readonly requiresAuth: boolean;
  /** Recipients of one message that are taken; the next are put off. */
  maxRecipients(): number;
  /** Whether a client may do what strangers may not: take more than its share, and speak out of turn. */
  isTrusted(ip: string): boolean;
  /** Called once a connection. @throws Refusal when it is not let in */
  open(client: { trace: string; ip: string }): SmtpSession;
}

/** The commands of one connection. What they throw and is no Refusal is a fault of ours. */
export interface SmtpSession {
  /** AUTH. Resolves when it is them; absent where nobody signs in. @throws Refusal */
  authenticate?(credentials: Credentials): Promise<void>;
  /** MAIL. `reversePath` is empty for a bounce (RFC 5321 §4.5.5). @throws Refusal */
  startMail(reversePath: string): void;
  /** RCPT, of which a refusal may take a while. `declaredSize` is that of MAIL, 0 when none was given. @throws Refusal */
  admitRecipient(recipient: string, declaredSize: number): void | Promise<void>;
  /** DATA, to the last byte of `content`. Resolves with the text of the 250. @throws Refusal */
  acceptMessage(envelope: Envelope, content: AsyncIterable<Uint8Array>): Promise<string>;
}

/** What the client said before DATA, and who it is. */
export interface Envelope {
  /** Of the SMTP session. */
  trace: string;
  ip: string;
  /** What it called itself in EHLO. */
  helo: string;
  tls: boolean;
  /** Empty for a bounce (RFC 5321 §4.5.5). */
  reversePath: string;
  /** As in RCPT TO, in order. */
  recipients: readonly string[];
}

export interface Credentials {
  username: string;
  password: string;
}
