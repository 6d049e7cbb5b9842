/** What stands around every page of settings: its sections, beside the page or, on a phone, above it. */
import { useQuery } from "@tanstack/react-query";
import { Link, Outlet, useLocation } from "@tanstack/react-router";
import { ArrowLeft } from "lucide-react";
import { useEffect, useRef } from "react";
import { meQuery } from "../../lib/queries.ts";
import { administers, SECTIONS } from "../../lib/settings.ts";
import { SignInAgain } from "../../parts/sign-in-again.tsx";
import { Toaster } from "../../parts/toaster.tsx";

export function SettingsLayout() {
  const { data: me } = useQuery(meQuery);
  const shown = SECTIONS.filter(({ everybody }) => everybody || (me && administers(me)));
  const nav = useRef<HTMLElement>(null);
  const { pathname } = useLocation();
  // On a phone the sections are a row that is longer than it is wide.
  // biome-ignore lint/correctness/useExhaustiveDependencies: whenever another section, or who sees it, is shown
  useEffect(() => {
    nav.current?.querySelector('[aria-current="page"]')?.scrollIntoView({ block: "nearest", inline: "center" });
  }, [pathname, shown.length]);
  return (
    <div className="flex h-full max-md:flex-col">
      <div className="flex w-56 shrink-0 flex-col border-r border-line bg-ground max-md:w-full max-md:border-r-0 max-md:border-b">
        <Link
          to="/mail/$folder"
          params={{ folder: "inbox" }}
          search={{}}
          className="flex h-14 items-center gap-2 px-4 text-sm text-soft hover:text-ink max-md:h-11"
        >
          <ArrowLeft size={16} aria-hidden />
          To your mail
        </Link>
        <nav ref={nav} aria-label="Settings" className="min-h-0 overflow-auto px-2 pb-2">
          <ul className="max-md:flex max-md:gap-1">
            {shown.map(({ to, name, icon: Icon }) => (
              <li key={to} className="shrink-0">
                <Link
                  to={to}
                  className="flex h-8 items-center gap-2.5 rounded-md px-2 text-soft hover:bg-hover aria-[current=page]:bg-chosen aria-[current=page]:font-medium aria-[current=page]:text-ink max-md:h-10 max-md:px-3"
                >
                  <Icon size={16} strokeWidth={1.8} aria-hidden className="text-muted" />
                  {name}
                </Link>
              </li>
            ))}
          </ul>
        </nav>
      </div>
      <main className="min-h-0 min-w-0 grow overflow-y-auto bg-panel">
        <div className="mx-auto max-w-3xl px-8 py-8 max-md:px-4 max-md:py-5">
          <Outlet />
        </div>
      </main>
      <Toaster />
      <SignInAgain />
    </div>
  );
}
