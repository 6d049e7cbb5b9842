/** The service worker (worker/worker.ts), and installing the app. */
import { createSharedValue } from "./cell.ts";

const WORKER_PATH = "/service-worker.js";

/** Event by which Chromium offers to install the app. */
interface InstallOffer extends Event {
  prompt(): Promise<unknown>;
}

const offer = createSharedValue<InstallOffer | undefined>(undefined);
/** A hook: the browser's offer to install the app. */
export const useInstallOffer = offer.use;
export const forgetInstallOffer = (): void => offer.set(undefined);

/** Starts the service worker. `go`: opens a path of the app, for notifications. */
export function startServiceWorker(go: (path: string) => void): void {
  addEventListener("beforeinstallprompt", (event) => {
    event.preventDefault();
    offer.set(event as InstallOffer);
  });
  // Only over https, and on localhost.
  if (!("serviceWorker" in navigator)) return;
  navigator.serviceWorker.addEventListener("message", ({ data }: MessageEvent<{ open?: unknown }>) => {
    if (typeof data.open === "string" && data.open.startsWith("/")) go(data.open);
  });
  // The page's policy lets no other script be named (http/response-headers.ts).
  const types = (
    window as { trustedTypes?: { createPolicy(name: string, rules: object): { createScriptURL(url: string): string } } }
  ).trustedTypes;
  const policy = types?.createPolicy("service-worker", { createScriptURL: () => WORKER_PATH });
  navigator.serviceWorker.register(policy?.createScriptURL("") ?? WORKER_PATH).catch(() => {
    // Without it, the app needs a connection to open.
  });
}
