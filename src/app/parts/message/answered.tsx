/** The conversation that a draft or a waiting message answers, to be read beside it. */
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { threadQuery } from "../../lib/queries.ts";
import { MessageCard } from "./message-card.tsx";

/** The conversation that the message answers, its newest message open. */
export function Answered({ threadId }: { threadId: string }) {
  const conversation = useQuery(threadQuery(threadId));
  const { thread, messages } = conversation.data ?? {};
  return (
    <section aria-labelledby="answered" className="min-w-0">
      <h2 id="answered" className="mb-3 text-lg font-semibold">
        What it answers
      </h2>
      {conversation.isError && <p className="text-sm text-muted">{conversation.error.message}</p>}
      {thread && messages && (
        <>
          <p className="mb-3 text-sm">
            <Link
              to="/mail/$folder/$threadId"
              params={{ folder: "all", threadId }}
              search={{ mailbox: thread.mailboxId }}
              className="text-accent underline underline-offset-2"
            >
              {thread.subject || "(no subject)"}
            </Link>
          </p>
          <ol className="space-y-3">
            {messages.map((message) => (
              <li key={message.id}>
                <MessageCard
                  message={message}
                  folder={thread.folder}
                  open={message === messages.at(-1)}
                  isSpread={false}
                />
              </li>
            ))}
          </ol>
        </>
      )}
    </section>
  );
}
