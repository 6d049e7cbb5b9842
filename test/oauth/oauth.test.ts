/** Programs find the server, register, ask and get tokens (rules: OAuth). */
import { beforeAll, beforeEach, describe, expect, test } from "bun:test";
import * as people from "../../src/admin/people.ts";
import { confirm, setPassword, signIn, signInOnly } from "../harness/clients/browser-session.ts";
import { CALLBACK, challengeOf, type OAuthWorld, startOAuth, VERIFIER } from "../harness/servers/oauth.ts";

let world: OAuthWorld;
let clientId: string;
beforeAll(async () => {
  world = await startOAuth();
  clientId = (await world.register()).body.client_id;
});
// Failed guesses of earlier tests are forgotten, and Alice proves again that it is her.
beforeEach(async () => {
  await world.advance(61_000);
  await confirm(world.alice);
});

describe("a program that knows only the address of MCP (rules: OAuth metadata)", () => {
  test("is led by the 401 to the resource's metadata", async () => {
    const { status, headers } = await world.get("/api/mcp");
    expect(status).toBe(401);
    const metadata = `${world.origin}/.well-known/oauth-protected-resource/api/mcp`;
    expect(headers.get("www-authenticate")).toBe(`Bearer resource_metadata="${metadata}"`);
    const invalid = await world.get("/api/mcp", { authorization: "Bearer mro_wrong" });
    expect(invalid.status).toBe(401);
    expect(invalid.headers.get("www-authenticate")).toBe(
      `Bearer resource_metadata="${metadata}", error="invalid_token"`,
    );
    const rest = await world.get("/api/v1/mailboxes");
    expect(rest.headers.get("www-authenticate")).toBe('Bearer realm="mailroom"');
  });

  test.each(["", "/api/mcp"])("finds the resource at /.well-known/oauth-protected-resource%s", async (path) => {
    const { status, body, headers } = await world.get(`/.well-known/oauth-protected-resource${path}`);
    expect(status).toBe(200);
    expect(headers.get("content-type")).toContain("application/json");
    expect(body).toMatchObject({
      resource: world.resource,
      authorization_servers: [world.origin],
      scopes_supported: ["read", "send", "write"],
      bearer_methods_supported: ["header"],
    });
  });

  test("finds the authorization server", async () => {
    const { status, body } = await world.get("/.well-known/oauth-authorization-server");
    expect(status).toBe(200);
    expect(body).toEqual({
      issuer: world.origin,
      authorization_endpoint: `${world.origin}/oauth/authorize`,
      token_endpoint: `${world.origin}/oauth/token`,
      revocation_endpoint: `${world.origin}/oauth/revoke`,
      registration_endpoint: `${world.origin}/oauth/register`,
      scopes_supported: ["read", "send", "write", "offline_access"],
      response_types_supported: ["code"],
      response_modes_supported: ["query"],
      grant_types_supported: ["authorization_code", "refresh_token"],
      token_endpoint_auth_methods_supported: ["none"],
      revocation_endpoint_auth_methods_supported: ["none"],
      code_challenge_methods_supported: ["S256"],
      authorization_response_iss_parameter_supported: true,
      client_id_metadata_document_supported: true,
    });
  });

  test("other methods are refused", async () => {
    const wrong = await world.post("/.well-known/oauth-authorization-server", {});
    expect([wrong.status, wrong.headers.get("allow")]).toEqual([405, "GET, HEAD"]);
    const token = await world.get("/oauth/token");
    expect([token.status, token.headers.get("allow")]).toEqual([405, "POST"]);
  });
});

describe("the whole way", () => {
  test("from a request to mail, over REST and MCP", async () => {
    const opened = await world.open(world.queryOf(clientId));
    expect(opened.body).toEqual({
      client: { name: "App" },
      place: { kind: "host", name: "app.example" },
      request: { id: expect.any(String), scopes: ["read", "send", "write"], suggested: ["read", "write"] },
    });
    const back = await world.approve(world.queryOf(clientId), { policy: { send: "hold" } });
    expect(back.origin + back.pathname).toBe(CALLBACK);
    expect(back.searchParams.get("state")).toBe("st&te");
    expect(back.searchParams.get("iss")).toBe(world.origin);
    const { status, body, headers } = await world.exchange(clientId, back.searchParams.get("code") ?? "");
    expect(status).toBe(200);
    expect(headers.get("cache-control")).toBe("no-store");
    expect(body).toEqual({
      access_token: expect.stringMatching(/^mro_[A-Za-z0-9]{43}$/),
      token_type: "Bearer",
      expires_in: 3600,
      refresh_token: expect.stringMatching(/^mrr_[A-Za-z0-9]{43}$/),
      scope: "read write",
    });
    expect(await world.tryToken(body.access_token)).toBe(200);
    const mcp = await fetch(world.resource, {
      method: "POST",
      headers: {
        authorization: `Bearer ${body.access_token}`,
        "content-type": "application/json",
        accept: "application/json, text/event-stream",
      },
      body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/list" }),
    });
    expect(mcp.status).toBe(200);
    expect(await mcp.text()).toContain("list_mailboxes");
    // The scopes, and no administration.
    const sent = await fetch(`${world.origin}/api/v1/send`, {
      method: "POST",
      headers: { authorization: `Bearer ${body.access_token}`, "content-type": "application/json" },
      body: "{}",
    });
    expect([sent.status, (await sent.json()).code]).toEqual([403, "missing_scope"]);
    expect(await world.tryToken(body.access_token, "/api/admin/v1/keys")).toBe(403);
  });

  test("a grant stands among the keys, and is paused, restricted and revoked there", async () => {
    const { access } = await world.letIn({ scopes: ["read"], policy: { send: "hold" } });
    await world.advance(120_000);
    const [key] = await world.keys();
    expect(key).toMatchObject({
      name: "App",
      scopes: ["read"],
      policy: { send: "hold" },
      hint: "OAuth",
      user: "alice@example.test",
      client: { id: expect.stringMatching(/^cli_/), name: "App", host: "app.example" },
      lastUsedAt: null,
    });
    expect(await world.tryToken(access)).toBe(200);
    await world.advance(0);
    expect((await world.keys())[0]?.lastUsedAt).not.toBeNull();
    await world.alice.send("PATCH", `/settings/keys/${key?.id}`, { paused: true });
    expect(await world.tryToken(access)).toBe(403);
    await world.alice.send("PATCH", `/settings/keys/${key?.id}`, {
      paused: false,
      policy: { networks: ["10.0.0.0/8"] },
    });
    expect(await world.tryToken(access)).toBe(403);
    await world.alice.send("PATCH", `/settings/keys/${key?.id}`, { policy: {} });
    expect(await world.tryToken(access)).toBe(200);
    await world.alice.send("DELETE", `/settings/keys/${key?.id}`);
    expect(await world.tryToken(access)).toBe(401);
  });

  test("what it did is in the journal, and is taken back", async () => {
    const { access } = await world.letIn();
    const [key] = await world.keys();
    const headers = { authorization: `Bearer ${access}`, "content-type": "application/json" };
    const draft = await fetch(`${world.origin}/api/ext/v1/drafts`, {
      method: "POST",
      headers,
      body: JSON.stringify({ from: "alice@example.test", to: "ben@example.test", subject: "Hi", text: "Hi" }),
    });
    expect(draft.status).toBeLessThan(300);
    const { body } = await world.alice.get<{ entries: object[] }>(`/settings/keys/${key?.id}/journal`);
    expect(body.entries).toMatchObject([{ operation: "createDraft", face: "rest" }]);
    expect(JSON.stringify(body)).not.toContain(access);
  });
});

describe("a malformed request (RFC 6749 §4.1.2.1)", () => {
  const cases: [string, Record<string, string | undefined>, string][] = [
    ["no response_type", { response_type: undefined }, "invalid_request"],
    ["response_type token", { response_type: "token" }, "unsupported_response_type"],
    ["another response_mode", { response_mode: "fragment" }, "invalid_request"],
    ["no challenge", { code_challenge: undefined }, "invalid_request"],
    ["an empty challenge", { code_challenge: "" }, "invalid_request"],
    ["a short challenge", { code_challenge: "abc" }, "invalid_request"],
    ["no method, which means plain", { code_challenge_method: undefined }, "invalid_request"],
    ["method plain", { code_challenge_method: "plain" }, "invalid_request"],
    ["an unknown scope", { scope: "read everything" }, "invalid_scope"],
    ["scope admin", { scope: "admin" }, "invalid_scope"],
    ["scope approve", { scope: "read approve" }, "invalid_scope"],
    ["another resource", { resource: "https://other.example/api/mcp" }, "invalid_target"],
    ["a long state", { state: "x".repeat(5_000) }, "invalid_request"],
  ];
  test.each(cases)("%s", async (_, fields, code) => {
    const { status, body } = await world.open(world.queryOf(clientId, fields));
    expect(status).toBe(200);
    expect(body.request).toBeUndefined();
    expect(body.refusal?.code).toBe(code);
    const back = new URL(body.refusal?.returnTo ?? "");
    expect(back.origin + back.pathname).toBe(CALLBACK);
    expect(back.searchParams.get("error")).toBe(code);
    expect(back.searchParams.get("iss")).toBe(world.origin);
    expect(back.searchParams.get("state")).toBe(fields.state ?? "st&te");
    expect(back.searchParams.get("code")).toBeNull();
  });

  test("a parameter given twice", async () => {
    const { body } = await world.open(`${world.queryOf(clientId)}&scope=read&scope=write`);
    expect(body.refusal?.code).toBe("invalid_request");
    const resources = await world.open(`${world.queryOf(clientId)}&resource=${encodeURIComponent(world.resource)}`);
    expect(resources.body.request).toBeDefined();
  });

  test("a person who refuses", async () => {
    const { body } = await world.open(world.queryOf(clientId));
    const denied = await world.alice.send<{ returnTo: string }>("POST", `/oauth/requests/${body.request?.id}/deny`);
    const back = new URL(denied.body.returnTo);
    expect(back.searchParams.get("error")).toBe("access_denied");
    expect(back.searchParams.get("iss")).toBe(world.origin);
    const again = await world.alice.send("POST", `/oauth/requests/${body.request?.id}/deny`);
    expect(again.status).toBe(404);
  });
});

describe("nothing leads to an address that is not registered", () => {
  const cases: [string, string | undefined][] = [
    ["another host", "https://evil.example/callback"],
    ["another path", `${CALLBACK}/more`],
    ["another case", "https://app.example/Callback"],
    ["a query", `${CALLBACK}?next=1`],
    ["a fragment", `${CALLBACK}#x`],
    ["another port", "https://app.example:8443/callback"],
    ["a user name", "https://app.example@evil.example/callback"],
    ["a dot segment", "https://app.example/x/../callback"],
    ["another scheme", "http://app.example/callback"],
    ["a script", "javascript:alert(1)"],
  ];
  test.each(cases)("%s", async (_, uri) => {
    // A malformed request is no way around it.
    for (const fields of [{}, { response_type: "token" }, { scope: "admin" }]) {
      const { status, body } = await world.open(world.queryOf(clientId, { redirect_uri: uri, ...fields }));
      expect(status).toBe(422);
      expect(JSON.stringify(body)).not.toContain("evil");
    }
  });

  test("an unknown program, none, and two", async () => {
    for (const query of [
      world.queryOf("cli_unknown"),
      world.queryOf(""),
      `${world.queryOf(clientId)}&client_id=${clientId}`,
      `${world.queryOf(clientId)}&redirect_uri=${encodeURIComponent(CALLBACK)}`,
    ]) {
      expect((await world.open(query)).status).toBe(422);
    }
  });

  test("the only registered one is meant where none is given; of several, one must be", async () => {
    const { body } = await world.open(world.queryOf(clientId, { redirect_uri: undefined }));
    expect(body.place).toEqual({ kind: "host", name: "app.example" });
    const two = (await world.register({ redirect_uris: [CALLBACK, `${CALLBACK}2`] })).body.client_id;
    expect((await world.open(world.queryOf(two, { redirect_uri: undefined }))).status).toBe(422);
  });

  test("a loopback address may have any port, and no other difference (RFC 8252)", async () => {
    const uris = ["http://localhost:33418/cb", "http://127.0.0.1/cb", "http://[::1]:1/cb"];
    const id = (await world.register({ redirect_uris: uris })).body.client_id;
    const opened = async (uri: string) => (await world.open(world.queryOf(id, { redirect_uri: uri }))).status;
    for (const uri of [
      "http://localhost:9/cb",
      "http://localhost/cb",
      "http://127.0.0.1:5/cb",
      "http://[::1]:65535/cb",
    ]) {
      expect([uri, await opened(uri)]).toEqual([uri, 200]);
    }
    for (const uri of [
      "http://localhost:9/other",
      "https://localhost:9/cb",
      "http://127.0.0.2:5/cb",
      "http://localhost.evil.example/cb",
    ]) {
      expect([uri, await opened(uri)]).toEqual([uri, 422]);
    }
    expect((await world.open(world.queryOf(id, { redirect_uri: "http://localhost:9/cb" }))).body.place).toEqual({
      kind: "computer",
      name: "localhost:9",
    });
  });

  test("the query of a registered address stays as it is", async () => {
    const uri = "https://app.example/cb?a=1&b=%20";
    const id = (await world.register({ redirect_uris: [uri] })).body.client_id;
    const { href } = await world.approve(world.queryOf(id, { redirect_uri: uri }));
    expect(href).toStartWith(`${uri}&code=`);
  });
});

describe("a malformed exchange (RFC 6749 §5.2)", () => {
  const codeFor = async () => (await world.approve(world.queryOf(clientId))).searchParams.get("code") ?? "";

  const cases: [string, Record<string, string | undefined>, number, string][] = [
    ["no grant_type", { grant_type: undefined }, 400, "invalid_request"],
    ["another grant_type", { grant_type: "client_credentials" }, 400, "unsupported_grant_type"],
    ["password", { grant_type: "password", username: "a", password: "b" }, 400, "unsupported_grant_type"],
    ["no code", { code: undefined }, 400, "invalid_request"],
    ["no verifier", { code_verifier: undefined }, 400, "invalid_request"],
    ["no client", { client_id: undefined }, 400, "invalid_request"],
    ["an unknown client", { client_id: "cli_unknown" }, 401, "invalid_client"],
    ["a secret", { client_secret: "x" }, 401, "invalid_client"],
    ["another code", { code: "x".repeat(43) }, 400, "invalid_grant"],
    ["another verifier", { code_verifier: `${VERIFIER}x` }, 400, "invalid_grant"],
    ["the challenge as verifier", { code_verifier: challengeOf(VERIFIER) }, 400, "invalid_grant"],
    ["another redirect URI", { redirect_uri: `${CALLBACK}x` }, 400, "invalid_grant"],
    ["no redirect URI", { redirect_uri: undefined }, 400, "invalid_grant"],
    ["another resource", { resource: "https://other.example" }, 400, "invalid_target"],
  ];
  test.each(cases)("%s", async (_, fields, status, code) => {
    const given = await codeFor();
    const answer = await world.exchange(clientId, given, fields);
    expect([answer.status, answer.body.error]).toEqual([status, code]);
    expect(answer.body.error_description).toMatch(/^[\x20-\x21\x23-\x5b\x5d-\x7e]+$/);
    expect(answer.headers.get("cache-control")).toBe("no-store");
    if (status === 401) expect(answer.headers.get("www-authenticate")).not.toBeNull();
    // The program's own, right request goes on.
    expect((await world.exchange(clientId, given)).status).toBe(200);
  });

  test("another program's code", async () => {
    const other = (await world.register()).body.client_id;
    const answer = await world.exchange(other, await codeFor());
    expect(answer.body.error).toBe("invalid_grant");
  });

  test("an Authorization header, JSON, a parameter twice, a large body", async () => {
    const basic = await world.exchange(clientId, "x", {}, { authorization: `Basic ${btoa(`${clientId}:x`)}` });
    expect([basic.status, basic.body.error]).toEqual([401, "invalid_client"]);
    const ask = async (type: string, body: string) => {
      const answer = await fetch(`${world.origin}/oauth/token`, {
        method: "POST",
        headers: { "content-type": type },
        body,
      });
      return [answer.status, (await answer.json()).error];
    };
    expect(await ask("application/json", "{}")).toEqual([400, "invalid_request"]);
    const form = "application/x-www-form-urlencoded";
    expect(await ask(form, "grant_type=refresh_token&client_id=a&client_id=b")).toEqual([400, "invalid_request"]);
    expect(await ask(form, `grant_type=refresh_token&x=${"x".repeat(20_000)}`)).toEqual([413, "invalid_request"]);
  });
});

describe("codes", () => {
  test("live a minute", async () => {
    const code = (await world.approve(world.queryOf(clientId))).searchParams.get("code") ?? "";
    const late = (await world.approve(world.queryOf(clientId))).searchParams.get("code") ?? "";
    await world.advance(59_000);
    expect((await world.exchange(clientId, code)).status).toBe(200);
    await world.advance(1_000);
    expect((await world.exchange(clientId, late)).body.error).toBe("invalid_grant");
  });

  test("work once: again, whatever came of it ends", async () => {
    const { clientId: id, code, access, refreshToken } = await world.letIn();
    expect(await world.tryToken(access)).toBe(200);
    expect((await world.exchange(id, code)).body.error).toBe("invalid_grant");
    expect(await world.tryToken(access)).toBe(401);
    expect((await world.refresh(id, refreshToken)).body.error).toBe("invalid_grant");
  });

  test("a person decides once", async () => {
    const { body } = await world.open(world.queryOf(clientId));
    const path = `/oauth/requests/${body.request?.id}/approve`;
    expect((await world.alice.send("POST", path, { scopes: ["read"], policy: {} })).status).toBe(200);
    expect((await world.alice.send("POST", path, { scopes: ["read"], policy: {} })).status).toBe(404);
  });

  test("nobody came for: the grant is discarded", async () => {
    const own = await startOAuth();
    const id = (await own.register()).body.client_id;
    await own.approve(own.queryOf(id));
    expect((await own.keys()).filter(({ client }) => client)).toHaveLength(1);
    await own.advance(3_600_000);
    await own.advance(3_600_000);
    expect((await own.keys()).filter(({ client }) => client)).toHaveLength(0);
  });
});

describe("refresh tokens", () => {
  test("rotate; the access token before stays until its hour is over", async () => {
    const { clientId: id, access, refreshToken } = await world.letIn();
    const { status, body } = await world.refresh(id, refreshToken, { resource: world.resource });
    expect(status).toBe(200);
    expect(body.refresh_token).not.toBe(refreshToken);
    expect(await world.tryToken(access)).toBe(200);
    await world.advance(3_600_000);
    expect(await world.tryToken(access)).toBe(401);
    expect(await world.tryToken(body.access_token)).toBe(401);
    expect((await world.refresh(id, body.refresh_token)).status).toBe(200);
  });

  test("whose reuse ends the grant", async () => {
    const { clientId: id, refreshToken } = await world.letIn();
    const { body } = await world.refresh(id, refreshToken);
    expect((await world.refresh(id, refreshToken)).body.error).toBe("invalid_grant");
    expect(await world.tryToken(body.access_token)).toBe(401);
    expect((await world.refresh(id, body.refresh_token)).body.error).toBe("invalid_grant");
    expect((await world.keys())[0]?.revokedAt).not.toBeNull();
  });

  test("are their program's own, for the grant's resource and scopes", async () => {
    const { clientId: id, refreshToken } = await world.letIn({ scopes: ["read"] });
    const other = (await world.register()).body.client_id;
    expect((await world.refresh(other, refreshToken)).body.error).toBe("invalid_grant");
    expect((await world.refresh(id, refreshToken, { resource: "https://other.example" })).body.error).toBe(
      "invalid_target",
    );
    expect((await world.refresh(id, refreshToken, { scope: "read send" })).body.error).toBe("invalid_scope");
    expect((await world.refresh(id, `${refreshToken}x`)).body.error).toBe("invalid_grant");
    expect((await world.refresh(id, "")).body.error).toBe("invalid_request");
    expect((await world.refresh(id, refreshToken, { scope: "read offline_access" })).body.scope).toBe("read");
  });

  test("an access token is no refresh token, nor the other way round", async () => {
    const { clientId: id, access, refreshToken } = await world.letIn();
    expect((await world.refresh(id, access)).body.error).toBe("invalid_grant");
    expect(await world.tryToken(refreshToken)).toBe(401);
  });

  test("last 90 days from the last renewal; a grant without tokens ends", async () => {
    const own = await startOAuth();
    const { clientId: id, refreshToken } = await own.letIn();
    await own.advance(80 * 86_400_000);
    const { body } = await own.refresh(id, refreshToken);
    await own.advance(80 * 86_400_000);
    const again = await own.refresh(id, body.refresh_token);
    expect(again.status).toBe(200);
    await own.advance(91 * 86_400_000);
    expect((await own.refresh(id, again.body.refresh_token)).body.error).toBe("invalid_grant");
    const alice = await signIn(own, "alice@example.test");
    const { body: listed } = await alice.get<{ keys: { client: unknown; revokedAt: string | null }[] }>(
      "/settings/keys",
    );
    expect(listed.keys.find(({ client }) => client)?.revokedAt).toEqual(expect.any(String));
  });
});

describe("revocation (RFC 7009)", () => {
  test("of a refresh token ends the grant", async () => {
    const { clientId: id, access, refreshToken } = await world.letIn();
    expect((await world.post("/oauth/revoke", { token: refreshToken, client_id: id })).status).toBe(200);
    expect(await world.tryToken(access)).toBe(401);
    expect((await world.refresh(id, refreshToken)).body.error).toBe("invalid_grant");
  });

  test("of an access token ends it alone", async () => {
    const { clientId: id, access, refreshToken } = await world.letIn();
    const fields = { token: access, token_type_hint: "refresh_token", client_id: id };
    expect((await world.post("/oauth/revoke", fields)).status).toBe(200);
    expect(await world.tryToken(access)).toBe(401);
    expect((await world.refresh(id, refreshToken)).status).toBe(200);
  });

  test("of what is none is answered 200, of another program's refused", async () => {
    const { access } = await world.letIn();
    expect((await world.post("/oauth/revoke", { token: "mro_none", client_id: clientId })).status).toBe(200);
    const other = await world.post("/oauth/revoke", { token: access, client_id: clientId });
    expect([other.status, other.body.error]).toEqual([400, "invalid_grant"]);
    expect(await world.tryToken(access)).toBe(200);
    expect((await world.post("/oauth/revoke", { client_id: clientId })).body.error).toBe("invalid_request");
    expect((await world.post("/oauth/revoke", { token: "x", client_id: "cli_no" })).body.error).toBe("invalid_client");
  });
});

describe("registration (RFC 7591)", () => {
  test("answers what counts here", async () => {
    const { status, body } = await world.register({
      client_name: "  Two\n\u202eLines ",
      token_endpoint_auth_method: "client_secret_post",
      grant_types: ["authorization_code", "refresh_token"],
      response_types: ["code"],
      logo_uri: "https://app.example/logo.png",
    });
    expect(status).toBe(201);
    expect(body).toEqual({
      client_id: expect.stringMatching(/^cli_/),
      client_id_issued_at: expect.any(Number),
      client_name: "Two Lines",
      redirect_uris: [CALLBACK],
      grant_types: ["authorization_code", "refresh_token"],
      response_types: ["code"],
      token_endpoint_auth_method: "none",
    });
  });

  const wrong: [string, object, string][] = [
    ["no redirect URI", { redirect_uris: undefined }, "invalid_redirect_uri"],
    ["an empty list", { redirect_uris: [] }, "invalid_redirect_uri"],
    ["many", { redirect_uris: Array.from({ length: 21 }, (_, n) => `${CALLBACK}${n}`) }, "invalid_redirect_uri"],
    ["no text", { redirect_uris: [1] }, "invalid_redirect_uri"],
    ["plain HTTP", { redirect_uris: ["http://app.example/"] }, "invalid_redirect_uri"],
    ["a script", { redirect_uris: ["javascript:alert(1)"] }, "invalid_redirect_uri"],
    ["data", { redirect_uris: ["data:text/html,x"] }, "invalid_redirect_uri"],
    ["a file", { redirect_uris: ["file:///etc/passwd"] }, "invalid_redirect_uri"],
    ["a fragment", { redirect_uris: [`${CALLBACK}#x`] }, "invalid_redirect_uri"],
    ["a user name", { redirect_uris: ["https://user@app.example/"] }, "invalid_redirect_uri"],
    ["no URL", { redirect_uris: ["callback"] }, "invalid_redirect_uri"],
    ["another grant", { grant_types: ["client_credentials"] }, "invalid_client_metadata"],
    ["another response", { response_types: ["token"] }, "invalid_client_metadata"],
  ];
  test("refuses what makes no sense", async () => {
    const own = await startOAuth();
    for (const [what, metadata, code] of wrong) {
      const { status, body } = await own.register(metadata);
      expect([what, status, body.error]).toEqual([what, 400, code]);
    }
    for (const body of ["[]", "null", "no json"]) {
      const headers = { "content-type": "application/json" };
      const answer = await fetch(`${own.origin}/oauth/register`, { method: "POST", headers, body });
      expect([answer.status, (await answer.json()).error]).toEqual([400, "invalid_client_metadata"]);
    }
  });

  test("an app's own scheme is allowed", async () => {
    const redirect_uris = ["cursor://anysphere/cb", "vscode://vendor.app/cb", "com.example.app:/cb", "msteams-app:/cb"];
    const id = (await world.register({ redirect_uris })).body.client_id;
    for (const uri of redirect_uris) {
      const { body } = await world.open(world.queryOf(id, { redirect_uri: uri }));
      expect(body.place).toEqual({ kind: "app", name: uri.slice(0, uri.indexOf(":") + 1) });
    }
  });

  test.each([
    ...[
      "feed:javascript:alert(1)",
      "FEED:https://evil.example/",
      "search-ms:query=x&crumb=location:evil",
      "ms-msdt:/id",
    ],
    ...[
      "ms-settings:network",
      "ms-word:ofe|u|https://evil.example",
      "chrome-extension://abc/cb",
      "moz-extension://abc/cb",
    ],
    ...["safari-web-extension://abc/cb", "view-source:https://evil.example", "microsoft-edge:https://evil.example"],
    ...["intent://scan/#Intent;end", "blob:https://app.example/1", "about:blank", "x-apple.systempreferences:x"],
    ...["itms-services://?url=x", "web+feed:x", "jar:https://evil.example!/x", "webcal://evil.example/", "tel:1"],
  ])("a scheme on which browsers or systems act is refused: %s", async (uri) => {
    // Limited by the hour, whatever is sent.
    await world.advance(3_600_000);
    const { status, body } = await world.register({ redirect_uris: [CALLBACK, uri] });
    expect([status, body.error]).toEqual([400, "invalid_redirect_uri"]);
  });

  test("is limited for a source, by the hour", async () => {
    const own = await startOAuth();
    for (let n = 0; n < 20; n++) expect((await own.register()).status).toBe(201);
    const refused = await own.register();
    expect([refused.status, refused.body.error]).toEqual([429, "temporarily_unavailable"]);
    expect(Number(refused.headers.get("retry-after"))).toBeGreaterThan(0);
    await own.advance(3_600_000);
    expect((await own.register()).status).toBe(201);
  });

  test("nobody used is forgotten after 30 days; one with a grant is not", async () => {
    const own = await startOAuth();
    const { clientId: used } = await own.letIn();
    const unused = (await own.register()).body.client_id;
    expect((await own.open(own.queryOf(unused))).status).toBe(200);
    await own.advance(29 * 86_400_000);
    let alice = await signIn(own, "alice@example.test");
    expect((await own.open(own.queryOf(unused), alice)).status).toBe(200);
    await own.advance(86_400_001);
    alice = await signIn(own, "alice@example.test");
    expect((await own.open(own.queryOf(unused), alice)).status).toBe(422);
    expect((await own.open(own.queryOf(used), alice)).status).toBe(200);
  });
});

describe("who may let programs in (rules: OAuth grants)", () => {
  const addMax = async (own: OAuthWorld) => {
    const { core } = own.opened;
    const { store } = core;
    const { userId } = store.transact((tx) =>
      people.addUser(core, tx, {
        workspaceId: own.owner.workspaceId,
        email: "max@example.test",
        name: "Max",
        role: "member",
        ownMailbox: true,
      }),
    );
    await setPassword(own, userId);
    return { userId, page: await signIn(own, "max@example.test") };
  };

  test("owners and admins, or everyone", async () => {
    const own = await startOAuth();
    const { page } = await addMax(own);
    const id = (await own.register()).body.client_id;
    const refused = await own.open(own.queryOf(id), page);
    expect(refused.body.refusal?.code).toBe("access_denied");
    own.set("oauth.grants", "everyone");
    const { body } = await own.open(own.queryOf(id), page);
    expect(body.request).toBeDefined();
    own.set("oauth.grants", "admins");
    const late = await page.send("POST", `/oauth/requests/${body.request?.id}/approve`, {
      scopes: ["read"],
      policy: {},
    });
    expect(late.status).toBe(403);
  });

  test("a grant reaches what its person reaches, follows their role and ends with them", async () => {
    const own = await startOAuth();
    own.set("oauth.grants", "everyone");
    const { userId, page } = await addMax(own);
    const id = (await own.register()).body.client_id;
    const theirs = own.owner.mailboxId;
    // A mailbox that exists is told from none only to those who reach it.
    const { body: opened } = await own.open(own.queryOf(id), page);
    const path = `/oauth/requests/${opened.request?.id}/approve`;
    const beyond = await page.send("POST", path, { scopes: ["read"], policy: { mailboxes: ["alice@example.test"] } });
    const unknown = await page.send("POST", path, { scopes: ["read"], policy: { mailboxes: ["nobody@example.test"] } });
    expect([beyond.status, unknown.status]).toEqual([400, 400]);
    const code = (await own.approve(own.queryOf(id), {}, page)).searchParams.get("code") ?? "";
    const { body } = await own.exchange(id, code);
    const reached = async () => {
      const headers = { authorization: `Bearer ${body.access_token}` };
      const answer = await fetch(`${own.origin}/api/v1/mailboxes`, { headers });
      return answer.status === 200
        ? (await answer.json()).mailboxes.map(({ address }: { address: string }) => address)
        : answer.status;
    };
    expect(await reached()).toEqual(["max@example.test"]);
    const {
      core: { store },
    } = own.opened;
    const rename = (role: "admin" | "member") => own.alice.send("PATCH", `/settings/people/${userId}`, { role });
    expect((await rename("admin")).status).toBe(200);
    expect(await reached()).toEqual(["alice@example.test", "max@example.test"]);
    await rename("member");
    expect(await reached()).toEqual(["max@example.test"]);
    expect(theirs).toBeDefined();
    store.transact((tx) => people.removeUser(tx, userId));
    expect(await reached()).toBe(401);
    expect((await own.refresh(id, body.refresh_token)).body.error).toBe("invalid_grant");
  });

  test("a person sees their own, also as a member, and locks them out", async () => {
    const own = await startOAuth();
    own.set("oauth.grants", "everyone");
    const { page } = await addMax(own);
    const id = (await own.register()).body.client_id;
    const code = (await own.approve(own.queryOf(id), { scopes: ["read"] }, page)).searchParams.get("code") ?? "";
    const { access_token: access } = (await own.exchange(id, code)).body;
    await own.letIn();
    type Grants = { grants: { id: string; client: object; scopes: string[] }[] };
    const listed = async (of = page) => (await of.get<Grants>("/oauth/grants")).body.grants;
    const [mine] = await listed();
    expect(await listed()).toHaveLength(1);
    expect(mine).toMatchObject({ client: { id, name: "App", host: "app.example" }, scopes: ["read"] });
    const [hers] = await listed(own.alice);
    expect((await page.send("DELETE", `/oauth/grants/${hers?.id}`)).status).toBe(404);
    expect((await page.send("DELETE", `/oauth/grants/${mine?.id}`)).status).toBe(204);
    expect(await own.tryToken(access)).toBe(401);
    expect(await listed()).toEqual([]);
    expect((await page.send("DELETE", `/oauth/grants/${mine?.id}`)).status).toBe(404);
    const keys = await own.keys();
    const made = keys.find(({ client }) => client === null);
    expect((await own.alice.send("DELETE", `/oauth/grants/${made?.id}`)).status).toBe(404);
  });

  test("scopes are some of those asked for, and never more", async () => {
    const { body } = await world.open(world.queryOf(clientId, { scope: "read" }));
    expect(body.request).toMatchObject({ scopes: ["read"], suggested: ["read"] });
    const path = `/oauth/requests/${body.request?.id}/approve`;
    for (const scopes of [[], ["write"], ["read", "admin"], ["approve"]]) {
      expect((await world.alice.send("POST", path, { scopes, policy: {} })).status).toBe(400);
    }
    for (const policy of [{ send: "later" }, { unknown: 1 }, { mailboxes: ["nobody@example.test"] }]) {
      expect((await world.alice.send("POST", path, { scopes: ["read"], policy })).status).toBe(400);
    }
    expect((await world.alice.send("POST", path, { scopes: ["read"], policy: {} })).status).toBe(200);
  });

  test("it takes a proof that it is still them, and the session that opened the request", async () => {
    const unproven = await signInOnly(world, "alice@example.test");
    const { body } = await world.open(world.queryOf(clientId), unproven);
    const path = `/oauth/requests/${body.request?.id}/approve`;
    const asked = await unproven.send("POST", path, { scopes: ["read"], policy: {} });
    expect([asked.status, asked.body.confirm]).toEqual([403, { code: false }]);
    expect((await world.alice.send("POST", path, { scopes: ["read"], policy: {} })).status).toBe(404);
  });

  test("a request waits ten minutes", async () => {
    const { body } = await world.open(world.queryOf(clientId));
    await world.advance(600_000);
    expect((await world.alice.send("POST", `/oauth/requests/${body.request?.id}/deny`)).status).toBe(404);
  });
});

describe("attacks", () => {
  test("another site makes nobody approve (CSRF)", async () => {
    const { body } = await world.open(world.queryOf(clientId));
    const path = `${world.origin}/app/oauth/requests/${body.request?.id}/approve`;
    const send = (headers: Record<string, string>) =>
      fetch(path, {
        method: "POST",
        headers: { cookie: world.alice.cookie, "content-type": "application/json", ...headers },
        body: JSON.stringify({ scopes: ["read"], policy: {} }),
      });
    expect((await send({ origin: "https://evil.example" })).status).toBe(403);
    expect((await send({ "sec-fetch-site": "cross-site" })).status).toBe(403);
    expect((await send({})).status).toBe(403);
    expect((await send({ origin: world.origin })).status).not.toBe(403);
  });

  test("no page frames the one where a person approves (clickjacking), and its session comes from no other site", async () => {
    const page = await fetch(`${world.origin}/oauth/authorize?${world.queryOf(clientId)}`);
    expect(page.status).toBe(200);
    expect(page.headers.get("content-security-policy")).toContain("frame-ancestors 'none'");
    expect(page.headers.get("x-frame-options")).toBe("DENY");
    expect(page.headers.get("referrer-policy")).toBe("no-referrer");
    // A program that opened it in a window of its own waits there for the answer.
    expect(page.headers.get("cross-origin-opener-policy")).toBe("unsafe-none");
    const signedIn = await fetch(`${world.origin}/app/sign-in`, {
      method: "POST",
      headers: { "content-type": "application/json", origin: world.origin },
      body: JSON.stringify({ email: "alice@example.test", password: "correct horse battery staple" }),
    });
    expect(signedIn.headers.get("set-cookie")).toContain("SameSite=Strict");
  });

  test("the authorization endpoint redirects nobody by itself (open redirect)", async () => {
    for (const fields of [{}, { response_type: "token" }, { redirect_uri: "https://evil.example/" }]) {
      const query = world.queryOf(clientId, fields);
      const page = await fetch(`${world.origin}/oauth/authorize?${query}`, { redirect: "manual" });
      expect([page.status, page.headers.get("location")]).toEqual([200, null]);
    }
    expect((await world.alice.fetch("/oauth/requests", { method: "GET" })).status).toBe(405);
  });

  test("a person is asked before anything is told", async () => {
    const query = JSON.stringify({ query: world.queryOf(clientId) });
    const headers = { "content-type": "application/json", origin: world.origin };
    const answer = await fetch(`${world.origin}/app/oauth/requests`, { method: "POST", headers, body: query });
    expect(answer.status).toBe(401);
  });

  test("tokens and codes stand nowhere but as hashes", async () => {
    const { access, refreshToken, code } = await world.letIn();
    expect(await world.tryToken(access)).toBe(200);
    await world.advance(60_000);
    const { $client: sqlite } = world.core.store.db;
    const tables = sqlite.query("SELECT name FROM sqlite_master WHERE type = 'table'").all() as { name: string }[];
    const kept = tables.map(({ name }) => JSON.stringify(sqlite.query(`SELECT * FROM "${name}"`).all())).join();
    const logged = JSON.stringify(world.lines);
    for (const secret of [access, refreshToken, code]) {
      expect(kept.includes(secret.slice(4))).toBe(false);
      expect(logged.includes(secret)).toBe(false);
    }
  });

  test("guesses are answered more and more slowly", async () => {
    const own = await startOAuth();
    const id = (await own.register()).body.client_id;
    for (let n = 0; n < 20; n++) expect((await own.refresh(id, `mrr_guess${n}`)).status).toBe(400);
    let answered = false;
    const slow = own.refresh(id, "mrr_guess").then(() => (answered = true));
    // A request behind it overtakes it.
    await own.get("/healthz");
    expect(answered).toBe(false);
    await own.runtime.advanceTo(own.runtime.now() + 5_000);
    await slow;
  });

  test("a source's requests are limited", async () => {
    const own = await startOAuth();
    own.set("api.ipRequestsPerMinute", "3");
    const statuses = [];
    for (let n = 0; n < 4; n++) statuses.push((await own.refresh("cli_x", "x")).status);
    expect(statuses).toEqual([401, 401, 401, 429]);
  });
});

describe("a program that does not renew its access (rules: OAuth tokens)", () => {
  test("has an hour, or 30 days if the person says so", async () => {
    const own = await startOAuth();
    const hour = await own.letIn();
    const long = await own.letIn({ lasts: true });
    expect([hour.body.expires_in, long.body.expires_in]).toEqual([3_600, 30 * 86_400]);
    await own.advance(29 * 86_400_000);
    expect([await own.tryToken(hour.access), await own.tryToken(long.access)]).toEqual([401, 200]);
    await own.advance(86_400_000);
    expect(await own.tryToken(long.access)).toBe(401);
  });

  test("is given a refresh token, whether or not it asks for offline_access", async () => {
    for (const scope of [undefined, "read", "read offline_access"]) {
      const back = await world.approve(world.queryOf(clientId, { scope }), { scopes: ["read"] });
      const { body } = await world.exchange(clientId, back.searchParams.get("code") ?? "");
      expect([body.refresh_token.slice(0, 4), body.scope]).toEqual(["mrr_", "read"]);
    }
  });
});
