/** The layout of all settings pages: the sections are beside the page, or on a phone above it. */
import { useQuery } from "@tanstack/react-query";
import { Link, Outlet, useLocation } from "@tanstack/react-router";
import { ArrowLeft, CirclePause } from "lucide-react";
import { useEffect, useRef } from "react";
import { api } from "../../lib/api-client.ts";
import { isOwnerOrAdmin, meQuery, useChange } from "../../lib/queries.ts";
import { fullTime } from "../../lib/time-format.ts";
import { endIdentityProofWait, useWantedProof } from "../../lib/waiting-requests.ts";
import { SaveRow } from "../../parts/settings/save-row.tsx";
import { SecondFactorCode } from "../../parts/settings/second-factor-code.tsx";
import { Button } from "../../parts/ui/button.tsx";
import { ConfirmButton, Dialog } from "../../parts/ui/dialog.tsx";
import { Field } from "../../parts/ui/fields.tsx";
import { Form } from "../../parts/ui/form.tsx";
import { StandbyBanner } from "../../parts/ui/notice.tsx";
import { Toaster } from "../../parts/ui/toaster.tsx";
import { SignInAgain } from "../sign-in-page.tsx";
import { KEYS, keyPauseQuery } from "./settings-developers.ts";
import { SESSIONS } from "./settings-identity.ts";
import { useSettingsSections } from "./settings-sections.ts";

export function SettingsLayout() {
  const { data: me } = useQuery(meQuery);
  const isAdmin = me !== undefined && isOwnerOrAdmin(me);
  const pause = useQuery({ ...keyPauseQuery, enabled: isAdmin });
  const groups = useSettingsSections();
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
    <div className="flex h-full flex-col">
      <a href="#settings" className="skip-link">
        Skip to the settings
      </a>
      <div className="flex min-h-0 grow max-md:flex-col">
        <div className="flex w-60 shrink-0 flex-col border-r border-line bg-ground max-md:grid max-md:w-full max-md:grid-cols-[1fr_auto] max-md:border-r-0 max-md:border-b">
          <Link
            to="/mail/$folder"
            params={{ folder: "inbox" }}
            search={{}}
            className="m-2 flex h-10 shrink-0 items-center gap-2 rounded-md px-2 text-sm text-soft hover:bg-hover hover:text-ink max-md:m-1"
          >
            <ArrowLeft size={16} aria-hidden />
            Go to your mail
          </Link>
          <nav
            ref={nav}
            aria-label="Settings"
            className="min-h-0 grow overflow-auto px-2 pb-2 max-md:col-span-2 max-md:row-start-2 max-md:flex max-md:gap-1"
          >
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
          {pause.data?.since === null && <PauseAll />}
        </div>
        <main
          ref={content}
          id="settings"
          tabIndex={-1}
          className="min-h-0 min-w-0 grow overflow-y-auto bg-panel focus:outline-none"
        >
          <div className="mx-auto max-w-3xl px-8 py-8 max-md:px-4 max-md:py-5">
            <StandbyBanner />
            {pause.data && pause.data.since !== null && <AllPaused since={pause.data.since} />}
            <Outlet />
          </div>
        </main>
      </div>
      <Toaster />
      <ConfirmIdentity />
      <SignInAgain />
    </div>
  );
}

/** Stops all agents and programs at once. */
function PauseAll() {
  const pause = useChange(api.setKeyPause, { key: KEYS });
  return (
    <div className="p-3 max-md:row-start-1 max-md:col-start-2 max-md:p-1">
      <ConfirmButton
        question="Pause all agents?"
        action="Pause all"
        consequences={
          <p>
            Every API key of the workspace, of agents and of other programs, is refused at once, until an owner or an
            admin resumes them. People and incoming mail are not affected.
          </p>
        }
        disabled={pause.isPending}
        run={() => pause.mutate({ paused: true })}
        className="w-full"
      >
        <CirclePause size={15} aria-hidden /> Pause all agents…
      </ConfirmButton>
    </div>
  );
}

/** `since`: ISO 8601. */
function AllPaused({ since }: { since: string }) {
  const resume = useChange(api.setKeyPause, { key: KEYS, success: "Agents resumed" });
  return (
    <div
      role="status"
      className="mb-6 flex flex-wrap items-center gap-x-4 gap-y-2 rounded-xl border border-line bg-notice px-5 py-3"
    >
      <CirclePause size={18} className="shrink-0" aria-hidden />
      <p className="min-w-0 grow basis-64">
        <strong className="font-semibold">All API keys are paused</strong> since {fullTime(since)}. Agents and programs
        are refused. Keys that are paused by themselves stay so afterwards.
      </p>
      <Button kind="primary" disabled={resume.isPending} onClick={() => resume.mutate({ paused: false })}>
        Resume all
      </Button>
    </div>
  );
}

/** A dialog that asks for a proof of identity. The request that needs it continues afterwards (lib/waiting-requests.ts). */
export function ConfirmIdentity() {
  const wanted = useWantedProof();
  const { data: me } = useQuery(meQuery);
  const confirm = useChange(api.confirmIdentity, { key: SESSIONS, atForm: true });
  const password = useRef<HTMLDivElement>(null);
  const close = () => {
    confirm.reset();
    endIdentityProofWait(false);
  };
  // An opening dialog gives the focus to its first button; the password field takes it from there.
  useEffect(() => {
    if (wanted) password.current?.querySelector("input")?.focus();
  }, [wanted]);
  return (
    <Dialog open={wanted !== undefined} close={close} title="Confirm that it is you">
      <Form
        sending={confirm}
        submit={({ text }) =>
          confirm.mutate(
            { password: text("password"), ...(wanted?.code && { code: text("code") }) },
            { onSuccess: () => endIdentityProofWait(true) },
          )
        }
        className="space-y-4"
      >
        <p className="text-sm text-soft">
          The change outlasts your session, so it needs your password{wanted?.code ? " and a code" : ""} again. You are
          not asked again for some minutes.
        </p>
        <input type="hidden" autoComplete="username" value={me?.email ?? ""} />
        <div ref={password}>
          <Field label="Your password" name="password" type="password" autoComplete="current-password" required />
        </div>
        {wanted?.code && <SecondFactorCode />}
        <div className="pt-1">
          <SaveRow action="Confirm" sending={confirm} cancel={close} atEnd />
        </div>
      </Form>
    </Dialog>
  );
}
