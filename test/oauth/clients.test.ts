/** Clients of others are let in, from nothing but the address of MCP: both SDKs of MCP, and an OAuth library (rules: OAuth). */
import { beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { Client as Client2026, StreamableHTTPClientTransport as Transport2026 } from "@modelcontextprotocol/client";
import { Client as Client2025 } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport as Transport2025 } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import * as oauth from "oauth4webapi";
import { confirm } from "../harness/clients/browser-session.ts";
import { type OAuthWorld, startOAuth } from "../harness/servers/oauth.ts";

const CALLBACK = "http://localhost:33418/callback";
let world: OAuthWorld;
beforeAll(async () => {
  world = await startOAuth();
});
beforeEach(async () => {
  await world.advance(61_000);
  await confirm(world.alice);
});

/** Makes a provider for an SDK: it keeps the program's credentials, and the URLs that the SDK opens in the browser. */
function createProvider() {
  const kept: { client?: unknown; tokens?: { access_token: string; refresh_token: string }; verifier?: string } = {};
  const opened: URL[] = [];
  return {
    opened,
    kept,
    redirectUrl: CALLBACK,
    clientMetadata: { client_name: "A program", redirect_uris: [CALLBACK] },
    clientInformation: () => kept.client,
    saveClientInformation(client: unknown) {
      kept.client = client;
    },
    tokens: () => kept.tokens,
    saveTokens(tokens: NonNullable<typeof kept.tokens>) {
      kept.tokens = tokens;
    },
    redirectToAuthorization: (url: URL) => void opened.push(url),
    saveCodeVerifier(verifier: string) {
      kept.verifier = verifier;
    },
    codeVerifier: () => kept.verifier,
    invalidateCredentials() {
      delete kept.tokens;
    },
  };
}

type Fetch = (url: string | URL, init?: RequestInit) => Promise<Response>;

/**
 * Tells when an SDK has got the answer to the stream that it asks for behind the answer to connecting. Were its access over while
 * it asks, it would renew it for that and for the next call at the same time: a token that comes twice ends the grant.
 */
function watchStream(): { fetch: Fetch; answered: Promise<void> } {
  const { promise: answered, resolve } = Promise.withResolvers<void>();
  return {
    answered,
    async fetch(url, init) {
      const response = await fetch(url, init);
      if (init?.method === "GET" && String(url) === world.resource) resolve();
      return response;
    },
  };
}

/** Each connects, is refused, is let in by Alice, and connects again. */
const sdks = {
  "1.x": () => ({
    make: () => new Client2025({ name: "test", version: "1" }),
    transport: (provider: unknown, fetch?: Fetch) =>
      new Transport2025(new URL(world.resource), { authProvider: provider as never, ...(fetch && { fetch }) }),
  }),
  "2.x": () => ({
    make: () => new Client2026({ name: "test", version: "1" }),
    transport: (provider: unknown, fetch?: Fetch) =>
      new Transport2026(new URL(world.resource), { authProvider: provider as never, ...(fetch && { fetch }) }),
  }),
};

describe.each(Object.keys(sdks) as (keyof typeof sdks)[])("the TypeScript SDK %s", (name) => {
  async function letIn(provider: ReturnType<typeof createProvider>) {
    const { make, transport } = sdks[name]();
    const first = transport(provider);
    const refused = await make()
      .connect(first as never)
      .then(
        () => undefined,
        (error: Error) => error,
      );
    expect(refused?.message).toMatch(/unauthori[sz]ed/i);
    const asked = provider.opened.at(-1) as URL;
    expect(asked.origin + asked.pathname).toBe(`${world.origin}/oauth/authorize`);
    expect(asked.searchParams.get("resource")).toBe(world.resource);
    const back = await world.approve(asked.search.slice(1));
    // SDK 2.x checks `iss` when it is given the whole answer.
    const answer = name === "2.x" ? back.searchParams : back.searchParams.get("code");
    await (first as { finishAuth(answer: unknown): Promise<void> }).finishAuth(answer);
    const client = make();
    const stream = watchStream();
    await client.connect(transport(provider, stream.fetch) as never);
    await stream.answered;
    return client;
  }

  test("is let in, lists tools and calls one", async () => {
    const provider = createProvider();
    const client = await letIn(provider);
    const { tools } = await client.listTools();
    // Without those that send, which the person did not give.
    expect(tools.map((tool) => tool.name)).toContain("list_mailboxes");
    expect(tools.map((tool) => tool.name)).not.toContain("send_email");
    const called = await client.callTool({ name: "list_mailboxes", arguments: {} });
    expect(called.structuredContent).toMatchObject({ mailboxes: [{ address: "alice@example.test" }] });
    await client.close();
  });

  test("renews its access by itself after an hour, and again", async () => {
    const provider = createProvider();
    const client = await letIn(provider);
    for (let hour = 0; hour < 3; hour++) {
      const before = provider.kept.tokens;
      await world.advance(3_600_000);
      await client.callTool({ name: "list_mailboxes", arguments: {} });
      expect(provider.kept.tokens?.access_token).not.toBe(before?.access_token);
      expect(provider.kept.tokens?.refresh_token).not.toBe(before?.refresh_token);
    }
    expect(provider.opened).toHaveLength(1);
    await client.close();
  });

  test("asks again once the grant is revoked", async () => {
    const provider = createProvider();
    const client = await letIn(provider);
    const grant = (await world.keys()).find(({ client: of, revokedAt }) => of && revokedAt === null);
    await world.alice.send("DELETE", `/settings/keys/${grant?.id}`);
    await expect(client.callTool({ name: "list_mailboxes", arguments: {} })).rejects.toThrow();
    expect(provider.opened).toHaveLength(2);
    await client.close();
  });
});

test("oauth4webapi, which knows nothing of MCP", async () => {
  const insecure = { [oauth.allowInsecureRequests]: true };
  // From the challenge to the metadata of both.
  const challenged = await fetch(world.resource, { method: "POST" });
  const metadataUrl = /resource_metadata="([^"]+)"/.exec(challenged.headers.get("www-authenticate") ?? "")?.[1] ?? "";
  expect(metadataUrl).toStartWith(world.origin);
  const resource = new URL(world.resource);
  const described = await oauth.processResourceDiscoveryResponse(
    resource,
    await oauth.resourceDiscoveryRequest(resource, insecure),
  );
  const issuer = new URL(described.authorization_servers?.[0] ?? "");
  const server = await oauth.processDiscoveryResponse(
    issuer,
    await oauth.discoveryRequest(issuer, { algorithm: "oauth2", ...insecure }),
  );
  const client = await oauth.processDynamicClientRegistrationResponse(
    await oauth.dynamicClientRegistrationRequest(
      server,
      { redirect_uris: [CALLBACK], client_name: "Library" },
      insecure,
    ),
  );
  const verifier = oauth.generateRandomCodeVerifier();
  const state = oauth.generateRandomState();
  const query = new URLSearchParams({
    response_type: "code",
    client_id: client.client_id,
    redirect_uri: CALLBACK,
    code_challenge: await oauth.calculatePKCECodeChallenge(verifier),
    code_challenge_method: "S256",
    resource: world.resource,
    state,
  });
  const back = await world.approve(query.toString());
  // Checks `state` and `iss`.
  const answer = oauth.validateAuthResponse(server, client, back, state);
  const none = oauth.None();
  const more = { additionalParameters: { resource: world.resource }, ...insecure };
  const response = await oauth.authorizationCodeGrantRequest(server, client, none, answer, CALLBACK, verifier, more);
  const tokens = await oauth.processAuthorizationCodeResponse(server, client, response);
  expect(tokens).toMatchObject({ token_type: "bearer", expires_in: 3_600, scope: "read write" });
  const got = await oauth.protectedResourceRequest(
    tokens.access_token,
    "GET",
    new URL(`${world.origin}/api/v1/mailboxes`),
    undefined,
    undefined,
    insecure,
  );
  expect(got.status).toBe(200);
  const renewed = await oauth.processRefreshTokenResponse(
    server,
    client,
    await oauth.refreshTokenGrantRequest(server, client, none, tokens.refresh_token ?? "", insecure),
  );
  await oauth.processRevocationResponse(
    await oauth.revocationRequest(server, client, none, renewed.refresh_token ?? "", insecure),
  );
  expect(await world.tryToken(renewed.access_token)).toBe(401);
});

test("an answer with the issuer of another server is refused by a client (mix-up, RFC 9207)", async () => {
  const insecure = { [oauth.allowInsecureRequests]: true };
  const issuer = new URL(world.origin);
  const server = await oauth.processDiscoveryResponse(
    issuer,
    await oauth.discoveryRequest(issuer, { algorithm: "oauth2", ...insecure }),
  );
  const clientId = (await world.register({ redirect_uris: [CALLBACK] })).body.client_id;
  const back = await world.approve(world.queryOf(clientId, { redirect_uri: CALLBACK, state: "state" }));
  const check = (url: URL) => () => oauth.validateAuthResponse(server, { client_id: clientId }, url, "state");
  expect(check(back)).not.toThrow();
  const other = new URL(back);
  other.searchParams.set("iss", "https://other.example");
  expect(check(other)).toThrow(/iss/);
  other.searchParams.delete("iss");
  expect(check(other)).toThrow(/iss/);
});
