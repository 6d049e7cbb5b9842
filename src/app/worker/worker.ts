/**
 * The service worker: keeps the files of the app, so that it opens without a connection, and shows notifications. It
 * sees no data: requests for mail pass it by, and what it keeps is the same for everybody.
 */
import type { Notification as News } from "../../push/push.ts";

/** The parts of a service worker's scope that are used; their types and those of a page exclude each other. */
interface Scope {
  /** Set before this script (http/pages.ts): the name of the cache, which changes with the files, and their paths. */
  shell: { version: string; paths: string[] };
  clients: {
    claim(): Promise<void>;
    matchAll(options: { type: "window" }): Promise<WindowClient[]>;
    openWindow(url: string): Promise<unknown>;
  };
  registration: ServiceWorkerRegistration;
  skipWaiting(): Promise<void>;
  addEventListener<Name extends keyof Events>(name: Name, listener: (event: Events[Name]) => void): void;
}
interface WindowClient {
  focused: boolean;
  focus(): Promise<unknown>;
  postMessage(message: unknown): void;
}
interface Extendable extends Event {
  waitUntil(work: Promise<unknown>): void;
}
interface Events {
  install: Extendable;
  activate: Extendable;
  fetch: Extendable & { request: Request; respondWith(response: Promise<Response>): void };
  push: Extendable & { data: { json(): { notifications: News[] } } | null };
  notificationclick: Extendable & { notification: Notification };
}

const scope = self as unknown as Scope;
const { version, paths } = scope.shell;
const wanted = new Set(paths);
/** The document of every page. */
const PAGE = "/";
const PAGES = /^\/(?:$|mail(?:\/|$)|approve(?:\/|$)|settings(?:\/|$)|sign-in$)/;

async function keepFiles(): Promise<void> {
  const cache = await caches.open(version);
  await cache.addAll([PAGE, ...paths]);
  await scope.skipWaiting();
}

async function forgetOthers(): Promise<void> {
  const names = await caches.keys();
  await Promise.all(names.filter((name) => name !== version).map((name) => caches.delete(name)));
  await scope.clients.claim();
}

/** The server's page is newer than the kept one, so that one is only for when the server is away. */
async function page(request: Request): Promise<Response> {
  try {
    return await fetch(request);
  } catch (error) {
    const found = await caches.match(PAGE);
    if (!found) throw error;
    return found;
  }
}

const file = async (request: Request): Promise<Response> => (await caches.match(request)) ?? fetch(request);

/** Nothing is shown to a person who is looking at the app. */
async function show(news: readonly News[]): Promise<void> {
  const windows = await scope.clients.matchAll({ type: "window" });
  if (windows.some(({ focused }) => focused)) return;
  for (const { title, body, url, tag } of news) {
    await scope.registration.showNotification(title, { body, tag, data: { url }, icon: "/icon-192.png" });
  }
}

async function open(url: string): Promise<void> {
  const [window] = await scope.clients.matchAll({ type: "window" });
  if (!window) return void (await scope.clients.openWindow(url));
  // The page goes there itself, which keeps what is being written.
  window.postMessage({ open: url });
  await window.focus();
}

scope.addEventListener("install", (event) => event.waitUntil(keepFiles()));
scope.addEventListener("activate", (event) => event.waitUntil(forgetOthers()));
scope.addEventListener("fetch", (event) => {
  const { request } = event;
  const { origin, pathname } = new URL(request.url);
  if (request.method !== "GET" || origin !== location.origin) return;
  if (request.mode === "navigate" && PAGES.test(pathname)) event.respondWith(page(request));
  else if (wanted.has(pathname)) event.respondWith(file(request));
});
scope.addEventListener("push", (event) => event.waitUntil(show(event.data?.json().notifications ?? [])));
scope.addEventListener("notificationclick", (event) => {
  event.notification.close();
  event.waitUntil(open(String(event.notification.data.url)));
});
