/**
 * Debian's Chromium, without a window. Requests of its pages to other hosts than loopback go to a proxy that records them and
 * lets nothing out. On a machine without the browser, tests that need it are skipped, and say so.
 */
import { existsSync } from "node:fs";
import { createServer } from "node:net";
import { type BrowserContext, type BrowserContextOptions, chromium } from "playwright-core";
import { atEndOfFile } from "../end.ts";
import { isSharing } from "../runner/sharing.ts";

/** Time limit of waits in the browser, ms. It is shorter than a test's, so that a failure names what did not come. */
const PATIENCE_MS = 100_000;

/** The browser and its build without windows, which takes two thirds of the time. */
const executable = ["/usr/bin/chromium-headless-shell", "/usr/bin/chromium"].find((path) => existsSync(path));

export const chromiumPresent = executable !== undefined;

/** The reason why browser tests are skipped, for their titles. */
export const chromiumNote = chromiumPresent
  ? ""
  : " (skipped: neither chromium-headless-shell nor chromium, of Debian)";

export interface Watched {
  /** A browser profile of its own. */
  newContext(options?: BrowserContextOptions): Promise<BrowserContext>;
  /** Requests of pages to other hosts so far: the first line of each. */
  foreign: string[];
}

let launched: Promise<Watched & { clear(): Promise<void>; close(): Promise<void> }> | undefined;
/** Closes the browser, for a script. At the end of a test file, its profiles are closed, or the browser. */
export async function closeBrowser(): Promise<void> {
  const browser = launched;
  launched = undefined;
  await (await browser)?.close();
}
// A process that ran tests has no event at its end. In a run of test/run.ts, the files of a process share the browser, which
// ends with the process, and its files lie in a folder that the run removes.
atEndOfFile(isSharing ? async () => (await launched)?.clear() : closeBrowser);

async function launch() {
  const foreign: string[] = [];
  const proxy = createServer((socket) => {
    socket.on("error", () => {});
    socket.once("data", (data) => {
      foreign.push(data.toString("latin1").split("\r\n", 1)[0] ?? "");
      socket.end("HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    });
  });
  await new Promise<void>((resolve) => proxy.listen(0, "127.0.0.1", resolve));
  const { port } = proxy.address() as { port: number };
  const browser = await chromium.launch({
    ...(executable !== undefined && { executablePath: executable }),
    // By default it gives up after half a minute.
    timeout: PATIENCE_MS,
    args: [
      "--headless",
      "--no-sandbox",
      "--disable-gpu",
      "--disable-quic",
      "--no-first-run",
      "--disable-sync",
      "--disable-background-networking",
      "--disable-component-update",
      // Requests of the browser itself.
      "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    ],
  });
  const close = async () => {
    await browser.close();
    proxy.close();
  };
  const clear = async () => {
    await Promise.all(browser.contexts().map((context) => context.close()));
    foreign.length = 0;
  };
  const proxied = { server: `http://127.0.0.1:${port}`, bypass: "127.0.0.1" };
  const newContext = async (options: BrowserContextOptions = {}) => {
    // A service worker would answer requests before tests that change the answers see them.
    const context = await browser.newContext({ serviceWorkers: "block", ...options, proxy: proxied });
    context.setDefaultTimeout(PATIENCE_MS);
    return context;
  };
  return { newContext, foreign, clear, close };
}

/** Gives the browser of this process, which starts at the first call. */
export function openBrowser(): Promise<Watched> {
  launched ??= launch();
  return launched;
}
