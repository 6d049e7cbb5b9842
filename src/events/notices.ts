/**
 * Mails the admins once about an endpoint that the server disabled (rules: Webhook delivery states). The transaction that
 * disables the endpoint marks the notice as due, and the transaction that files the notice clears the mark, so a crash in
 * between neither loses nor repeats it.
 */
import type { Job } from "../base/scheduler.ts";
import type { Store, Tx } from "../store/store.ts";
import { type Endpoint, setTold, untold } from "./endpoints.ts";

export interface DisabledNoticesParts {
  store: Pick<Store, "db">;
  /** Mails the owners and admins of a workspace. `record` runs in the same transaction, and may run twice. */
  notifyAdmins(notice: { workspaceId: string; subject: string; text: string }, record: (tx: Tx) => void): Promise<void>;
  /** The public origin of this server. */
  baseUrl: string;
}

export function createDisabledNotices({ store, notifyAdmins, baseUrl }: DisabledNoticesParts): Job {
  return {
    name: "webhook-notices",
    async runDue() {
      let failure: unknown;
      for (const endpoint of untold(store.db)) {
        const { workspaceId, url } = endpoint;
        const subject = `Webhook switched off: ${new URL(url).host}`;
        const notice = { workspaceId, subject, text: textOf(endpoint, baseUrl) };
        // A failure in one workspace does not hold up the notices of the others; the job tries it again.
        await notifyAdmins(notice, (tx) => setTold(tx, endpoint)).catch((error) => {
          failure ??= error;
        });
      }
      if (failure !== undefined) throw failure;
      return null;
    },
  };
}

/** Each paragraph is one line: the reader's mail program wraps it. */
const textOf = ({ id, url, events, disabledAt, exhausted }: Endpoint, baseUrl: string): string =>
  [
    disabledAt === null
      ? `The webhook endpoint ${url} (${id}) was switched off: too many deliveries in a row came to nothing, after all their attempts. It has been switched on again since.`
      : `The webhook endpoint ${url} (${id}) was switched off on ${new Date(disabledAt).toUTCString()}: ${exhausted} deliveries in a row came to nothing, after all their attempts.`,
    `It was told of ${events.join(", ")}. While it is off, nothing is sent to it and nothing is kept for it; mail itself comes and goes as ever.`,
    "When the receiver works again, send it a test and switch the endpoint on:",
    `    mailroom webhook test ${id}\n    mailroom webhook enable ${id}`,
    `What was not delivered can be sent again one by one (mailroom webhook deliveries ${id}, then resend), or read over the API at ${baseUrl}.`,
  ].join("\n\n");
