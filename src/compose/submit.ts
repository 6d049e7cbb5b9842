/** Hands messages that were made of requests to the sending pipeline, and answers as the API does. */
import type { Caller } from "../access/caller.ts";
import { toIsoTime } from "../base/time.ts";
import { type Sent, type Submission, submitMessage } from "../outbound/accept.ts";
import type { SendCore } from "../outbound/send-core.ts";
import type { Tx } from "../store/store.ts";
import { compositionFile, type OutgoingFile, storeFiles } from "./attached-files.ts";
import type { OutgoingMessage } from "./outgoing.ts";
import type { SendView } from "./sending-views.ts";

/** Records the response in the accepting transaction; may run twice, the first time rolled back. */
export type RecordResponse = (tx: Tx, response: SendView) => void;

/** Submits a message. `files` become durable once the guardrails have passed the message. @throws AppError as submitMessage */
export async function submitOutgoing(
  core: SendCore,
  caller: Caller,
  { composition, ...message }: OutgoingMessage & Pick<Submission, "isDue" | "heldUntil">,
  threadId?: string,
  record?: RecordResponse,
  files: readonly OutgoingFile[] = [],
): Promise<SendView> {
  const submission = {
    caller,
    ...message,
    ...(threadId !== undefined && { threadId }),
    bytes: sumFileSizes(files),
    compose: async () =>
      files.length === 0 ? composition : { ...composition, files: (await storeFiles(files)).map(compositionFile) },
  };
  return toSendView(await submitMessage(core, submission, record && ((tx, sent) => record(tx, toSendView(sent)))));
}

/** Bytes of files together. */
export const sumFileSizes = (files: readonly OutgoingFile[]): number => files.reduce((sum, { size }) => sum + size, 0);

/** The answer of the API about a message that was accepted. */
export const toSendView = ({
  messageId,
  emailId,
  threadId,
  mailboxId,
  from,
  held,
  sendAt,
}: Omit<Sent, "emailId"> & Pick<SendView, "emailId">): SendView => ({
  ok: true,
  id: messageId,
  messageId,
  emailId,
  threadId,
  mailboxId,
  from,
  ...(held && { held }),
  ...(sendAt !== undefined && { sendAt: toIsoTime(sendAt) }),
});
