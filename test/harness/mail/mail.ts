/** Sends mail as other servers do, with nodemailer over a real socket. */
import { createTransport } from "nodemailer";

export interface Handed {
  /** The server's final reply. */
  reply: string;
}

export interface Sender {
  /** Sends a message. Rejects with nodemailer's error (`responseCode`, `response`) when the server refuses it. */
  send(envelope: { from: string; to: string | string[] }, raw: string | Uint8Array): Promise<Handed>;
  close(): void;
}

/** Keeps up to `connections` connections open. `starttls: false`: without TLS. */
export function mailer(
  mx: { host: string; port: number },
  options: { connections?: number; starttls?: boolean } = {},
): Sender {
  const transport = createTransport({
    ...mx,
    pool: true,
    maxConnections: options.connections ?? 1,
    maxMessages: Number.POSITIVE_INFINITY,
    ignoreTLS: options.starttls === false,
    requireTLS: options.starttls !== false,
    tls: { rejectUnauthorized: false },
  });
  return {
    async send(envelope, raw) {
      const { response } = await transport.sendMail({
        envelope: { from: envelope.from, to: envelope.to },
        raw: typeof raw === "string" ? raw.replaceAll(/\r?\n/g, "\r\n") : Buffer.from(raw),
      });
      return { reply: response };
    },
    close: () => transport.close(),
  };
}

let counter = 0;

export interface Letter {
  from?: string;
  to?: string;
  cc?: string;
  subject?: string;
  text?: string;
  /** Further header lines, each `Name: value`. */
  headers?: string[];
  messageId?: string;
  date?: string;
}

/** Writes a plain message, by default with a Message-ID of its own. */
export function letter({ from, to, cc, subject, text, headers = [], messageId, date }: Letter = {}): string {
  return [
    `From: ${from ?? "Carol <carol@remote.example>"}`,
    `To: ${to ?? "alice@example.test"}`,
    ...(cc === undefined ? [] : [`Cc: ${cc}`]),
    `Subject: ${subject ?? "Hello"}`,
    `Message-ID: ${messageId ?? `<letter-${++counter}@remote.example>`}`,
    `Date: ${date ?? "Mon, 05 Jan 2026 08:00:00 +0000"}`,
    ...headers,
    "MIME-Version: 1.0",
    "Content-Type: text/plain; charset=utf-8",
    "",
    text ?? "How are you?",
    "",
  ].join("\n");
}
