/** Requests as a page in a browser sends them: with a session's cookie and the headers of its origin. */
import * as people from "../../../src/admin/people.ts";
import { quickHash } from "../quick-hash.ts";
import type { Booted } from "../servers/boot.ts";

export const PASSWORD = "correct horse battery staple";
const passwordHash = quickHash(PASSWORD);

/** Sets PASSWORD as a person's password. */
export async function setPassword({ core, opened }: Booted, userId: string): Promise<void> {
  const hash = await passwordHash;
  core.store.transact((tx) => people.setPassword(opened.core, tx, userId, hash));
}

export interface Page {
  /** The browser's cookie, which a proof of identity changes. */
  readonly cookie: string;
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
  let present = cookie;
  const ask = async (path: string, init: RequestInit = {}) => {
    const answer = await fetch(`${http}/app${path}`, {
      ...init,
      headers: { ...(present && { cookie: present }), origin: http, ...(init.headers as Record<string, string>) },
    });
    const given = path.startsWith("/me/") ? answer.headers.get("set-cookie") : null;
    present = given?.split(";")[0] ?? present;
    return answer;
  };
  const read = async <T>(answer: Response) => {
    const text = await answer.text();
    return { status: answer.status, headers: answer.headers, body: (text === "" ? undefined : JSON.parse(text)) as T };
  };
  return {
    get cookie() {
      return present;
    },
    fetch: ask,
    get: async (path) => read(await ask(path)),
    send: async (method, path, body = {}) =>
      read(await ask(path, { method, headers: { "content-type": "application/json" }, body: JSON.stringify(body) })),
  };
}

/** Signs in a person with PASSWORD, and gives the proof of identity at once. */
export async function signIn(booted: Booted, email: string): Promise<Page> {
  const signedIn = await signInOnly(booted, email);
  await confirm(signedIn);
  return signedIn;
}

/** Gives the proof of identity for a page, with PASSWORD. */
export async function confirm(of: Page, code?: string): Promise<void> {
  const { status } = await of.send("POST", "/me/confirm", { password: PASSWORD, code });
  if (status !== 204) throw new Error(`confirming was answered ${status}`);
}

/** Signs in a person with PASSWORD, without the proof. */
export async function signInOnly(booted: Booted, email: string): Promise<Page> {
  const answer = await page(booted).fetch("/sign-in", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ email, password: PASSWORD }),
  });
  if (answer.status !== 204) throw new Error(`signing in was answered ${answer.status}`);
  return page(booted, answer.headers.get("set-cookie")?.split(";")[0] ?? "");
}

/** Gives the proof for the session of a page in a real browser. */
export async function confirmIn(browserPage: { evaluate(script: string): Promise<unknown> }): Promise<void> {
  const request = { method: "POST", headers: { "content-type": "application/json" } };
  const script = `fetch("/app/me/confirm", ${JSON.stringify({ ...request, body: JSON.stringify({ password: PASSWORD }) })}).then((answer) => answer.status)`;
  const status = await browserPage.evaluate(script);
  if (status !== 204) throw new Error(`confirming was answered ${status}`);
}
