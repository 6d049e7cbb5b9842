/** The layout of all settings pages: the sections are beside the page, or on a phone above it. */
import { useQuery } from "@tanstack/react-query";
import { Link, Outlet, useLocation } from "@tanstack/react-router";
import { ArrowLeft } from "lucide-react";
import { useEffect, useRef } from "react";
import { meQuery } from "../../lib/queries.ts";
import { administers, SECTIONS } from "../../lib/settings.ts";
import { workspaceQuery } from "../../lib/settings-workspace.ts";
import { ConfirmIdentity } from "../../parts/confirm-identity.tsx";
import { SignInAgain } from "../../parts/sign-in-again.tsx";
import { Toaster } from "../../parts/toaster.tsx";

export function SettingsLayout() {
  const { data: me } = useQuery(meQuery);
  const isAdmin = me !== undefined && administers(me);
  const { data: workspace } = useQuery({ ...workspaceQuery, enabled: isAdmin });
  const groups = SECTIONS.map(({ title, sections }) => ({
    title,
    shown: sections.filter((section) => {
      if (!("for" in section)) return isAdmin;
      return section.for === "everybody" || (isAdmin && workspace?.operator === true);
    }),
  })).filter(({ shown }) => shown.length > 0);
  const nav = useRef<HTMLElement>(null);
  const content = useRef<HTMLElement>(null);
  const { pathname } = useLocation();
  // On a phone the sections are a row that scrolls sideways.
  // biome-ignore lint/correctness/useExhaustiveDependencies: runs when the page or the list of sections changes
  useEffect(() => {
    nav.current?.querySelector('[aria-current="page"]')?.scrollIntoView({ block: "nearest", inline: "center" });
    content.current?.scrollTo(0, 0);
  }, [pathname, groups.length]);
  return (
    <div className="flex h-full max-md:flex-col">
      <a href="#settings" className="skip-link">
        Skip to the settings
      </a>
      <div className="flex w-60 shrink-0 flex-col border-r border-line bg-ground max-md:w-full max-md:border-r-0 max-md:border-b">
        <Link
          to="/mail/$folder"
          params={{ folder: "inbox" }}
          search={{}}
          className="m-2 flex h-10 shrink-0 items-center gap-2 rounded-md px-2 text-sm text-soft hover:bg-hover hover:text-ink max-md:m-1"
        >
          <ArrowLeft size={16} aria-hidden />
          To your mail
        </Link>
        <nav ref={nav} aria-label="Settings" className="min-h-0 overflow-auto px-2 pb-2 max-md:flex max-md:gap-1">
          {groups.map(({ title, shown }) => (
            <div key={title} className="mb-4 max-md:mb-0 max-md:contents">
              <p className="mb-1 px-2 text-xs font-semibold text-muted max-md:hidden">{title}</p>
              <ul className="max-md:flex max-md:shrink-0 max-md:gap-1">
                {shown.map(({ to, name, icon: Icon }) => (
                  <li key={to} className="shrink-0">
                    <Link
                      to={to}
                      className="group flex h-9 items-center gap-2.5 rounded-md px-2 text-soft hover:bg-hover aria-[current=page]:bg-chosen aria-[current=page]:font-medium aria-[current=page]:text-ink max-md:h-10 max-md:px-3"
                    >
                      <Icon
                        size={16}
                        strokeWidth={1.8}
                        aria-hidden
                        className="text-muted group-aria-[current=page]:text-accent"
                      />
                      {name}
                    </Link>
                  </li>
                ))}
              </ul>
            </div>
          ))}
        </nav>
      </div>
      <main
        ref={content}
        id="settings"
        tabIndex={-1}
        className="min-h-0 min-w-0 grow overflow-y-auto bg-panel focus:outline-none"
      >
        <div className="mx-auto max-w-3xl px-8 py-8 max-md:px-4 max-md:py-5">
          <Outlet />
        </div>
      </main>
      <Toaster />
      <ConfirmIdentity />
      <SignInAgain />
    </div>
  );
}
