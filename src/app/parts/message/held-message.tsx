/** A held message whole, as it would go out, with the key that sent it, why it waits, and what it answers. */
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { ArrowLeft, Bot, Check, CircleAlert, CircleX, Clock, MailCheck, PencilLine } from "lucide-react";
import { useEffect } from "react";
import { Refusal } from "../../lib/api-client.ts";
import { formatHeaderAddress } from "../../lib/format.ts";
import type { ApprovalView } from "../../lib/mail-views.ts";
import { editHeldCopy } from "../../lib/open-composers.ts";
import { policySentences } from "../../lib/policy-words.ts";
import { approvalQuery, mailboxesQuery, messageQuery } from "../../lib/queries.ts";
import { fullTime } from "../../lib/time-format.ts";
import { Button } from "../ui/button.tsx";
import { Notice, NotLoaded } from "../ui/notice.tsx";
import { Answered } from "./answered.tsx";
import { MessageBody } from "./message-card.tsx";
import { Line } from "./scheduled-message.tsx";

export function HeldMessage({
  id,
  refusal,
  isBusy,
  approve,
  reject,
  onShown,
}: {
  id: string;
  /** Why it was not sent. */
  refusal: string | undefined;
  isBusy: boolean;
  approve: () => void;
  reject: () => void;
  /** Called once it is on the page. */
  onShown: () => void;
}) {
  const approval = useQuery(approvalQuery(id));
  const message = useQuery(messageQuery(id));
  const isShown = approval.data?.state === "waiting" && message.data !== undefined;
  // biome-ignore lint/correctness/useExhaustiveDependencies: told once, whatever function it is by now
  useEffect(() => {
    if (isShown) onShown();
  }, [isShown]);

  if (approval.error instanceof Refusal && approval.error.status === 404)
    return <Gone threadId={message.data?.threadId} />;
  if (!approval.data) return <NotLoaded query={approval} what="the message" />;
  if (!message.data) return <NotLoaded query={message} what="the message" />;
  const { subject, state, answers, recipients } = approval.data;
  const { from, attachments, text, held } = message.data;

  return (
    <article aria-labelledby="subject" className="flex h-full flex-col">
      <header className="flex flex-wrap items-center gap-2 border-b border-line bg-panel px-3 py-2 max-md:px-1 print:hidden">
        <Link
          to="/approve"
          aria-label="Back to the list"
          className="grid size-8 place-items-center rounded-md text-muted hover:bg-hover max-md:size-10 lg:hidden"
        >
          <ArrowLeft size={18} aria-hidden />
        </Link>
        {state === "waiting" && (
          <>
            <Button kind="primary" disabled={isBusy} title="Approve (y)" onClick={approve}>
              <Check size={15} aria-hidden /> Approve
            </Button>
            <Button kind="danger" disabled={isBusy} title="Reject (n)" onClick={reject}>
              <CircleX size={15} aria-hidden /> Reject…
            </Button>
          </>
        )}
        {state !== "approved" && (
          <Button title="Edit a copy (m)" onClick={() => void editHeldCopy(id)}>
            <PencilLine size={15} aria-hidden /> Edit a copy
          </Button>
        )}
      </header>
      <div className="@container min-h-0 grow overflow-y-auto">
        <div className="grid gap-x-8 gap-y-6 px-4 pt-5 pb-16 md:px-8 @2xl:grid-cols-2">
          <div className="min-w-0">
            <h1
              id="subject"
              className="mb-3 text-xl leading-snug font-semibold tracking-tight text-pretty wrap-anywhere"
            >
              {subject || "(no subject)"}
            </h1>
            {refusal !== undefined && (
              <p
                role="alert"
                className="mb-3 flex items-start gap-2.5 rounded-lg bg-alarm px-3 py-2 text-sm text-danger"
              >
                <CircleAlert size={16} className="mt-0.5 shrink-0" aria-hidden />
                <span>It still waits: {refusal}</span>
              </p>
            )}
            <Why approval={approval.data} />
            <section aria-label="The message as it goes out" className="rounded-xl border border-line bg-raised p-4">
              <dl className="mb-4 grid grid-cols-[auto_1fr] gap-x-3 gap-y-1 border-b border-line pb-3 text-sm">
                <Line field="From">{formatHeaderAddress(from)}</Line>
                {(["to", "cc", "bcc"] as const).map((field) => {
                  const people = recipients.filter((recipient) => recipient.field === field);
                  return (
                    people.length > 0 && (
                      <Line key={field} field={{ to: "To", cc: "Cc", bcc: "Bcc" }[field]}>
                        {people.map(formatHeaderAddress).join(", ")}
                      </Line>
                    )
                  );
                })}
                {held && held.namedOnly.length > 0 && (
                  <Line field="Not sent to">
                    {held.namedOnly.map(formatHeaderAddress).join(", ")} (named as recipients in the message)
                  </Line>
                )}
                {held?.headers.map(({ name, value, redirects }, at) => (
                  // biome-ignore lint/suspicious/noArrayIndexKey: a held message does not change
                  <Line key={at} field={name}>
                    <span className={redirects ? "font-medium text-danger" : ""}>{value}</span>
                  </Line>
                ))}
              </dl>
              {/* All of them: one that calls itself part of the text goes out, too, whether the text shows it or not. */}
              <MessageBody message={message.data} attachments={attachments} />
            </section>
            {held?.textDiffers && (
              <section aria-label="The plain text" className="mt-4 rounded-xl border border-line bg-raised p-4">
                <p className="mb-3 flex items-start gap-2 text-sm font-medium">
                  <CircleAlert size={16} className="mt-0.5 shrink-0 text-danger" aria-hidden />
                  The message also has a plain text that says something else. Some mail programs show it instead:
                </p>
                <p dir="auto" className="text-sm leading-relaxed wrap-anywhere whitespace-pre-wrap">
                  {text}
                </p>
              </section>
            )}
          </div>
          {answers !== null && <Answered threadId={answers} />}
        </div>
      </div>
    </article>
  );
}

/** The key that sent it, why it waits, and what was decided. */
function Why({ approval: { agent, reason, state, since, sendAt, decider, decidedAt } }: { approval: ApprovalView }) {
  const { data: mailboxes = [] } = useQuery(mailboxesQuery);
  const findMailboxAddress = (id: string) => mailboxes.find((mailbox) => mailbox.id === id)?.address;
  const sentences = agent ? policySentences(agent.policy, findMailboxAddress) : [];
  const when = decidedAt === null ? "" : ` ${fullTime(decidedAt)}`;
  const by = decider === null ? "" : ` by ${decider}`;
  return (
    <section aria-label="Why it waits" className="mb-4 space-y-1.5 rounded-lg bg-notice px-4 py-3 text-sm">
      {state === "rejected" && (
        <p className="font-medium">
          Rejected{by}
          {when}: {reason}
        </p>
      )}
      {state === "approved" && (
        <p className="font-medium">
          Approved{by}
          {when}: it is sent when its time comes.
        </p>
      )}
      <p className="flex items-start gap-2">
        <Bot size={16} className="mt-0.5 shrink-0" aria-hidden />
        <span className="min-w-0 wrap-anywhere">
          {agent === null
            ? "Written by an agent whose person has left"
            : `Written by the agent “${agent.name}” (key of ${agent.person}${agent.isRevoked ? ", revoked" : ""})`}
          , {fullTime(since)}.{state !== "rejected" && " Not sent yet."}
        </span>
      </p>
      {state === "waiting" && <p className="wrap-anywhere">Why it waits: {reason}</p>}
      {sendAt !== null && (
        <p className="flex items-center gap-2">
          <Clock size={16} className="shrink-0" aria-hidden />
          It is not sent before {fullTime(sendAt)}.
        </p>
      )}
      {sentences.length > 0 && (
        <details>
          <summary className="w-fit">The key’s policy</summary>
          <ul className="mt-1 list-disc pl-5">
            {sentences.map((sentence) => (
              <li key={sentence} className="wrap-anywhere">
                {sentence}
              </li>
            ))}
          </ul>
        </details>
      )}
    </section>
  );
}

/** Stands for one that was sent meanwhile, or deleted. */
function Gone({ threadId }: { threadId: string | undefined }) {
  return (
    <Notice icon={MailCheck} title="This message is no longer waiting">
      {threadId === undefined ? (
        <p className="mb-4">It was deleted, or is not for you to approve.</p>
      ) : (
        <p className="mb-4">
          It was approved and sent:{" "}
          <Link to="/mail/$folder/$threadId" params={{ folder: "all", threadId }} search={{}} className="underline">
            show it
          </Link>
        </p>
      )}
      <Link to="/approve" className="text-accent underline">
        Back to the list
      </Link>
    </Notice>
  );
}
