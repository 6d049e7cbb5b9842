/** The web app's part of the server: pages, and the app's API with sessions, sign-in and live updates. */
import { isReadRequest, methodNotAllowedResponse, READING } from "../api/methods.ts";
import type { Serving } from "../api/rest.ts";
import { openUnsubscribing } from "../compose/unsubscribe.ts";
import type { HttpClientParts } from "../net/http-client.ts";
import { APP_PREFIX } from "../operations/app-routes.ts";
import type { AppServices, OperatorContext } from "../operations/operation.ts";
import type { KeyPair } from "../tls/certificates.ts";
import { canKeyPairSignFiles } from "../tls/sign.ts";
import { createAppApi } from "./app-api.ts";
import { draftFileRoutes } from "./draft-files.ts";
import { messageFrameRoutes } from "./frame-responses.ts";
import { openImageProxy } from "./images.ts";
import { createLiveUpdates } from "./live.ts";
import { mailProfileRoute } from "./mail-profile.ts";
import { createOAuthEndpoints } from "./oauth-endpoints.ts";
import { createAppPages, createPdfPage } from "./pages.ts";
import { createReferencePages } from "./reference.ts";
import { commonHeaders } from "./response-headers.ts";
import { createSessionCookie } from "./session-cookie.ts";

export interface WebParts
  extends Serving,
    Omit<AppServices, "unsubscribing" | "signsProfiles">,
    Pick<OperatorContext, "doctor" | "searching"> {
  /** The certificate of the listeners, if there is one. */
  certificate(): KeyPair | undefined;
  /** Excepted networks for strangers' URLs to unsubscribe at, as readDestination takes them. */
  allow: HttpClientParts["allow"];
  readClientSource(peer: string | undefined, forwardedFor: string | null): string;
}

export interface Web {
  /** Responds for pages, the API reference, their files, OAuth and /app/; undefined for other paths. */
  respond(request: Request, path: string, peer: string | undefined): Promise<Response | undefined>;
  /** Looks for changes that another process wrote. */
  look(): void;
  /** Ends the streams of open pages, and requests for images. */
  stop(): void;
}

export function createWebApp(parts: WebParts): Web {
  const { core } = parts;
  const secure = core.site.baseUrl.startsWith("https:");
  const headers = commonHeaders({ secure });
  const cookie = createSessionCookie({ secure });
  const images = openImageProxy(core);
  const unsubscribing = openUnsubscribing(core, parts.allow);
  const live = createLiveUpdates(core, cookie);
  const pages = createAppPages(headers);
  const pdfPage = createPdfPage(headers);
  const reference = createReferencePages(core, headers);
  const oauth = createOAuthEndpoints(core, { ...parts, slowdown: parts.identity.slowdown });
  const api = createAppApi({
    ...parts,
    cookie,
    headers,
    services: {
      ...parts,
      unsubscribing,
      signsProfiles() {
        const pair = parts.certificate();
        return pair !== undefined && canKeyPairSignFiles(pair);
      },
    },
    routes: [
      ...draftFileRoutes(core, parts.pools.uploads),
      ...messageFrameRoutes(core, images),
      mailProfileRoute(core, parts),
      live.route,
    ],
  });

  return {
    async respond(request, path, peer) {
      if (path.startsWith(`${APP_PREFIX}/`)) return api(request, peer);
      const answered = await oauth(request, path, peer);
      if (answered) return answered;
      const page = (await pdfPage(request, path)) ?? (await pages(request, path));
      if (isReadRequest(request)) return page ?? reference(request, path);
      return page && methodNotAllowedResponse(READING);
    },
    look: live.look,
    stop() {
      live.stop();
      images.close();
      unsubscribing.close();
      parts.oauth.stop();
    },
  };
}
