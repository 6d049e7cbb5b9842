/** The web app's part of the server: pages, and the app's API with sessions, sign-in and live updates. */
import type { Identity } from "../access/identity.ts";
import type { FirstRun } from "../admin/first-run.ts";
import type { Serving } from "../api/rest.ts";
import type { Log } from "../base/log.ts";
import type { Runtime } from "../base/runtime.ts";
import type { Store } from "../store/store.ts";
import { APP_PREFIX, createAppApi } from "./app-api.ts";
import { frameRoutes } from "./frame.ts";
import { createPageGate } from "./gate.ts";
import { commonHeaders } from "./headers.ts";
import type { MailAppsView } from "./identity-views.ts";
import { openImageProxy } from "./images.ts";
import { createLive } from "./live.ts";
import { createPages } from "./pages.ts";
import { createPdfPage } from "./pdf-page.ts";
import { createReference } from "./reference.ts";
import { appPasswordRoutes } from "./routes/app-passwords.ts";
import { type DraftRouteParts, draftRoutes } from "./routes/drafts.ts";
import { firstRunRoutes } from "./routes/first-run.ts";
import { mailRoutes } from "./routes/mail.ts";
import { confirmRoute, createProof } from "./routes/proof.ts";
import { type ReadingParts, readingRoutes } from "./routes/reading.ts";
import { secondFactorRoutes } from "./routes/second-factor.ts";
import { sessionRoutes, signInRoute } from "./routes/session.ts";
import { type SettingsParts, settingsRoutes } from "./routes/settings.ts";
import { createSessionCookie } from "./session-cookie.ts";

type RouteParts = Omit<Serving, "sending"> &
  Pick<ReadingParts, "snoozed"> &
  Omit<DraftRouteParts, "store" | "runtime" | "people" | "options"> &
  Omit<SettingsParts, "store" | "people" | "prove">;

export interface WebParts extends RouteParts {
  people: SettingsParts["people"] & DraftRouteParts["people"];
  store: Pick<Store, "db" | "transact" | "onCommit">;
  identity: Identity;
  mailApps: MailAppsView;
  firstRun: FirstRun;
  sourceOf(peer: string | undefined, forwardedFor: string | null): string;
  /** Limit of HTTP connections. */
  mostConnections: number;
  /** Public origin. */
  baseUrl: string;
  runtime: Pick<Runtime, "now" | "randomBytes" | "setTimer" | "dns">;
  log: Log;
}

export interface Web {
  /** Responds for pages, the API reference, their files, and /app/; undefined for other paths. */
  respond(request: Request, path: string, peer: string | undefined): Promise<Response | undefined>;
  /** Looks for changes that another process wrote. */
  look(): void;
  /** Ends the streams of open pages, and requests for images. */
  stop(): void;
}

export function createWeb(parts: WebParts): Web {
  const secure = parts.baseUrl.startsWith("https:");
  const headers = commonHeaders({ secure });
  const cookie = createSessionCookie({ secure });
  const gate = createPageGate({ ...parts, cookie, touchSession: parts.identity.touchSession });
  const prove = createProof({ ...parts, cookie });
  const images = openImageProxy({ runtime: parts.runtime });
  const live = createLive({ ...parts, cookie });
  const pages = createPages(headers);
  const pdfPage = createPdfPage(headers);
  const reference = createReference({ ...parts, headers });
  const api = createAppApi({
    ...parts,
    ...{ gate, headers },
    open: [signInRoute({ ...parts, cookie }), ...firstRunRoutes({ ...parts, cookie })],
    routes: [
      ...sessionRoutes({ ...parts, cookie }),
      confirmRoute(prove),
      ...secondFactorRoutes({ ...parts, prove }),
      ...appPasswordRoutes(parts),
      ...mailRoutes(parts),
      ...readingRoutes(parts),
      ...draftRoutes(parts),
      ...settingsRoutes({ ...parts, prove }),
      ...frameRoutes({ mailbox: parts.mailbox, images }),
      live.route,
    ],
  });

  return {
    async respond(request, path, peer) {
      if (path.startsWith(`${APP_PREFIX}/`)) return api(request, peer);
      if (request.method !== "GET" && request.method !== "HEAD") return undefined;
      return (await pdfPage(request, path)) ?? (await pages(request, path)) ?? reference(request, path);
    },
    look: live.look,
    stop() {
      live.stop();
      images.close();
    },
  };
}
