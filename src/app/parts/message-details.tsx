/** Details of a message: verdicts on its sender, reasons for spam, delivery, and the original. */
import { useQuery } from "@tanstack/react-query";
import { CircleHelp, ShieldAlert, ShieldCheck, UserCheck } from "lucide-react";
import { type MessageView, originalUrl, type RecipientProgress } from "../lib/api.ts";
import { explainAuth, whySpam } from "../lib/explanations.ts";
import { sizeOf } from "../lib/format.ts";
import { classificationQuery, progressQuery } from "../lib/queries.ts";
import { fullTime } from "../lib/time.ts";
import { CopyButton } from "./button.tsx";
import { NotLoaded } from "./notice.tsx";

const SHIELDS = {
  good: [ShieldCheck, "text-accent"],
  bad: [ShieldAlert, "text-danger"],
  unknown: [CircleHelp, "text-muted"],
} as const;

/** SPF, DKIM and DMARC, folded behind one sentence. */
export function Authentication({ message: { auth, from } }: { message: MessageView }) {
  if (!auth) return null;
  const { tone, short, checks } = explainAuth(auth, from.email);
  const [Icon, color] = SHIELDS[tone];
  return (
    <details className="mb-3 text-sm">
      <summary className="flex w-fit items-center gap-1.5 rounded text-muted hover:text-ink">
        <Icon size={14} className={`shrink-0 ${color}`} aria-hidden />
        {short}
      </summary>
      <dl className="mt-2 grid grid-cols-[auto_auto_1fr] gap-x-3 gap-y-1 rounded-lg bg-panel px-3 py-2">
        {checks.map(({ name, verdict, meaning }) => (
          <div key={name} className="contents">
            <dt className="font-medium">{name}</dt>
            <dd className="text-muted">{verdict}</dd>
            <dd>{meaning}</dd>
          </div>
        ))}
      </dl>
    </details>
  );
}

export function WhySpam({ message: { id, from } }: { message: MessageView }) {
  const classification = useQuery(classificationQuery(id));
  if (classification.isError) return <p className="text-sm">{classification.error.message}</p>;
  if (!classification.data) return <p className="text-sm text-muted">Looking…</p>;
  const { because, spam, wanted } = whySpam(classification.data, from.email);
  return (
    <div className="text-sm">
      <p>{because}</p>
      {spam.length > 0 && <p className="mt-1 text-soft">Signs of spam: {spam.join(", ")}.</p>}
      {wanted.length > 0 && <p className="mt-1 text-soft">Signs of wanted mail: {wanted.join(", ")}.</p>}
      <p className="mt-1 text-muted">“Not spam” moves it to the inbox, and its sender is trusted from then on.</p>
    </div>
  );
}

const STATES: Record<RecipientProgress["state"], (recipient: RecipientProgress) => string> = {
  delivered: ({ settledAt }) => `Accepted${settledAt === null ? "" : ` ${fullTime(settledAt)}`}`,
  bounced: () => "Could not be delivered",
  cancelled: () => "Given up",
  held: () => "Held, not sent",
  waiting: ({ attempts, nextAt }) =>
    attempts === 0
      ? "On its way"
      : `Tried ${attempts === 1 ? "once" : `${attempts} times`}; again ${nextAt === null ? "soon" : fullTime(nextAt)}`,
};

/** Who approved a sent message that was held, and its delivery to each recipient. */
export function Progress({ message: { id, threadId } }: { message: MessageView }) {
  const progress = useQuery(progressQuery(threadId, id));
  const { recipients = [], approver = null } = progress.data ?? {};
  return (
    <>
      {approver && (
        <p className="mb-1 flex items-center gap-1.5 text-sm text-muted">
          <UserCheck size={14} className="shrink-0" aria-hidden />
          Approved by {approver.name ?? "somebody who has left"}
        </p>
      )}
      {recipients.length > 0 && <Delivery recipients={recipients} />}
    </>
  );
}

function Delivery({ recipients }: { recipients: readonly RecipientProgress[] }) {
  const bounced = recipients.filter(({ state }) => state === "bounced").length;
  const held = recipients.filter(({ state }) => state === "held").length;
  const waiting = recipients.filter(({ state }) => state === "waiting").length;
  const short =
    bounced > 0
      ? `Not delivered to ${bounced} of ${recipients.length}`
      : held > 0
        ? `Held, not sent to ${held} of ${recipients.length}`
        : waiting > 0
          ? `On its way to ${waiting} of ${recipients.length}`
          : "Delivered";
  return (
    <details className="mb-3 text-sm" open={bounced > 0}>
      <summary className={`w-fit ${bounced > 0 ? "text-danger" : "text-muted hover:text-ink"}`}>{short}</summary>
      <ul aria-label="Recipients" className="mt-2 space-y-1.5 rounded-lg bg-panel px-3 py-2">
        {recipients.map((recipient) => (
          <li key={`${recipient.field} ${recipient.email}`}>
            <span className="font-medium break-all">{recipient.email}</span>
            {recipient.field === "bcc" && <span className="text-muted"> (Bcc)</span>}{" "}
            <span className={recipient.state === "bounced" ? "text-danger" : "text-soft"}>
              {STATES[recipient.state](recipient)}
              {recipient.complained && "; reported as spam"}
            </span>
            {recipient.reply !== null && recipient.state !== "delivered" && (
              <span className="block text-xs break-words text-muted">{recipient.reply}</span>
            )}
          </li>
        ))}
      </ul>
    </details>
  );
}

/** Most characters of an original on the page; the download has all. */
const LONGEST_SHOWN = 200_000;

/** The original message as text. */
export function Original({ message: { id } }: { message: MessageView }) {
  const original = useQuery({
    queryKey: ["original", id],
    queryFn: async () => {
      const response = await fetch(originalUrl(id)).catch(() => undefined);
      if (!response?.ok) throw new Error("The original could not be loaded. Check your connection, then try again.");
      return response.text();
    },
    gcTime: 0,
  });
  if (original.data === undefined) return <NotLoaded query={original} what="the original" />;
  const { length } = original.data;
  return (
    <>
      <div className="mb-3 flex gap-2">
        <a
          href={originalUrl(id)}
          download
          className="inline-flex h-8 items-center rounded-md border border-line bg-raised px-3 text-sm hover:bg-hover"
        >
          Download ({sizeOf(length)})
        </a>
        <CopyButton label="Original message" value={original.data} />
      </div>
      <textarea
        readOnly
        aria-label="Original message"
        value={original.data.slice(0, LONGEST_SHOWN) + (length > LONGEST_SHOWN ? "\n…" : "")}
        className="h-[65vh] w-full resize-none rounded-lg bg-ground p-3 font-mono text-xs break-all"
      />
    </>
  );
}
