/**
 * An appliance in which alice, who owns the workspace, shares her mailbox with max, a member who has one of his own, for
 * viewing only. Both have keys.
 */
import type { Client } from "../clients/api.ts";
import { type Letter, letter, mailer } from "../mail/mail.ts";
import { type Booted, boot } from "./boot.ts";

export const ALICE = "alice@example.test";
export const MAX = "max@example.test";

export interface ExtWorld extends Booted {
  /** The API with max's key. */
  asMax: Client;
  maxId: string;
  maxKeyId: string;
  maxMailboxId: string;
  /** Delivers mail to the address; returns the ids of the conversation and the message. */
  receive(
    to: string,
    subject: string,
    more?: Pick<Letter, "from" | "headers" | "text" | "date" | "messageId">,
  ): Promise<{ threadId: string; emailId: string }>;
}

export async function bootExt(...given: Parameters<typeof boot>): Promise<ExtWorld> {
  const booted = await boot(...given);
  const { server, apiWith, mx } = booted;
  const max = booted.join(MAX, "member", { name: "Max", access: "view" });
  return {
    ...booted,
    asMax: apiWith(max.key),
    maxId: max.userId,
    maxKeyId: max.keyId,
    maxMailboxId: max.mailboxId,
    async receive(to, subject, more = {}) {
      const sender = mailer(mx);
      await sender.send({ from: "carol@remote.example", to }, letter({ to, subject, text: "Hello", ...more }));
      sender.close();
      const { body } = await booted.api.get<{ messages: { id: string; threadId: string; subject: string }[] }>(
        `/messages?mailbox=${to}&direction=inbound&limit=100`,
      );
      const message = body.messages.find((found) => found.subject === subject);
      if (!message) throw new Error("the message was not filed");
      await server.settled();
      return { threadId: message.threadId, emailId: message.id };
    },
  };
}
