/** The layout of all mail pages: the sidebar beside the page, the composer window over it. */
import { useQuery } from "@tanstack/react-query";
import { Link, Outlet, useNavigate, useSearch } from "@tanstack/react-router";
import { useEffect, useState } from "react";
import { domainWarning } from "../lib/explanations.ts";
import { preloadWhenIdle } from "../lib/lazy-part.tsx";
import { useLiveMail } from "../lib/live-updates.ts";
import { openNewMessage } from "../lib/open-composers.ts";
import { domainsQuery, isOwnerOrAdmin, mailboxesQuery, meQuery } from "../lib/queries.ts";
import { SHORTCUTS, useShortcuts } from "../lib/shortcuts.ts";
import { undoLatest } from "../lib/toast.ts";
import { MessageWindows } from "../parts/composer/composer.tsx";
import { Dialog } from "../parts/ui/dialog.tsx";
import { NotLoaded, StandbyBanner } from "../parts/ui/notice.tsx";
import { Sidebar } from "../parts/ui/sidebar.tsx";
import { Toaster } from "../parts/ui/toaster.tsx";
import { SignInAgain } from "./sign-in-page.tsx";

export function Shell() {
  const mailboxes = useQuery(mailboxesQuery);
  const [helps, setHelps] = useState(false);
  useLiveMail();
  useEffect(preloadWhenIdle, []);
  const navigate = useNavigate();
  const { mailbox } = useSearch({ strict: false });
  const go = (folder: string) => () =>
    void navigate({ to: "/mail/$folder", params: { folder }, search: mailbox === undefined ? {} : { mailbox } });
  useShortcuts({
    "?": () => setHelps(true),
    c: () => openNewMessage(),
    z: undoLatest,
    "g i": go("inbox"),
    "g s": go("starred"),
    "g b": go("snoozed"),
    "g d": go("drafts"),
    "g t": go("sent"),
    "g a": go("all"),
    "g w": () => void navigate({ to: "/approve" }),
  });

  return (
    <div className="flex h-full flex-col print:block print:h-auto">
      <a href="#content" className="skip-link">
        Skip to mail
      </a>
      {mailboxes.data ? (
        <div className="relative flex min-h-0 grow print:block">
          <Sidebar mailboxes={mailboxes.data} showHelp={() => setHelps(true)} />
          <main className="flex min-w-0 grow flex-col print:block">
            <StandbyBanner />
            <Warnings />
            <div className="flex min-h-0 min-w-0 grow print:block">
              <Outlet />
            </div>
          </main>
          <MessageWindows mailboxes={mailboxes.data} />
        </div>
      ) : (
        <NotLoaded query={mailboxes} what="mailboxes" />
      )}
      <ShortcutHelp open={helps} close={() => setHelps(false)} />
      <Toaster />
      <SignInAgain />
    </div>
  );
}

/**
 * Warns people of a short password, and owners and admins of domains that get no mail, or whose mail another workspace
 * may take.
 */
function Warnings() {
  const { data: me } = useQuery(meQuery);
  const { data } = useQuery({ ...domainsQuery, enabled: me !== undefined && isOwnerOrAdmin(me) });
  const domains = (data ?? []).flatMap((domain) => domainWarning(domain) ?? []);
  if (!me?.shortPassword && domains.length === 0) return null;
  return (
    <div role="status" className="space-y-1 border-b border-line bg-notice px-4 py-2 text-sm print:hidden">
      {me?.shortPassword && (
        <p>
          Your password is shorter than passwords may be now. Please choose another one.{" "}
          <Link to="/settings/profile" className="underline">
            Profile
          </Link>
        </p>
      )}
      {domains.map((warning) => (
        <p key={warning}>
          {warning}{" "}
          <Link to="/settings/domains" className="underline">
            Domains
          </Link>
        </p>
      ))}
    </div>
  );
}

/** The keyboard shortcuts, in a dialog. */
function ShortcutHelp({ open, close }: { open: boolean; close: () => void }) {
  return (
    <Dialog open={open} close={close} title="Keyboard shortcuts" wide>
      <div className="columns-1 gap-8 sm:columns-2 lg:columns-3">
        {SHORTCUTS.map(({ name, shortcuts }) => (
          <section key={name} className="mb-4 break-inside-avoid">
            <h3 className="mb-1.5 text-sm font-medium text-muted">{name}</h3>
            <dl className="grid grid-cols-[auto_1fr] gap-x-4 gap-y-1.5 text-sm">
              {shortcuts.map(([keys, does]) => (
                <div key={keys} className="contents">
                  <dt>
                    <kbd className="rounded border border-line bg-ground px-1.5 py-0.5 font-sans text-xs whitespace-nowrap">
                      {keys}
                    </kbd>
                  </dt>
                  <dd className="text-soft">{does}</dd>
                </div>
              ))}
            </dl>
          </section>
        ))}
      </div>
      <p className="text-xs text-muted">They are off while you type.</p>
    </Dialog>
  );
}
