/** What a page in a browser asks of the server: a session's cookie, and where the request comes from. */
import type { Booted } from "./appliance.ts";
import { quickHash } from "./quick-hash.ts";

export const PASSWORD = "correct horse battery staple";
const passwordHash = quickHash(PASSWORD);

/** Gives somebody the PASSWORD. */
export async function setPassword({ appliance }: Booted, userId: string): Promise<void> {
  const hash = await passwordHash;
  appliance.store.transact((tx) => appliance.people.setPassword(tx, userId, hash));
}

export interface Page {
  cookie: string;
  fetch(path: string, init?: RequestInit): Promise<Response>;
  get<T = Record<string, unknown>>(path: string): Promise<{ status: number; body: T }>;
  send<T = Record<string, unknown>>(
    method: string,
    path: string,
    body?: unknown,
  ): Promise<{ status: number; body: T; headers: Headers }>;
}

/** Paths are below /app. */
export function page({ http }: Pick<Booted, "http">, cookie = ""): Page {
  const ask = (path: string, init: RequestInit = {}) =>
    fetch(`${http}/app${path}`, {
      ...init,
      headers: { ...(cookie && { cookie }), origin: http, ...(init.headers as Record<string, string>) },
    });
  const read = async <T>(answer: Response) => {
    const text = await answer.text();
    return { status: answer.status, headers: answer.headers, body: (text === "" ? undefined : JSON.parse(text)) as T };
  };
  return {
    cookie,
    fetch: ask,
    get: async (path) => read(await ask(path)),
    send: async (method, path, body = {}) =>
      read(await ask(path, { method, headers: { "content-type": "application/json" }, body: JSON.stringify(body) })),
  };
}

/** Signs in as somebody who has the PASSWORD. */
export async function signIn(booted: Booted, email: string): Promise<Page> {
  const answer = await page(booted).fetch("/sign-in", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ email, password: PASSWORD }),
  });
  if (answer.status !== 204) throw new Error(`signing in was answered ${answer.status}`);
  return page(booted, answer.headers.get("set-cookie")?.split(";")[0] ?? "");
}
