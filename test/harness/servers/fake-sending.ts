/** Sending without mail: it records requests, and writes an event for each accepted message. */
import type { Caller } from "../../../src/access/caller.ts";
import { newId } from "../../../src/base/runtime.ts";
import type { ApiSending, RecordResponse } from "../../../src/compose/send.ts";
import type { SendView } from "../../../src/compose/views.ts";
import { emit } from "../../../src/events/outbox.ts";
import { events } from "../../../src/store/schema.ts";
import type { Store } from "../../../src/store/store.ts";
import type { FakeRuntime } from "../runtime.ts";

export interface FakeSending extends ApiSending {
  /** All requests, accepted or refused. */
  asked: { operation: "send" | "reply" | "draft"; caller: Caller; threadId?: string; request: object }[];
  /** Called before acceptance. An error refuses the request. */
  beforeAccepting: () => void | Promise<void>;
  /** Called at the end of the accepting transaction. */
  atCommit: () => void;
  /** Counts accepted messages. */
  accepted(): number;
}

function unused(): never {
  throw new Error("this test has no drafts of programs");
}

export function fakeSending({ store, runtime }: { store: Store; runtime: FakeRuntime }): FakeSending {
  async function accept(threadId: string, record: RecordResponse | undefined): Promise<SendView> {
    await fake.beforeAccepting();
    const emailId = newId(runtime, "msg");
    const messageId = `<${emailId}@example.test>`;
    const from = "olga@example.test";
    const view: SendView = { ok: true, id: messageId, messageId, emailId, threadId, mailboxId: "mbx_olga", from };
    return store.enqueue((tx) => {
      const data = { emailId, threadId, messageId, mailbox: from, from: { email: from }, to: [], subject: "" };
      const event = "message.outbound";
      emit(tx, { id: newId(runtime, "evt"), workspaceId: "wsp_1", event, data, now: runtime.now() });
      record?.(tx, view);
      fake.atCommit();
      return view;
    });
  }
  const fake: FakeSending = {
    asked: [],
    beforeAccepting: () => {},
    atCommit: () => {},
    accepted: () => store.db.select().from(events).all().length,
    readFiles: async () => [],
    approvals: {
      list: () => [],
      held: unused,
      approve: unused,
      reject: unused,
      job: { name: "none", runDue: () => null },
    },
    newDraft: unused,
    getProgramDraft: unused,
    changeProgramDraft: unused,
    discardProgramDraft: unused,
    sendProgramDraft: unused,
    send(caller, request, record) {
      fake.asked.push({ operation: "send", caller, request });
      return accept(newId(runtime, "thr"), record);
    },
    reply(caller, threadId, request, record) {
      fake.asked.push({ operation: "reply", caller, threadId, request });
      return accept(threadId, record);
    },
    async draft(caller, threadId, request) {
      fake.asked.push({ operation: "draft", caller, threadId, request });
      await fake.beforeAccepting();
      const draftId = newId(runtime, "thr");
      const from = "olga@example.test";
      const to = "Zoe <zoe@remote.example>";
      return { ok: true, draftId, replyToThreadId: threadId, from, to, cc: null, subject: "Re: x" };
    },
  };
  return fake;
}
