/**
 * A machine of 512 MB: under the loads that take the most memory the kernel kills nothing, everything acknowledged is there,
 * and what is refused is refused for now. The executable as users run it, under a limit of the system, on a real disk.
 */
import { Database } from "bun:sqlite";
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { join } from "node:path";
import { messageMaker, wordAt, writeMbox } from "../bench/generator.ts";
import { apiClient } from "../harness/clients/api.ts";
import { connectMcp } from "../harness/clients/mcp-client.ts";
import { connectSmtp } from "../harness/clients/smtp-client.ts";
import { letterWith, mapBomb, pagesOfText, pdf, streamBomb } from "../harness/mail/documents.ts";
import { LARGE_MAIL } from "../harness/mail/large-mail.ts";
import { mailer } from "../harness/mail/mail.ts";
import { type Place, run, type Served, serve } from "../harness/servers/process.ts";
import { until } from "../harness/until.ts";
import { type LimitedPlace, setUpLimited } from "./limited-server.ts";
import { limitNote } from "./memory-limit.ts";

const MB = 1024 * 1024;
const MEMORY = 512 * MB;
/** In use after a load, without the cache of files. */
const AFTERWARDS = 200 * MB;
const CONNECTIONS = 10;
const SECONDS = 20;
const IMPORTED = 200_000;
const ADDRESS = "ada@acme.test";
const MINUTE = 60_000;

/** Delivers messages one after another while `isWanted`; returns the subjects that were acknowledged. Others are refused for now. */
async function deliver({ mx }: Served, name: string, body: string, isWanted: () => boolean): Promise<string[]> {
  const accepted: string[] = [];
  const client = await connectSmtp(mx);
  for (let n = 0; isWanted(); n++) {
    const subject = `${name}, ${n}`;
    const header = [`From: <carol@remote.example>`, `To: <${ADDRESS}>`, `Subject: ${subject}`, `MIME-Version: 1.0`];
    const { code, lines } = await client.deliver({ to: ADDRESS }, [...header, body].join("\r\n"));
    if (code === 250) accepted.push(subject);
    else expect({ code, lines }).toMatchObject({ code: 452 });
  }
  client.destroy();
  return accepted;
}

function subjectsLike({ data }: Place, pattern: string): string[] {
  using sqlite = new Database(join(data, "mailroom.db"), { readonly: true });
  const rows = sqlite.query("SELECT subject FROM messages WHERE subject LIKE ? ORDER BY subject").all(pattern);
  return (rows as { subject: string }[]).map(({ subject }) => subject);
}

/** Delivers on some connections at once while `isWanted`, and expects that all mail that was acknowledged is there. */
async function deliverOnAll(
  machine: LimitedPlace,
  server: Served,
  connections: number,
  name: string,
  body: string,
  isWanted: () => boolean,
) {
  const names = Array.from({ length: connections }, (_, i) => `${name}: ${i}`);
  const accepted = (await Promise.all(names.map((each) => deliver(server, each, body, isWanted)))).flat();
  expect(accepted).not.toEqual([]);
  expect(subjectsLike(machine.place, `${name}: %`)).toEqual(accepted.sort());
}

describe.skipIf(limitNote !== "")(`a machine of 512 MB${limitNote}`, () => {
  let machine: LimitedPlace;
  let server: Served;
  beforeAll(async () => {
    machine = await setUpLimited(MEMORY, ADDRESS);
    server = await serve(machine.place);
  }, 2 * MINUTE);
  afterAll(async () => {
    expect(await server.kill("SIGTERM")).toBe(0);
  });
  const expectNoKill = () => expect(machine.limit.kills()).toBe(0);

  test.each(Object.entries(LARGE_MAIL))(
    "takes messages of 25 MB on ten connections at once, again and again, and forgets them: %s",
    async (name, make) => {
      const end = performance.now() + SECONDS * 1_000;
      await deliverOnAll(machine, server, CONNECTIONS, name, make(), () => performance.now() < end);
      expectNoKill();
      await until(() => machine.limit.used() < AFTERWARDS);
    },
    5 * MINUTE,
  );

  test(
    "takes an import of 200,000 messages beside the server, while mail arrives",
    async () => {
      const path = join(machine.place.cwd ?? "", "mail.mbox");
      await writeMbox(path, IMPORTED, messageMaker(5, 4_000, ADDRESS));
      let isOver = false;
      const importing = run(machine.place, ["import", "--mailbox", ADDRESS, "--json", path]).finally(() => {
        isOver = true;
      });
      await deliverOnAll(machine, server, 1, "beside an import", "\r\nHello\r\n", () => !isOver);
      const { exitCode, stdout, stderr } = await importing;
      expect({ exitCode, stderr }).toMatchObject({ exitCode: 0 });
      expect(JSON.parse(stdout)).toMatchObject({ imported: IMPORTED, skipped: 0, failed: 0 });
      expectNoKill();
    },
    40 * MINUTE,
  );

  test(
    "reads documents that were made to take its memory, one after another, while mail arrives",
    async () => {
      const sender = mailer(server.mx);
      const files = [streamBomb(), mapBomb(), pdf(pagesOfText(100))].map((content, i): [string, string, Uint8Array] => [
        `${i}.pdf`,
        "application/pdf",
        content,
      ]);
      await sender.send({ from: "carol@remote.example", to: ADDRESS }, letterWith(ADDRESS, files));
      sender.close();
      const mcp = await connectMcp(server.http, machine.apiKey);
      const { messages } = (await mcp.call("list_messages", { direction: "inbound", limit: 1 })).structured;
      const { structured } = await mcp.call("get_message", { id: messages[0].id, list: "attachments" });
      const results: string[] = [];
      let isOver = false;
      const reading = (async () => {
        for (const { id } of structured.attachments) results.push((await mcp.call("get_attachment", { id })).text);
      })().finally(() => {
        isOver = true;
      });
      await deliverOnAll(machine, server, 2, "beside documents", "\r\nHello\r\n", () => !isOver);
      await reading;
      await mcp.close();
      expect(
        results.map((text) => /the document took too (?:much memory|long)|--- page 1 of 100 ---/.exec(text)?.[0]),
      ).toEqual([
        expect.stringMatching(/^the document/),
        expect.stringMatching(/^the document/),
        "--- page 1 of 100 ---",
      ]);
      expectNoKill();
      await until(() => machine.limit.used() < AFTERWARDS);
    },
    5 * MINUTE,
  );

  test(
    "searches them while mail arrives",
    async () => {
      const api = apiClient(server.http, machine.apiKey);
      const end = performance.now() + SECONDS * 1_000;
      const isWanted = () => performance.now() < end;
      const search = async (i: number): Promise<void> => {
        for (let n = 0; isWanted(); n++) {
          const q = `${wordAt(150 + 8 * n + i)} ${n % 2 === 0 ? "" : wordAt(n)}`;
          const { status, body } = await api.get<{ threads: unknown[] }>(`/search?q=${encodeURIComponent(q)}`);
          expect(status).toBe(200);
          if (n === 0) expect(body.threads.length).toBeGreaterThan(0);
        }
      };
      const body = `\r\n${messageMaker(7, 4_000, ADDRESS)(1).toString("latin1").split("\r\n\r\n")[1]}`;
      await Promise.all([
        ...Array.from({ length: 8 }, (_, i) => search(i)),
        deliverOnAll(machine, server, 4, "beside a search", body, isWanted),
      ]);
      expectNoKill();
      await until(() => machine.limit.used() < AFTERWARDS);
    },
    5 * MINUTE,
  );
});
