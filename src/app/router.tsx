/** The routes of the app. A new page needs a component in pages/, a route here, and its path in src/http/pages.ts. */
import { createRootRoute, createRoute, createRouter, Outlet, redirect } from "@tanstack/react-router";
import { MailOpen, SearchX } from "lucide-react";
import { useEffect } from "react";
import { Refusal } from "./lib/api-client.ts";
import { openPalette, usePalette } from "./lib/commands.ts";
import { lazyPart } from "./lib/lazy-part.tsx";
import { isOwnerOrAdmin, meQuery, queryClient } from "./lib/queries.ts";
import { ConversationPage } from "./pages/conversation-page.tsx";
import { FolderPage } from "./pages/folder-page.tsx";
import { Shell } from "./pages/shell.tsx";
import { SignIn } from "./pages/sign-in-page.tsx";
import { Failed, Notice } from "./parts/ui/notice.tsx";

const Palette = lazyPart("the list of commands", async () => (await import("./parts/ui/palette.tsx")).Palette);

/** Opens the palette with Ctrl+K, for somebody who is signed in. */
function PaletteKey() {
  const number = usePalette();
  useEffect(() => {
    function pressed(event: KeyboardEvent): void {
      if (event.key !== "k" || !(event.ctrlKey || event.metaKey) || event.shiftKey || event.altKey) return;
      if (queryClient.getQueryData(meQuery.queryKey) === undefined || document.querySelector("dialog[open]")) return;
      event.preventDefault();
      openPalette();
    }
    document.addEventListener("keydown", pressed);
    return () => document.removeEventListener("keydown", pressed);
  }, []);
  return number > 0 && <Palette key={number} number={number} />;
}

const root = createRootRoute({
  component: () => (
    <>
      <Outlet />
      <PaletteKey />
    </>
  ),
  // `invalidate` loads the page again, which `reset` alone does not.
  errorComponent: ({ error }) => (
    <Failed error={error instanceof Error ? error : new Error(String(error))} retry={() => void reload()} />
  ),
  notFoundComponent: () => (
    <Notice icon={SearchX} title="Page not found">
      <a href="/" className="text-accent underline">
        Go to your mail
      </a>
    </Notice>
  ),
});

const home = createRoute({
  getParentRoute: () => root,
  path: "/",
  beforeLoad: () => {
    throw redirect({ to: "/mail/$folder", params: { folder: "inbox" }, search: {} });
  },
});

const FirstRun = lazyPart("the set-up", async () => (await import("./pages/first-run-page.tsx")).FirstRun);
const setUp = createRoute({ getParentRoute: () => root, path: "/setup", component: FirstRun });

const ChoosePassword = lazyPart(
  "the page",
  async () => (await import("./pages/choose-password-page.tsx")).ChoosePassword,
);
const choosePassword = createRoute({ getParentRoute: () => root, path: "/password", component: ChoosePassword });

interface SignInSearch {
  /** URL of the page to return to. */
  to?: string | undefined;
}

const signIn = createRoute({
  getParentRoute: () => root,
  path: "/sign-in",
  component: SignIn,
  // Only pages of this app, since anybody can make a link. Undefined removes `to`; a missing key would keep it.
  validateSearch: ({ to }: Record<string, unknown>): SignInSearch => ({
    to: typeof to === "string" && /^\/(mail|approve|settings)(?=[/?]|$)/.test(to) ? to : undefined,
  }),
});

/** The person who is signed in. Redirects others to sign-in, which returns to `asked`. */
async function requireMe({ location: asked }: { location: { href: string } }) {
  try {
    return await queryClient.ensureQueryData(meQuery);
  } catch (error) {
    if (!(error instanceof Refusal && error.status === 401)) throw error;
    throw redirect({ to: "/sign-in", search: asked.href === HOME ? {} : { to: asked.href } });
  }
}

const HOME = "/mail/inbox";

/** The pages beside the sidebar. */
const shell = createRoute({
  getParentRoute: () => root,
  id: "shell",
  component: Shell,
  beforeLoad: async (asked) => void (await requireMe(asked)),
});

const mail = createRoute({ getParentRoute: () => shell, path: "/mail" });

interface FolderSearch {
  /** Id of a mailbox; absent: the person's own. */
  mailbox?: string;
  /** The search. */
  q?: string;
  /** Order of the results; absent: newest first. */
  sort?: "relevance" | undefined;
  label?: string;
}

const folder = createRoute({
  getParentRoute: () => mail,
  path: "$folder",
  component: FolderPage,
  validateSearch: ({ mailbox, q, sort, label }: Record<string, unknown>): FolderSearch => ({
    ...(typeof mailbox === "string" && { mailbox }),
    ...(q !== undefined && q !== "" && { q: String(q) }),
    ...(sort === "relevance" && { sort }),
    ...(label !== undefined && label !== "" && { label: String(label) }),
  }),
});

const nothingOpen = createRoute({
  getParentRoute: () => folder,
  path: "/",
  component: () => (
    <Notice icon={MailOpen} title="No conversation selected">
      <p className="max-md:hidden">
        <kbd>j</kbd> and <kbd>k</kbd> go through the list, <kbd>Enter</kbd> opens, <kbd>?</kbd> shows the rest.
      </p>
    </Notice>
  ),
});

const ScheduledPage = lazyPart(
  "scheduled mail",
  async () => (await import("./pages/scheduled-page.tsx")).ScheduledPage,
);
const scheduled = createRoute({
  getParentRoute: () => mail,
  path: "scheduled",
  component: ScheduledPage,
  validateSearch: ({ mailbox }: Record<string, unknown>): { mailbox?: string } =>
    typeof mailbox === "string" ? { mailbox } : {},
});
const scheduledOne = createRoute({ getParentRoute: () => scheduled, path: "$draftId" });

const conversation = createRoute({ getParentRoute: () => folder, path: "$threadId", component: ConversationPage });

const ApprovePage = lazyPart("what waits", async () => (await import("./pages/approve-page.tsx")).ApprovePage);
const approve = createRoute({ getParentRoute: () => shell, path: "/approve", component: ApprovePage });
const approveOne = createRoute({ getParentRoute: () => approve, path: "$emailId" });

const settingsPart = (name: keyof typeof import("./pages/settings/settings-pages.ts")) =>
  lazyPart("the settings", async () => (await import("./pages/settings/settings-pages.ts"))[name]);

const settings = createRoute({
  getParentRoute: () => root,
  path: "/settings",
  component: settingsPart("SettingsLayout"),
  beforeLoad: async (asked) => void (await requireMe(asked)),
});

const settingsHome = createRoute({
  getParentRoute: () => settings,
  path: "/",
  beforeLoad: () => {
    throw redirect({ to: "/settings/profile" });
  },
});

interface RulesSearch {
  /** Id of a mailbox; absent: the person's own. */
  mailbox?: string;
  /** The search of a new rule. */
  match?: string;
}

const own = [
  createRoute({ getParentRoute: () => settings, path: "profile", component: settingsPart("ProfilePage") }),
  createRoute({ getParentRoute: () => settings, path: "writing", component: settingsPart("WritingPage") }),
  createRoute({ getParentRoute: () => settings, path: "second-factor", component: settingsPart("SecondFactorPage") }),
  createRoute({ getParentRoute: () => settings, path: "app-passwords", component: settingsPart("AppPasswordsPage") }),
  createRoute({ getParentRoute: () => settings, path: "notifications", component: settingsPart("NotificationsPage") }),
  createRoute({ getParentRoute: () => settings, path: "sessions", component: settingsPart("SessionsPage") }),
  createRoute({
    getParentRoute: () => settings,
    path: "rules",
    component: settingsPart("RulesPage"),
    validateSearch: ({ mailbox, match }: Record<string, unknown>): RulesSearch => ({
      ...(typeof mailbox === "string" && { mailbox }),
      ...(match !== undefined && match !== "" && { match: String(match) }),
    }),
  }),
] as const;

/** Pages about the workspace, for owners and admins. Members are redirected to their profile. */
const adminSettings = createRoute({
  getParentRoute: () => settings,
  id: "admin",
  beforeLoad: async (asked) => {
    if (!isOwnerOrAdmin(await requireMe(asked))) throw redirect({ to: "/settings/profile" });
  },
});

const keys = createRoute({ getParentRoute: () => adminSettings, path: "keys", component: settingsPart("KeysPage") });
const key = createRoute({ getParentRoute: () => adminSettings, path: "keys/$id", component: settingsPart("KeyPage") });
const webhooks = createRoute({
  getParentRoute: () => adminSettings,
  path: "webhooks",
  component: settingsPart("WebhooksPage"),
});
const webhook = createRoute({
  getParentRoute: () => adminSettings,
  path: "webhooks/$id",
  component: settingsPart("WebhookPage"),
});
const workspace = [
  createRoute({ getParentRoute: () => adminSettings, path: "workspace", component: settingsPart("WorkspacePage") }),
  createRoute({ getParentRoute: () => adminSettings, path: "people", component: settingsPart("PeoplePage") }),
  createRoute({ getParentRoute: () => adminSettings, path: "mailboxes", component: settingsPart("MailboxesPage") }),
  createRoute({ getParentRoute: () => adminSettings, path: "mailboxes/$id", component: settingsPart("MailboxPage") }),
  createRoute({ getParentRoute: () => adminSettings, path: "domains", component: settingsPart("DomainsPage") }),
  createRoute({ getParentRoute: () => adminSettings, path: "outbound", component: settingsPart("OutboundPage") }),
  createRoute({ getParentRoute: () => adminSettings, path: "server", component: settingsPart("ServerPage") }),
  createRoute({ getParentRoute: () => adminSettings, path: "doctor", component: settingsPart("DoctorPage") }),
  createRoute({ getParentRoute: () => adminSettings, path: "workspaces", component: settingsPart("WorkspacesPage") }),
] as const;

export const router = createRouter({
  routeTree: root.addChildren([
    home,
    signIn,
    setUp,
    choosePassword,
    shell.addChildren([
      mail.addChildren([scheduled.addChildren([scheduledOne]), folder.addChildren([nothingOpen, conversation])]),
      approve.addChildren([approveOne]),
    ]),
    settings.addChildren([
      settingsHome,
      ...own,
      adminSettings.addChildren([keys, key, webhooks, webhook, ...workspace]),
    ]),
  ]),
  scrollRestoration: false,
});

function reload(): Promise<void> {
  return router.invalidate();
}

declare module "@tanstack/react-router" {
  interface Register {
    router: typeof router;
  }
}
