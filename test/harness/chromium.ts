/**
 * Debian's Chromium, without a window. What its pages ask of anything but loopback goes to a proxy that notes it and lets
 * nothing out. A machine may lack the browser: tests that need it are then skipped, and say so.
 */
import { existsSync } from "node:fs";
import { createServer } from "node:net";
import { type BrowserContext, type BrowserContextOptions, chromium } from "playwright-core";
import { atEndOfFile } from "./end.ts";
import { isSharing } from "./sharing.ts";

/** For what is waited for in the browser: less than a test has, so that what did not come is told. */
const PATIENCE_MS = 100_000;

/** The same browser twice: what is built without windows takes two thirds of the time. */
const executable = ["/usr/bin/chromium-headless-shell", "/usr/bin/chromium"].find((path) => existsSync(path));

export const chromiumPresent = executable !== undefined;

/** Why a test in the browser is skipped: part of its title. */
export const chromiumNote = chromiumPresent
  ? ""
  : " (skipped: neither chromium-headless-shell nor chromium, of Debian)";

export interface Watched {
  /** A browser's profile of its own. */
  newContext(options?: BrowserContextOptions): Promise<BrowserContext>;
  /** What pages asked of other hosts so far: the first line of each request. */
  foreign: string[];
}

let launched: Promise<Watched & { clear(): Promise<void>; close(): Promise<void> }> | undefined;
/** For a script. At the end of a test file its profiles are closed, or all of it. */
export async function closeBrowser(): Promise<void> {
  const browser = launched;
  launched = undefined;
  await (await browser)?.close();
}
// No event tells of the end of a process that ran tests. In a run of test/run.ts the files that it runs one after another
// share the browser, which ends with it, and what it leaves lies in a folder that the run removes.
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
    // Of its own it gives up after half a minute.
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
      // What it asks on its own account.
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
    const context = await browser.newContext({ ...options, proxy: proxied });
    context.setDefaultTimeout(PATIENCE_MS);
    return context;
  };
  return { newContext, foreign, clear, close };
}

/** The browser of this process, started at the first call. */
export function openBrowser(): Promise<Watched> {
  launched ??= launch();
  return launched;
}
