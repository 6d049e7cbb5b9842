/** Programs that name themselves by the URL of a document (rules: OAuth clients). */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import type { DnsClient } from "../../src/base/runtime.ts";
import { createOAuthClients } from "../../src/oauth/clients.ts";
import { confirm } from "../harness/clients/browser-session.ts";
import { makeChain } from "../harness/peers/certificate-chain.ts";
import { zone } from "../harness/peers/dns-server.ts";
import { fakeRuntime } from "../harness/runtime.ts";
import { testCore } from "../harness/servers/core.ts";
import { type OAuthWorld, startOAuth } from "../harness/servers/oauth.ts";
import { until } from "../harness/until.ts";

const CALLBACK = "https://client.example/callback";
let world: OAuthWorld;
let dns: DnsClient;
let authority: string;
let server: Bun.Server<undefined>;
let asked: string[] = [];
/** The response to each request. */
let respond: (request: Request) => Response | Promise<Response>;
let id: string;

const json = (document: object, type = "application/json") =>
  new Response(JSON.stringify(document), { headers: { "content-type": type } });
const document = (changes: object = {}) => ({
  client_id: id,
  client_name: "Client",
  redirect_uris: [CALLBACK],
  token_endpoint_auth_method: "none",
  ...changes,
});

beforeAll(async () => {
  const chain = await makeChain("client.example");
  authority = chain.authority;
  server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    tls: chain.pair,
    fetch(request) {
      asked.push(new URL(request.url).pathname);
      return respond(request);
    },
  });
  dns = zone({ "client.example": { a: ["127.0.0.1"] }, "inner.example": { a: ["10.0.0.1"] } });
  world = await startOAuth({ dns, authorities: [authority] });
  id = `https://client.example:${server.port}/oauth/client.json`;
  world.set("webhooks.allowNetworks", "127.0.0.0/8");
});
afterAll(() => server.stop(true));
beforeEach(async () => {
  asked = [];
  respond = () => json(document());
  await world.advance(61_000);
  await confirm(world.alice);
});

const open = (clientId = id, fields: Record<string, string | undefined> = {}) =>
  world.open(world.queryOf(clientId, { redirect_uri: CALLBACK, ...fields }));

test("its host is shown beside the name, and stands with the grant", async () => {
  const opened = await open();
  expect(opened.body).toMatchObject({
    client: { name: "Client", host: `client.example:${server.port}` },
    place: { kind: "host", name: "client.example" },
  });
  const back = await world.approve(world.queryOf(id, { redirect_uri: CALLBACK }));
  const { status, body } = await world.exchange(id, back.searchParams.get("code") ?? "", { redirect_uri: CALLBACK });
  expect(status).toBe(200);
  expect((await world.refresh(id, body.refresh_token)).status).toBe(200);
  const client = { id, name: "Client", host: `client.example:${server.port}` };
  expect((await world.keys())[0]).toMatchObject({ name: "Client", client });
  expect(asked).toEqual(["/oauth/client.json", "/oauth/client.json"]);
});

test("its name covers no other line of the page", async () => {
  const marks = "\u0323".repeat(90);
  respond = () => json(document({ client_name: `Cli\u0301e\u0302\u0323n${marks}t` }));
  expect((await open()).body.client.name).toBe(`Cli\u0301e\u0302\u0323n${"\u0323".repeat(3)}t`);
});

test("is fetched for nobody but a person who is signed in", async () => {
  const query = world.queryOf(id, { redirect_uri: CALLBACK });
  await fetch(`${world.origin}/oauth/authorize?${query}`);
  const headers = { "content-type": "application/json", origin: world.origin };
  const body = JSON.stringify({ query });
  expect((await fetch(`${world.origin}/app/oauth/requests`, { method: "POST", headers, body })).status).toBe(401);
  expect((await world.exchange(id, "x".repeat(43))).body.error).toBe("invalid_grant");
  await world.post("/oauth/revoke", { token: "x", client_id: id });
  expect(asked).toEqual([]);
});

describe("cannot be used", () => {
  const cases: [string, () => Response | Promise<Response>][] = [
    ["when it names another", () => json(document({ client_id: `${id}x` }))],
    ["when it is not found", () => new Response("no", { status: 404 })],
    ["when it leads elsewhere", () => Response.redirect(`https://client.example:${server.port}/other`, 302)],
    ["when it is HTML", () => new Response("<p>", { headers: { "content-type": "text/html" } })],
    ["when it is no JSON", () => new Response("{", { headers: { "content-type": "application/json" } })],
    ["when it is null", () => new Response("null", { headers: { "content-type": "application/json" } })],
    ["when it is large", () => json(document({ more: "x".repeat(20_000) }))],
    ["without a name", () => json(document({ client_name: undefined }))],
    ["with a name that shows nothing", () => json(document({ client_name: " \u200b " }))],
    ["without redirect URIs", () => json(document({ redirect_uris: undefined }))],
    ["with a script to redirect to", () => json(document({ redirect_uris: [CALLBACK, "javascript:alert(1)"] }))],
    ["with a secret", () => json(document({ client_secret: "x" }))],
    ["when it wants a secret", () => json(document({ token_endpoint_auth_method: "client_secret_post" }))],
    ["with fields that are no text", () => json(document({ token_endpoint_auth_method: { toString: 1 } }))],
    ["with a name in lists", () => json(document({ client_name: [["Client"]] }))],
    ["with a name of fillers", () => json(document({ client_name: "\u3164\u115f\u2800" }))],
    ["when it is a list", () => json([document()])],
    ["when it is nested", () => new Response("[".repeat(16_000), { headers: { "content-type": "application/json" } })],
    [
      "when it is not in UTF-8",
      () => new Response(Buffer.from('{"a":"\xff"}', "latin1"), { headers: { "content-type": "application/json" } }),
    ],
    [
      "when its server breaks off",
      () => new Response("{}", { headers: { "content-type": "application/json", "content-length": "9" } }),
    ],
  ];
  test.each(cases)("%s", async (_, answer) => {
    respond = answer;
    const { status, body } = await open();
    expect(status).toBe(422);
    expect(body.error).toContain("client.example");
    expect(asked).toHaveLength(1);
  });

  test("when its server does not answer: the reason names no address", async () => {
    const { body } = await open("https://client.example:2/client.json");
    expect(body.error).toBe("The document of the program at client.example:2 cannot be used: connection refused");
  });

  test("when it does not come within five seconds", async () => {
    let arrived = () => {};
    const arrival = new Promise<void>((resolve) => {
      arrived = resolve;
    });
    respond = () => {
      arrived();
      return new Promise(() => {});
    };
    const opening = open();
    await arrival;
    world.runtime.advanceTo(world.runtime.now() + 5_000);
    expect((await opening).status).toBe(422);
  });

  test("with the redirect URI of another", async () => {
    expect((await open(id, { redirect_uri: "https://evil.example/" })).status).toBe(422);
  });

  test("when it asks for no codes: its own answer says so", async () => {
    respond = () => json(document({ grant_types: ["client_credentials"] }));
    expect((await open()).body.refusal?.code).toBe("unauthorized_client");
  });
});

describe("nothing is fetched", () => {
  const wrong = () => [
    id.replace("https:", "http:"),
    `https://client.example:${server.port}`,
    `https://client.example:${server.port}/`,
    `https://user@client.example:${server.port}/c`,
    `${id}#fragment`,
    `https://client.example:${server.port}/a/../c`,
    `https://CLIENT.example:${server.port}/c`,
    `https://client.example:${server.port}/${"x".repeat(600)}`,
  ];
  test("from what is no URL of a document", async () => {
    for (const clientId of wrong()) expect([clientId, (await open(clientId)).status]).toEqual([clientId, 422]);
    expect(asked).toEqual([]);
  });

  test("from inside the network, unless webhooks.allowNetworks has it", async () => {
    for (const host of ["inner.example", "10.0.0.1", "169.254.169.254", "metadata.google.internal", "[::1]"]) {
      expect([host, (await open(`https://${host}/c.json`)).status]).toEqual([host, 422]);
    }
    world.set("webhooks.allowNetworks", "none");
    expect((await open()).status).toBe(422);
    expect(asked).toEqual([]);
    world.set("webhooks.allowNetworks", "127.0.0.0/8");
    expect((await open()).status).toBe(200);
  });

  test("more than a few at once for a workspace, and another has its turn", async () => {
    respond = ({ url }) => (url === id ? json(document()) : new Promise(() => {}));
    const options = { get: () => ["127.0.0.0/8"] };
    const runtime = fakeRuntime({ dns, authorities: [authority] });
    const clients = createOAuthClients({ ...testCore(), options: options as never, runtime });
    const slow = Array.from({ length: 20 }, (_, n) =>
      clients.find(`${id}${n}`, { workspaceId: "wsp_a", userId: `usr_${n}` }).catch((error) => error.message),
    );
    await until(() => asked.length >= 4);
    expect(await clients.find(id, { workspaceId: "wsp_b", userId: "usr_b" })).toMatchObject({ name: "Client" });
    expect(asked.length).toBeLessThanOrEqual(8);
    clients.close();
    expect(new Set(await Promise.all(slow)).size).toBe(1);
  });

  test("more than one at a time for a person, with few waiting", async () => {
    let release = () => {};
    const held = new Promise<void>((resolve) => {
      release = resolve;
    });
    respond = async () => {
      await held;
      return json(document());
    };
    const opening = Array.from({ length: 6 }, () => open());
    const refused = await Promise.race(opening);
    expect(refused.status).toBe(429);
    expect(asked.length).toBeLessThanOrEqual(1);
    release();
    const statuses = (await Promise.all(opening)).map(({ status }) => status).sort();
    expect(statuses).toEqual([200, 200, 200, 200, 429, 429]);
  });
});
