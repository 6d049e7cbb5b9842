/** Operations of sending that send nothing: they record requests, and write an event for each accepted message. */
import type { Caller } from "../../../src/access/caller.ts";
import { newId } from "../../../src/base/runtime.ts";
import type { SendView } from "../../../src/compose/sending-views.ts";
import { emitEvent } from "../../../src/events/outbox.ts";
import { draftReply, replyToThread, sendEmail } from "../../../src/operations/mail/sending.ts";
import type { MailContext, Operation } from "../../../src/operations/operation.ts";
import { MAIL_OPERATIONS } from "../../../src/operations/operations.ts";

const FROM = "olga@example.test";

/** An operation that does something else. */
const replaced = (
  operation: Operation,
  run: (context: MailContext, input: { params: { id: string }; body: object }) => unknown,
): Operation => ({ ...operation, run: run as Operation["run"] });

export function fakeSending() {
  let accepted = 0;

  async function accept({ core: { store, runtime }, record }: MailContext, threadId: string): Promise<SendView> {
    await fake.beforeAccepting();
    const emailId = newId(runtime, "msg");
    const messageId = `<${emailId}@example.test>`;
    const view = { ok: true, id: messageId, messageId, emailId, threadId, mailboxId: "mbx_olga", from: FROM } as const;
    await store.enqueue((tx) => {
      const data = { emailId, threadId, messageId, mailbox: FROM, from: { email: FROM }, to: [], subject: "" };
      const event = "message.outbound";
      emitEvent(tx, { id: newId(runtime, "evt"), workspaceId: "wsp_1", event, data, now: runtime.now() });
      record(tx, view);
      fake.atCommit();
    });
    accepted++;
    return view;
  }

  const send = replaced(sendEmail, (context, { body: request }) => {
    fake.asked.push({ operation: "send", caller: context.caller, request });
    return accept(context, newId(context.core.runtime, "thr"));
  });
  const reply = replaced(replyToThread, (context, { params: { id: threadId }, body: request }) => {
    fake.asked.push({ operation: "reply", caller: context.caller, threadId, request });
    return accept(context, threadId);
  });
  const draft = replaced(draftReply, async ({ core, caller }, { params: { id: threadId }, body: request }) => {
    fake.asked.push({ operation: "draft", caller, threadId, request });
    await fake.beforeAccepting();
    const to = "Zoe <zoe@remote.example>";
    const draftId = newId(core.runtime, "thr");
    return { ok: true, draftId, replyToThreadId: threadId, from: FROM, to, cc: null, subject: "Re: x" };
  });
  const fakes = [send, reply, draft];
  const fake = {
    /** Those of mail, three of which are fakes. */
    operations: MAIL_OPERATIONS.map((each) => fakes.find(({ name }) => name === each.name) ?? each),
    send,
    /** All requests, accepted or refused. */
    asked: [] as { operation: "send" | "reply" | "draft"; caller: Caller; threadId?: string; request: object }[],
    /** Called before acceptance. An error refuses the request. */
    beforeAccepting: (): unknown => undefined,
    /** Called at the end of the accepting transaction. */
    atCommit: () => {},
    /** Counts accepted messages. */
    accepted: () => accepted,
  };
  return fake;
}
