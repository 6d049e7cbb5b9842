/** A whole appliance for people's mail apps, and a remote server that gets their mail. */
import { expect } from "bun:test";
import * as people from "../../../src/admin/people.ts";
import { connectSmtp, type SmtpClient } from "../clients/smtp-client.ts";
import { zone } from "../peers/dns-server.ts";
import { deliverTo, type RemoteMessage, type RemoteMx, startRemoteMx } from "../peers/remote-mx.ts";
import { quickHash } from "../quick-hash.ts";
import { type Booted, boot } from "./boot.ts";
import { authPlain, PASSWORD } from "./submission-rig.ts";

const hash = quickHash(PASSWORD);

export interface World extends Booted {
  remote: RemoteMx;
}

/**
 * Starts an appliance with a scripted server for remote.example; the server for old.example has the same port at 127.0.0.2. Alice
 * has PASSWORD.
 */
export async function world(env: Record<string, string> = {}): Promise<World> {
  const remote = await startRemoteMx({});
  const booted = await boot(
    env,
    zone({
      "remote.example": { mx: [[10, "mx.remote.example"]] },
      "mx.remote.example": { a: [remote.host] },
      "old.example": { mx: [[10, "mx.old.example"]] },
      "mx.old.example": { a: ["127.0.0.2"] },
    }),
  );
  const { core, opened, owner } = booted;
  const passwordHash = await hash;
  deliverTo(remote, core);
  core.store.transact((tx) => people.setPassword(opened.core, tx, owner.userId, passwordHash));
  return { ...booted, remote };
}

/** Observes sent and relayed mail from now on, in an appliance that several tests share. */
export async function watch(it: World) {
  await it.server.settled();
  const before = new Set((await sentMail(it)).map(({ id }) => id));
  const relayed = it.remote.messages.length;
  return {
    /** The messages in Sent, newest first. */
    sent: async () => (await sentMail(it)).filter(({ id }) => !before.has(id)),
    /** The messages at the remote server, when the queue is idle. */
    async relayed(): Promise<RemoteMessage[]> {
      await it.server.settled();
      return it.remote.messages.slice(relayed);
    },
  };
}

interface Message {
  id: string;
  direction: string;
  messageId: string;
  subject: string;
  text: string;
  to: { email: string }[];
  bcc?: { email: string; name?: string }[];
}

/** Reads the messages in Sent as their sender sees them, newest first. */
async function sentMail({ api }: World): Promise<Message[]> {
  const { body } = await api.get<{ messages: { id: string }[] }>("/messages?folder=sent");
  const read = async (id: string) => (await api.get<{ message: Message }>(`/messages/${id}`)).body.message;
  return Promise.all(body.messages.map(({ id }) => read(id)));
}

/** Notice of the server to Alice about a message. */
export interface Notice {
  subject: string;
  text: string;
  /** The parts after the text, as the API serves them. */
  parts: string[];
}

/** The notices of the server, oldest first. */
export async function noticesOf({ server, api }: World): Promise<Notice[]> {
  await server.settled();
  const { body } = await api.get<{ messages: { id: string; from: { email: string } }[] }>("/messages");
  const ids = body.messages.filter(({ from }) => from.email === "postmaster@example.test").map(({ id }) => id);
  return Promise.all(
    ids.reverse().map(async (id) => {
      type Read = { message: { subject: string; text: string; attachments: { id: string }[] } };
      const { subject, text, attachments } = (await api.get<Read>(`/messages/${id}`)).body.message;
      const read = async (attachment: string) =>
        Buffer.from((await api.bytes(`/attachments/${attachment}`)).body).toString();
      return { subject, text, parts: await Promise.all(attachments.map(({ id }) => read(id))) };
    }),
  );
}

export async function signedIn({ submission }: World): Promise<SmtpClient> {
  const client = await connectSmtp(submission);
  await client.expect(220, "STARTTLS");
  await client.secure();
  await client.expect(250, "EHLO client.example");
  expect((await authPlain(client, "alice@example.test", PASSWORD)).code).toBe(235);
  return client;
}
