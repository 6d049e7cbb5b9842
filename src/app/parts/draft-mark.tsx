/** Why a draft stands out in a list: an agent made it, it is to be sent, or it was not. */
import { useQuery } from "@tanstack/react-query";
import { Bot, Clock, TriangleAlert } from "lucide-react";
import type { ThreadView } from "../lib/api.ts";
import { draftMarksQuery } from "../lib/queries.ts";
import { shortTime } from "../lib/time.ts";

export function DraftMark({ thread: { id, mailboxId } }: { thread: ThreadView }) {
  const { data = [] } = useQuery(draftMarksQuery(mailboxId));
  const mark = data.find(({ draftId }) => draftId === id);
  if (!mark) return null;
  const { agent, dueAt, refused } = mark;
  const [Icon, what] = refused
    ? [TriangleAlert, "Not sent"]
    : dueAt !== null
      ? [Clock, `To be sent ${shortTime(dueAt)}`]
      : [Bot, `By agent “${agent}”`];
  return (
    <span className="flex min-w-0 items-center gap-1 rounded bg-notice px-1.5 text-xs text-ink">
      <Icon size={12} className="shrink-0" aria-hidden />
      <span className="truncate">{what}</span>
    </span>
  );
}
