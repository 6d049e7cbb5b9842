/** An appliance to which programs are let in over OAuth: Alice, its owner, is signed in, and programs ask. */
import { createHash } from "node:crypto";
import type { Runtime } from "../../../src/base/runtime.ts";
import type { Opened } from "../../../src/oauth/oauth.ts";
import { type Page, setPassword, signIn } from "../clients/browser-session.ts";
import { takePort } from "../port.ts";
import { type Booted, boot } from "./boot.ts";

export const CALLBACK = "https://app.example/callback";
export const VERIFIER = "a-verifier-of-43-characters-and-some-more-of-it";
export const challengeOf = (verifier: string): string => createHash("sha256").update(verifier).digest("base64url");

type Fields = Record<string, string | undefined>;
// biome-ignore lint/suspicious/noExplicitAny: answers are looked into as JSON.
type Json = Record<string, any>;

const filled = (fields: Fields): [string, string][] =>
  Object.entries(fields).filter((entry): entry is [string, string] => entry[1] !== undefined);

export interface Answer {
  status: number;
  headers: Headers;
  body: Json;
}

async function answerIn(response: Response): Promise<Answer> {
  const text = await response.text();
  return { status: response.status, headers: response.headers, body: text === "" ? {} : JSON.parse(text) };
}

export async function startOAuth(world: Partial<Runtime> = {}, env: Record<string, string> = {}) {
  const port = await takePort();
  const origin = `http://127.0.0.1:${port}`;
  const booted: Booted = await boot(
    { MAILROOM_HTTP: `127.0.0.1:${port}`, MAILROOM_BASE_URL: origin, ...env },
    world.dns,
    world,
  );
  await setPassword(booted, booted.owner.userId);
  const alice = await signIn(booted, "alice@example.test");
  const resource = `${origin}/api/mcp`;

  const post = async (path: string, fields: Fields, headers: Record<string, string> = {}) =>
    answerIn(await fetch(origin + path, { method: "POST", body: new URLSearchParams(filled(fields)), headers }));

  async function register(metadata: Json = {}): Promise<Answer> {
    const body = JSON.stringify({ client_name: "App", redirect_uris: [CALLBACK], ...metadata });
    return answerIn(
      await fetch(`${origin}/oauth/register`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body,
      }),
    );
  }

  /** The query of an authorization URL. */
  const queryOf = (clientId: string, fields: Fields = {}): string =>
    new URLSearchParams(
      filled({
        response_type: "code",
        client_id: clientId,
        redirect_uri: CALLBACK,
        code_challenge: challengeOf(VERIFIER),
        code_challenge_method: "S256",
        state: "st&te",
        resource,
        ...fields,
      }),
    ).toString();

  const open = (query: string, page: Page = alice) => page.send<Opened & Json>("POST", "/oauth/requests", { query });

  async function approve(
    query: string,
    { scopes = ["read", "write"], policy = {}, lasts }: { scopes?: string[]; policy?: object; lasts?: boolean } = {},
    page: Page = alice,
  ): Promise<URL> {
    const { body } = await open(query, page);
    const answer = await page.send<{ returnTo: string }>("POST", `/oauth/requests/${body.request?.id}/approve`, {
      scopes,
      policy,
      ...(lasts && { lasts }),
    });
    if (answer.status !== 200)
      throw new Error(`approving was answered ${answer.status} ${JSON.stringify(answer.body)}`);
    return new URL(answer.body.returnTo);
  }

  const exchange = (clientId: string, code: string, fields: Fields = {}, headers?: Record<string, string>) =>
    post(
      "/oauth/token",
      {
        grant_type: "authorization_code",
        client_id: clientId,
        code,
        redirect_uri: CALLBACK,
        code_verifier: VERIFIER,
        resource,
        ...fields,
      },
      headers,
    );

  const refresh = (clientId: string, token: string, fields: Fields = {}) =>
    post("/oauth/token", { grant_type: "refresh_token", client_id: clientId, refresh_token: token, ...fields });

  /** A program that was let in. */
  async function letIn(chosen: Parameters<typeof approve>[1] = {}) {
    const clientId: string = (await register()).body.client_id;
    const code = (await approve(queryOf(clientId), chosen)).searchParams.get("code") ?? "";
    const { status, body } = await exchange(clientId, code);
    if (status !== 200) throw new Error(`the code was answered ${status} ${JSON.stringify(body)}`);
    return { clientId, code, access: body.access_token as string, refreshToken: body.refresh_token as string, body };
  }

  return {
    ...booted,
    origin,
    resource,
    alice,
    post,
    register,
    queryOf,
    open,
    approve,
    exchange,
    refresh,
    letIn,
    get: async (path: string, headers: Record<string, string> = {}) =>
      answerIn(await fetch(origin + path, { headers, redirect: "manual" })),
    /** Status of a request to REST with a token. */
    tryToken: async (token: string, path = "/api/v1/mailboxes") =>
      (await fetch(origin + path, { headers: { authorization: `Bearer ${token}` } })).status,
    /** The keys as the settings list them. */
    keys: async () => (await alice.get<{ keys: Json[] }>("/settings/keys")).body.keys,
    set: (name: string, value: string) => booted.core.store.transact((tx) => booted.core.options.set(tx, name, value)),
  };
}

export type OAuthWorld = Awaited<ReturnType<typeof startOAuth>>;
