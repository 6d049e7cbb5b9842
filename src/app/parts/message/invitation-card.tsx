/** The invitation of a message: one card, with the answers to it. */
import { useQueries, useQuery } from "@tanstack/react-query";
import { CalendarDays, MapPin, Repeat, TriangleAlert, Users } from "lucide-react";
import type { ReactNode } from "react";
import { api } from "../../lib/api-client.ts";
import { addressDisplayName, formatCount } from "../../lib/format.ts";
import { ANSWERS, formatEventTime, replacesInvitation } from "../../lib/invitation-words.ts";
import type { InvitationAnswer, InvitationView } from "../../lib/mail-views.ts";
import { invitationQuery, queryClient, useChange } from "../../lib/queries.ts";
import { fullTime } from "../../lib/time-format.ts";
import { Button } from "../ui/button.tsx";

/** `later`: ids of later messages of the conversation with a calendar file. */
export function Invitation({ messageId, later }: { messageId: string; later: readonly string[] }) {
  const { data: invitation } = useQuery(invitationQuery(messageId));
  const others = useQueries({ queries: later.map(invitationQuery) });
  if (!invitation) return null;
  const isReplaced = others.some(({ data }) => data && replacesInvitation(data, invitation));
  return <Card messageId={messageId} invitation={invitation} isReplaced={isReplaced} />;
}

function Card({
  messageId,
  invitation,
  isReplaced,
}: {
  messageId: string;
  invitation: InvitationView;
  isReplaced: boolean;
}) {
  const { method, summary, repeats, place, description, organizer, guests, moreGuests, occurrence } = invitation;
  const when = formatEventTime(invitation);
  const isOver = isReplaced || method === "cancel";
  return (
    <section aria-label="Invitation" className="mb-3 rounded-lg border border-line bg-panel px-4 py-3 text-sm">
      <h3 className={`text-base font-semibold wrap-anywhere ${isOver ? "line-through" : ""}`}>
        {summary || "(no title)"}
      </h3>
      <p className="text-muted">{describeInvitationState(invitation, isReplaced)}</p>
      <dl className="mt-2 space-y-1.5">
        {when !== undefined && (
          <Row icon={CalendarDays} name="When">
            {when}
            {occurrence !== "" && <span className="text-muted"> (this time alone)</span>}
          </Row>
        )}
        {repeats !== undefined && (
          <Row icon={Repeat} name="Repeats">
            {repeats}
          </Row>
        )}
        {place !== undefined && (
          <Row icon={MapPin} name="Where">
            {place}
          </Row>
        )}
        {(organizer !== undefined || guests.length > 0) && (
          <Row icon={Users} name="Who">
            {organizer && <span title={organizer.email}>{addressDisplayName(organizer)} organizes it. </span>}
            {guests.length > 0 && <Guests guests={guests} more={moreGuests} />}
          </Row>
        )}
      </dl>
      {description !== undefined && (
        <details className="mt-2">
          <summary className="w-fit text-muted hover:text-ink">Description</summary>
          <p dir="auto" className="mt-1 wrap-anywhere whitespace-pre-wrap">
            {description}
          </p>
        </details>
      )}
      {!isOver && <Answering messageId={messageId} invitation={invitation} />}
    </section>
  );
}

function describeInvitationState({ method, organizer, guests }: InvitationView, isReplaced: boolean): string {
  if (method === "cancel") return "Cancelled by its organizer";
  if (isReplaced) return "A later message of this conversation replaces it";
  const [guest] = guests;
  if (method === "reply" && guest) {
    const done = { accepted: "accepts", tentative: "may come", declined: "declines" };
    return guest.answer ? `${addressDisplayName(guest)} ${done[guest.answer]}` : `${addressDisplayName(guest)} answers`;
  }
  if (method === "counter") return `${guest ? addressDisplayName(guest) : "A guest"} proposes another time`;
  if (method === "publish") return "An event";
  return organizer ? `${addressDisplayName(organizer)} invites` : "An invitation";
}

const MARKS = { accepted: "comes", tentative: "may come", declined: "does not come" };

function Guests({ guests, more }: { guests: InvitationView["guests"]; more: number }) {
  return (
    <details className="inline-block align-top">
      <summary className="text-muted hover:text-ink">{formatCount(guests.length + more, "guest")}</summary>
      <ul className="mt-1 space-y-0.5">
        {guests.map((guest) => (
          <li key={guest.email} className="wrap-anywhere">
            {addressDisplayName(guest)} <span className="text-muted">{guest.email}</span>
            {guest.answer && <span className="text-muted">, {MARKS[guest.answer]}</span>}
          </li>
        ))}
        {more > 0 && <li className="text-muted">and {more} more</li>}
      </ul>
    </details>
  );
}

function Row({ icon: Icon, name, children }: { icon: typeof MapPin; name: string; children: ReactNode }) {
  return (
    <div className="flex items-start gap-2">
      <dt className="mt-0.5 shrink-0">
        <Icon size={15} className="text-muted" aria-hidden />
        <span className="sr-only">{name}</span>
      </dt>
      <dd className="min-w-0 wrap-anywhere">{children}</dd>
    </div>
  );
}

/** Accept, Maybe, Decline, for the guest that the mailbox is; and what was answered. */
function Answering({ messageId, invitation }: { messageId: string; invitation: InvitationView }) {
  const { method, guest, answered, isForeign, organizer } = invitation;
  const change = useChange((answer: InvitationAnswer) => api.answerInvitation({ id: messageId, answer }), {
    key: ["invitation"],
    atForm: true,
  });
  if (method !== "request") return null;
  if (guest === undefined) {
    return <p className="mt-3 text-muted">This mailbox is not among the guests, or you may not send from it.</p>;
  }
  const done = ANSWERS.find(([answer]) => answer === answered?.answer)?.[2];
  return (
    <div className="mt-3 border-t border-line pt-3 print:hidden">
      {isForeign && (
        <p className="mb-2 flex items-start gap-1.5">
          <TriangleAlert size={15} className="mt-0.5 shrink-0 text-danger" aria-hidden />
          <span className="wrap-anywhere">The answer goes to {organizer?.email}, who did not send this message.</span>
        </p>
      )}
      <div className="flex flex-wrap items-center gap-2">
        {ANSWERS.map(([answer, label]) => {
          const isChosen = answered?.answer === answer && !answered.isOld;
          return (
            <Button
              key={answer}
              kind={isChosen ? "primary" : "plain"}
              aria-pressed={isChosen}
              disabled={change.isPending}
              onClick={() =>
                change.mutate(answer, {
                  onSuccess: (sent) => queryClient.setQueryData(invitationQuery(messageId).queryKey, sent.invitation),
                })
              }
            >
              {label}
            </Button>
          );
        })}
      </div>
      <p role="status" className={`mt-2 ${change.isError ? "text-danger" : "text-muted"}`}>
        {change.isError
          ? change.error.message
          : answered && `${done} on ${fullTime(answered.at)}${answered.isOld ? ", to an earlier version" : ""}.`}
      </p>
      <p className="mt-1 text-xs text-muted">
        Answers as {guest}. Mailroom does not know your calendar, so it cannot tell conflicts.
      </p>
    </div>
  );
}
