/**
 * An appliance in which alice, who owns the workspace, shares her mailbox with max, a member who has one of his own, for
 * viewing only. Both have keys.
 */

import * as developers from "../../../src/admin/developers.ts";
import * as mailboxAdmin from "../../../src/admin/mailboxes.ts";
import * as people from "../../../src/admin/people.ts";
import { MAIL_SCOPES, type Scope } from "../../../src/store/schema.ts";
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
  keyFor(userId: string, scopes: readonly Scope[]): Client;
  /** Delivers mail to the address; returns the ids of the conversation and the message. */
  receive(
    to: string,
    subject: string,
    more?: Pick<Letter, "from" | "headers" | "text" | "date" | "messageId">,
  ): Promise<{ threadId: string; emailId: string }>;
}

export async function bootExt(...given: Parameters<typeof boot>): Promise<ExtWorld> {
  const booted = await boot(...given);
  const { opened, server, apiWith, owner, mx } = booted;
  const {
    core: { store },
    core,
  } = opened;
  const max = store.transact((tx) => {
    const { workspaceId } = owner;
    const made = people.addUser(core, tx, { workspaceId, email: MAX, name: "Max", role: "member", ownMailbox: true });
    mailboxAdmin.grant(tx, owner.mailboxId, made.userId, "view");
    return {
      ...made,
      key: developers.createKey(core, tx, { userId: made.userId, name: "Max's tests", scopes: MAIL_SCOPES }),
    };
  });
  return {
    ...booted,
    asMax: apiWith(max.key.key),
    maxId: max.userId,
    maxKeyId: max.key.id,
    maxMailboxId: max.mailboxId ?? "",
    keyFor: (userId, scopes) =>
      apiWith(store.transact((tx) => developers.createKey(core, tx, { userId, name: "Another", scopes })).key),
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
