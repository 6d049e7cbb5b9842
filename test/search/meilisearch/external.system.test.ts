/**
 * `mailroom serve` with an external Meilisearch (search.meilisearchUrl): always with a server that understands no
 * query, and with a real one if MEILISEARCH_BIN names it.
 */
import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { settle } from "../../harness/data/settle.ts";
import { temporaryFolder } from "../../harness/folder.ts";
import { letter, mailer } from "../../harness/mail/mail.ts";
import { startFakeMeilisearch } from "../../harness/peers/fake-meilisearch.ts";
import { hasMeilisearch, startMeilisearch, WITHOUT_MEILISEARCH } from "../../harness/peers/meilisearch.ts";
import { type Served, serve } from "../../harness/servers/process.ts";
import { openTerminal, SETUP } from "../../harness/servers/terminal.ts";
import { until as untilSo } from "../../harness/until.ts";

setDefaultTimeout(300_000);

interface Home {
  data: string;
  apiKey: string;
}

const commandsOn = ({ data }: Pick<Home, "data">) => openTerminal({ data, interrupted: new Promise(() => {}) });

/** A data folder with ada@acme.test, on the server at `place`. */
async function setUp(place: { url: string; key: string }): Promise<Home> {
  const data = temporaryFolder();
  const { ask } = commandsOn({ data });
  const { apiKey } = await ask<{ apiKey: string }>(...SETUP);
  await ask("domain", "verify", "acme.test", "--skip-dns");
  settle(
    { data },
    { "search.meilisearchUrl": place.url, "search.meilisearchKey": place.key, "search.engine": "meilisearch" },
  );
  return { data, apiKey };
}

async function receive(served: Served, subject: string): Promise<void> {
  const sender = mailer(served.mx);
  await sender.send({ from: "c@remote.example", to: "ada@acme.test" }, letter({ to: "ada@acme.test", subject }));
  sender.close();
}

async function subjectsOf(served: Served, { apiKey }: Home, q: string): Promise<string[]> {
  const answer = await fetch(`${served.http}/api/v1/search?q=${encodeURIComponent(q)}`, {
    headers: { authorization: `Bearer ${apiKey}` },
  });
  const { threads } = (await answer.json()) as { threads: { subject: string }[] };
  return threads.map(({ subject }) => subject);
}

/** Polls the health page until it matches. */
async function until(served: Served, search: RegExp): Promise<void> {
  await untilSo(async () => {
    const answer = await fetch(`${served.http}/healthz`);
    if (answer.status !== 200) throw new Error(`the health page answers ${answer.status}`);
    return search.test(((await answer.json()) as { search: string }).search);
  });
}

test("the feed survives kill -9", async () => {
  const server = startFakeMeilisearch();
  const home = await setUp(server);
  let served = await serve(home);
  await until(served, /^meilisearch$/);
  await receive(served, "one");
  await until(served, /^meilisearch$/);
  expect(server.messages()).toHaveLength(1);
  server.does.answer = () => new Promise<never>(() => {});
  await receive(served, "two");
  await until(served, /behind by 1 message\)/);
  await served.kill("SIGKILL");
  server.does.answer = undefined;
  served = await serve(home);
  await until(served, /^meilisearch$/);
  expect(server.messages()).toHaveLength(2);

  await served.kill("SIGTERM");
  expect(served.stderr()).not.toContain(server.key);
});

test("reindex makes the running server rebuild it, or reports that it will; no command reveals the key", async () => {
  const server = startFakeMeilisearch();
  const home = await setUp(server);
  const { ask, say } = commandsOn(home);
  const served = await serve(home);
  await receive(served, "one");
  await until(served, /^meilisearch$/);
  const [before] = server.indexes.keys();
  expect(await ask<unknown>("reindex")).toEqual({ messages: 1, untold: 0 });
  const [after] = server.indexes.keys();
  expect(after).not.toBe(before);
  expect(server.messages()).toHaveLength(1);
  const { stdout } = await say("settings", "list", "--json");
  expect(stdout).toContain("search.meilisearchKey");
  expect(stdout).not.toContain(server.key);
  expect(await served.kill("SIGTERM")).toBe(0);

  const { stderr, ...ran } = await say("reindex", "--json");
  expect([ran.exitCode, JSON.parse(ran.stdout), stderr]).toEqual([
    0,
    { messages: 1, untold: 1 },
    "Meilisearch is told of 1 message by the server, when it runs\n",
  ]);
});

test("a restored backup does not use an index that knows more", async () => {
  const server = startFakeMeilisearch();
  const home = await setUp(server);
  let served = await serve(home);
  await receive(served, "one");
  await until(served, /^meilisearch$/);
  const backup = temporaryFolder();
  await commandsOn(home).ask("backup", backup);
  await receive(served, "two");
  await until(served, /^meilisearch$/);
  const [before] = server.indexes.keys();
  expect(server.messages()).toHaveLength(2);
  await served.kill("SIGTERM");

  const restored = { ...home, data: temporaryFolder() };
  await commandsOn(restored).ask("restore", backup);
  served = await serve(restored);
  await until(served, /^meilisearch$/);
  expect([...server.indexes.keys()]).not.toContain(before);
  expect(server.messages()).toHaveLength(1);
  await served.kill("SIGTERM");
});

describe(`a real server${WITHOUT_MEILISEARCH}`, () => {
  test.skipIf(!hasMeilisearch)("serves searches; while it is gone, FTS5 does; then it does again", async () => {
    const server = await startMeilisearch();
    const home = await setUp(server);
    const served = await serve(home);
    await receive(served, "alpha");
    await until(served, /^meilisearch$/);
    expect(await subjectsOf(served, home, "subject:alpha from:c@remote.example")).toEqual([]);
    expect(await subjectsOf(served, home, "subject:alpha from:carol@remote.example")).toEqual(["alpha"]);
    await server.kill();
    await receive(served, "alpha beta");
    expect(await subjectsOf(served, home, "alpha")).toEqual(["alpha beta", "alpha"]);
    await until(served, /^fts5 \(/);
    await server.restart();
    await until(served, /^meilisearch$/);
    expect(await subjectsOf(served, home, "alpha -beta")).toEqual(["alpha"]);
    expect(await served.kill("SIGTERM")).toBe(0);
  });

  test.skipIf(!hasMeilisearch)("that is the appliance's child does the same, and forgives typos", async () => {
    const home = await setUp({ url: "none", key: "none" });
    settle(home, { "search.meilisearchPath": process.env.MEILISEARCH_BIN ?? "" });
    const served = await serve(home);
    await receive(served, "quarterly");
    await until(served, /^meilisearch$/);
    expect(await subjectsOf(served, home, "subject:quarterly")).toEqual(["quarterly"]);
    expect(await subjectsOf(served, home, "quartely")).toEqual(["quarterly"]);
    expect(await subjectsOf(served, home, "-quartely")).toEqual(["quarterly"]);
    expect(await subjectsOf(served, home, '"quartely"')).toEqual([]);
    expect(await served.kill("SIGTERM")).toBe(0);
  });
});
