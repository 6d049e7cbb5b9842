/** Links to a new rule for what a search, or a conversation's sender, finds. */
import { Link } from "@tanstack/react-router";
import { Funnel } from "lucide-react";

const LABEL = "Make a rule";

export const senderRuleMatch = (address: string): string =>
  `from:${/[\s"“”„]/.test(address) ? `"${address}"` : address}`;

/** `mailbox`: id. */
export const MakeRuleIcon = ({ mailbox, match }: { mailbox: string; match: string }) => (
  <Link
    to="/settings/rules"
    search={{ mailbox, match }}
    aria-label={LABEL}
    title={LABEL}
    className="inline-flex size-8 shrink-0 items-center justify-center rounded-md text-muted hover:bg-hover hover:text-ink max-md:size-10"
  >
    <Funnel size={17} strokeWidth={1.8} aria-hidden />
  </Link>
);

export const MakeRule = ({ mailbox, match }: { mailbox: string; match: string }) => (
  <Link
    to="/settings/rules"
    search={{ mailbox, match }}
    className="mt-1.5 inline-flex h-6 items-center gap-1.5 rounded-md px-2 text-xs text-muted hover:bg-hover hover:text-ink max-md:h-9 max-md:px-3"
  >
    <Funnel size={13} aria-hidden />
    {LABEL}
  </Link>
);
