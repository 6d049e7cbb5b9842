/** The receiving of mail about mail that was sent: reports, complaints and answers. */
import type { Authentication } from "../../src/authentication/dmarc.ts";
import type { Admitted } from "../../src/inbound/connect.ts";
import { acceptMessage } from "../../src/inbound/data.ts";
import { resolveRecipient } from "../../src/inbound/rcpt.ts";
import { prepareMessage } from "../../src/mailbox/filing/prepare.ts";
import type { OutboundMessage } from "../../src/outbound/queue.ts";
import { Refusal } from "../../src/smtp/refusal.ts";
import { readMessageSource, type Source } from "../../src/smtp/spool.ts";
import type { ParserPool } from "../../src/workers/parser-pool.ts";
import { sendCore } from "../harness/servers/core.ts";
import { createSender } from "../harness/servers/sent.ts";

interface Arriving {
  /** Recipients as in RCPT TO. */
  to: string[];
  reversePath?: string;
}

/** The result of authentication where DNS knows nothing. */
export const UNCHECKED: Authentication = {
  verdicts: { spf: "none", dkim: "none", dmarc: "none" },
  policy: "none",
  percent: 100,
  results: "mx.example.test; none",
};

/** The result for mail that one of these organisations sent. */
export const from = (...organizations: string[]): Authentication => ({ ...UNCHECKED, organizations });

/** Alice, who has sent mail, and the receiving of what comes back about it. No sockets. */
export function createReceiver(given = UNCHECKED) {
  let authentication = given;
  const sender = createSender();
  const { store } = sender;
  const core = sendCore({ ...sender.core, runtime: sender.runtime });
  const parser: ParserPool = {
    ...core.parser,
    prepare: async (_: unknown, source: unknown) =>
      prepareMessage(await readMessageSource(source as Source), store.blobs),
    prepareInbound: async (source: Source) => ({
      message: await prepareMessage(await readMessageSource(source), store.blobs),
      authentication,
      staged: { count: 0, adopt: async () => {}, drop: async () => {} },
    }),
    authenticate: async () => authentication,
  };
  const verifyOnArrival = async () => {};
  const bob = sender.user(sender.workspaceId, "bob@example.test", "admin");
  sender.world.box(sender.workspaceId, "bob@example.test", bob);

  /** Receives a message as a session does; returns the emailIds, or the refusal. */
  async function receive(mail: string | Uint8Array, { to, reversePath = "" }: Arriving): Promise<string[] | string> {
    const content = typeof mail === "string" ? Buffer.from(mail.replaceAll(/\r?\n/g, "\r\n")) : mail;
    const dsn = { recipients: new Map() };
    const client = { trace: "t", ip: "192.0.2.1", helo: "mx.remote.example", tls: true };
    const envelope = { ...client, reversePath, recipients: to, dsn };
    try {
      const recipients: Admitted[] = [];
      for (const recipient of to) {
        recipients.push(await resolveRecipient(core, verifyOnArrival, recipient, content.byteLength));
      }
      const { emailIds } = await acceptMessage(
        { ...core, parser },
        envelope,
        recipients,
        (async function* () {
          yield content;
        })(),
      );
      return emailIds;
    } catch (error) {
      if (error instanceof Refusal) return `${error.responseCode} ${error.message}`;
      throw error;
    }
  }

  /** Subjects of the mail that came, by the mailbox it is in. */
  const came = () =>
    sender
      .events()
      .filter(({ event }) => event === "message.inbound")
      .map(({ data }) => `${data.mailbox}: ${data.subject}`);

  /** The traces of a report that counted. */
  const traces = (message: OutboundMessage) => ({
    told: sender.told().filter(({ event }) => event !== "message.delivered"),
    suppressed: sender.suppressed(),
    states: sender.states(message),
    deliveredAt: sender.deliveredAt(message),
    notices: sender.notices(message).length,
  });

  return {
    ...sender,
    receive,
    came,
    traces,
    bob,
    /** Authenticates later mail so. */
    authenticateAs(given: Authentication): void {
      authentication = given;
    },
  };
}
