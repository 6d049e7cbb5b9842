/** Answers a conversation. Whom it goes to is the server's to say (contract: Reply), and its writer's to change. */
import { useQuery } from "@tanstack/react-query";
import { api, type ThreadView } from "../lib/api.ts";
import { fullNameOf } from "../lib/people.ts";
import { answerQuery, mailboxesQuery, refreshMail } from "../lib/queries.ts";
import { toast } from "../lib/toast.ts";
import { Composer, type Written } from "./composer.tsx";

export function ReplyBox({ thread, all, close }: { thread: ThreadView; all: boolean; close: () => void }) {
  const { data: mailboxes = [] } = useQuery(mailboxesQuery);
  const answer = useQuery(answerQuery(thread.id, all));
  const mailbox = mailboxes.find(({ id }) => id === thread.mailboxId);

  async function send({ from, to, cc, bcc, text }: Written): Promise<void> {
    await api.reply(thread.id, { from, to, cc, bcc, text, quote: true });
    close();
    toast({ text: "Sent" });
    refreshMail([thread.id]);
  }

  return (
    <section
      aria-label={all ? "Reply to all" : "Reply"}
      className="mt-4 flex min-h-72 flex-col rounded-xl border border-line bg-raised"
    >
      {answer.isError && (
        <p role="alert" className="p-4 text-sm text-danger">
          {answer.error.message}
        </p>
      )}
      {answer.data && (
        <Composer
          senders={[...new Set([answer.data.from, thread.mailbox, ...(mailbox?.aliases ?? [])])]}
          initial={{
            from: answer.data.from,
            to: answer.data.to.map(fullNameOf).join(", "),
            cc: answer.data.cc.map(fullNameOf).join(", "),
            bcc: "",
            subject: answer.data.subject,
            text: "",
          }}
          asksSubject={false}
          send={send}
          discard={close}
        />
      )}
    </section>
  );
}
