/** Details of a message: verdicts on its sender, and delivery. */
import { useQuery } from "@tanstack/react-query";
import { CircleHelp, Mail, ShieldAlert, UserCheck } from "lucide-react";
import { explainAuth, explainWarning } from "../../lib/explanations.ts";
import type { MessageView, RecipientProgress } from "../../lib/mail-views.ts";
import { progressQuery, warningsQuery } from "../../lib/queries.ts";
import { fullTime } from "../../lib/time-format.ts";

/** Icons and colours of the outcomes. A proven sender gets no praise: deceivers have domains, too. */
const SHIELDS = {
  good: [Mail, "text-muted"],
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

/** Warnings of deceptions in a message, whoever sent it. */
export function Warnings({ message: { id, from } }: { message: MessageView }) {
  const { data } = useQuery(warningsQuery(id));
  if (!data || data.warnings.length === 0) return null;
  return (
    <ul aria-label="Warnings" className="mb-3 space-y-1.5 rounded-lg bg-alarm px-3 py-2 text-sm text-danger">
      {data.warnings.map((warning) => (
        <li key={JSON.stringify(warning)} className="flex items-start gap-2.5">
          <ShieldAlert size={16} className="mt-0.5 shrink-0" aria-hidden />
          <span className="min-w-0 wrap-anywhere">{explainWarning(warning, from.email)}</span>
        </li>
      ))}
    </ul>
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

/** The approver of a sent message that was held, and its delivery to each recipient. */
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
