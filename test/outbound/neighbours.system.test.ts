/** Postfix, Exim and OpenSMTPD as neighbours: mail from us to them, and from them to us, through a whole appliance. */
import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { isAscii } from "node:buffer";
import { parseMessage } from "../../src/message/parse.ts";
import { dkimKeys, greylist, queueEntries, suppressions } from "../../src/store/schema.ts";
import type { SettingName } from "../../src/store/settings.ts";
import { connectSmtp } from "../harness/clients/smtp-client.ts";
import { verifyDkim } from "../harness/mail/dkim-verifier.ts";
import { deliverTo, makePair } from "../harness/peers/remote-mx.ts";
import { noticesOf, signedIn, type World, world } from "../harness/servers/submission-world.ts";
import { until } from "../harness/until.ts";
import { KINDS, type Neighbour, type Surroundings } from "./neighbours.ts";

interface Village extends World {
  neighbour: Neighbour;
}

const HEADER = "From: Alice <alice@example.test>\r\nTo: bob@remote.example\r\nSubject: Hi\r\n";
const TEXT = "MIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\n\r\n.\r\nSchöne Grüße \r\n..\r\n";
const LARGE = `Content-Type: text/plain\r\n\r\n${`${"0123456789".repeat(7)}\r\n`.repeat(150_000)}`;

/** An appliance for which `kind` is the MX of remote.example, and a server behind that. */
async function village(kind: (typeof KINDS)[number], more: Partial<Surroundings> = {}): Promise<Village> {
  const it = await world();
  const pair = await makePair("mx.remote.example");
  const neighbour = await kind.start({ ours: it.mx.port, beyond: it.remote.port, pair, ...more });
  deliverTo(neighbour, it.core);
  // Neighbours are strangers.
  set(it, "mx.trustedNetworks", "none");
  return { ...it, neighbour };
}

/** Alice submits a message. */
async function submit(it: Village, message: string, to = ["bob@remote.example"]): Promise<void> {
  const client = await signedIn(it);
  await client.expect(250, "MAIL FROM:<alice@example.test> BODY=8BITMIME SMTPUTF8");
  for (const recipient of to) await client.expect(250, `RCPT TO:<${recipient}>`);
  await client.expect(354, "DATA");
  client.write(`${message.replace(/^\./gm, "..")}.\r\n`);
  await client.expect(250);
  client.destroy();
  await it.server.settled();
}

/** Gives the neighbour a message for people here, from somebody who is there. */
async function hand({ neighbour }: Village, message: string, from: string, to: string[]): Promise<void> {
  const client = await connectSmtp({ host: "127.0.0.1", port: neighbour.port });
  await client.expect(250, `MAIL FROM:<${from}> BODY=8BITMIME`);
  for (const recipient of to) await client.expect(250, `RCPT TO:<${recipient}>`);
  await client.expect(354, "DATA");
  client.write(`${message.replace(/^\./gm, "..")}.\r\n`);
  await client.expect(250);
  client.destroy();
}

/** Resolves with the messages in Alice's inbox when there are so many. */
async function inbox({ api, server }: Village, count: number) {
  interface Row {
    id: string;
    subject: string;
    from: { email: string };
  }
  let rows: Row[] = [];
  await until(async () => {
    await server.settled();
    rows = (await api.get<{ messages: Row[] }>("/messages?folder=inbox")).body.messages;
    return rows.length >= count;
  });
  const read = async ({ id }: Row) => (await api.get<{ message: { text: string } }>(`/messages/${id}`)).body.message;
  return Promise.all(rows.map(async (row) => ({ ...row, ...(await read(row)) })));
}

/** Resolves with what the log says about messages that came in, once it has so many. */
async function arrivals({ lines }: Village, count: number) {
  const logged = () => lines.filter(({ message }) => message === "message");
  await until(() => logged().length >= count);
  return logged();
}

function set({ core }: World, name: SettingName, value: string): void {
  core.store.transact((tx) => core.options.set(tx, name, value));
}

/** The message that has got through, whose signatures have to be right. */
async function through({ remote, core }: Village): Promise<Buffer> {
  const [message] = await remote.waitFor(1);
  const bytes = Buffer.from(message?.bytes ?? []);
  const published = core.store.db.select().from(dkimKeys).all();
  const signatures = verifyDkim(bytes, (selector) => published.find((key) => key.selector === selector)?.publicKey);
  expect(signatures.map(({ valid }) => valid)).toEqual([true, true]);
  return bytes;
}

const FROM_BOB = "From: Bob <bob@remote.example>\r\nTo: alice@example.test\r\n";

// OpenSMTPD waits some seconds before it writes a bounce.
setDefaultTimeout(30_000);

for (const kind of KINDS) {
  describe.skipIf(kind.absent !== undefined)(
    `${kind.name}${kind.absent === undefined ? "" : ` (${kind.absent})`}`,
    () => {
      test("takes 8-bit mail over TLS, signed", async () => {
        const it = await village(kind);
        await submit(it, HEADER + TEXT);
        const bytes = await through(it);
        expect(bytes.toString()).toEndWith(HEADER + TEXT);
        expect(bytes.toString()).toMatch(/^Received: (?:.*\r\n\s)*.*(?:with E?SMTPS|TLS)/im);
      });

      test("takes long lines, shortened and signed", async () => {
        const it = await village(kind);
        await submit(
          it,
          `${HEADER}X-Long: ${"word ".repeat(300)}\r\n${TEXT}${"Wört ".repeat(1_000)}\r\n${"x".repeat(9_000)}\r\n`,
        );
        const { text } = await parseMessage(await through(it));
        expect(text.trimEnd()).toEndWith(`${"Wört ".repeat(1_000)}\n${"x".repeat(9_000)}`);
      });

      if (kind.canBeSevenBit) {
        test("takes the same without 8BITMIME and SMTPUTF8, re-encoded and signed", async () => {
          const it = await village(kind, { sevenBit: true });
          await submit(it, `Subject: Grüße\r\n${HEADER.replace(/Subject.*\r\n/, "")}${TEXT}`);
          const bytes = await through(it);
          expect(isAscii(bytes)).toBe(true);
          expect(await parseMessage(bytes)).toMatchObject({ subject: "Grüße", text: ".\nSchöne Grüße \n.." });
          const sealed = "Content-Type: multipart/signed; boundary=s\r\n\r\n--s\r\n\r\nGrüße\r\n--s--\r\n";
          await submit(it, `${HEADER.replace("Hi", "Signed")}${sealed}`);
          const [notice] = await noticesOf(it);
          expect(notice?.parts[0]).toContain("Status: 5.6.3\r\n");
        });
      }

      test("refuses the unknown, puts off the busy, and takes mail for the others", async () => {
        const it = await village(kind);
        await submit(it, HEADER.replace("To: ", "To: nobody@remote.example, busy@remote.example, ") + TEXT, [
          "nobody@remote.example",
          "busy@remote.example",
          "bob@remote.example",
        ]);
        await through(it);
        expect(it.remote.messages[0]?.to).toEqual(["bob@remote.example"]);
        const { db } = it.core.store;
        const entries = db.select().from(queueEntries).all();
        expect(Object.fromEntries(entries.map(({ recipient, state }) => [recipient.split("@")[0], state]))).toEqual({
          nobody: "bounced",
          busy: "waiting",
          bob: "delivered",
        });
        expect(db.select().from(suppressions).all()).toMatchObject([{ address: "nobody@remote.example" }]);
        const [notice] = await noticesOf(it);
        expect(notice?.text).toContain("nobody@remote.example");
        expect(notice?.text).not.toContain("busy@");
      });

      test("takes a large message", async () => {
        const it = await village(kind);
        await submit(it, HEADER + LARGE);
        expect((await through(it)).toString("latin1")).toEndWith(HEADER + LARGE);
      });

      test("sends 8-bit mail over TLS", async () => {
        const it = await village(kind);
        await hand(it, `${FROM_BOB}Subject: Hello\r\n${TEXT}`, "bob@remote.example", ["alice@example.test"]);
        const [message] = await inbox(it, 1);
        expect(message?.text.trimEnd()).toBe(".\nSchöne Grüße \n..");
        expect(await arrivals(it, 1)).toMatchObject([{ tls: true, reversePath: "bob@remote.example" }]);
      });

      test("sends a large message", async () => {
        const it = await village(kind);
        await hand(it, `${FROM_BOB}Subject: Large\r\n${LARGE}`, "bob@remote.example", ["alice@example.test"]);
        const [message] = await inbox(it, 1);
        expect(message?.text).toHaveLength(71 * 150_000 - 1);
      });

      test("tells its sender of a recipient who is unknown here, and us by a null sender", async () => {
        const it = await village(kind);
        const letter = `${FROM_BOB}Subject: Lost\r\n\r\nText\r\n`;
        await hand(it, letter, "bob@remote.example", ["nobody@example.test", "alice@example.test"]);
        const [bounce] = await it.remote.waitFor(1);
        expect(bounce).toMatchObject({ from: "", to: ["bob@remote.example"] });
        expect(bounce?.content).toContain("5.1.1");
        expect(bounce?.content).toContain("nobody@example.test");
        expect(await inbox(it, 1)).toHaveLength(1);
        await hand(it, letter, "alice@example.test", ["nobody@example.test"]);
        const [report] = await inbox(it, 2);
        expect(await arrivals(it, 2)).toMatchObject([{}, { tls: true, reversePath: "" }]);
        expect(report?.from.email.toLowerCase()).toStartWith("mailer-daemon@");
      });

      test("tries again after greylisting", async () => {
        const it = await village(kind);
        set(it, "mx.greylistSeconds", "60");
        await hand(it, `${FROM_BOB}Subject: Later\r\n\r\nText\r\n`, "bob@remote.example", ["alice@example.test"]);
        await until(() => it.core.store.db.select().from(greylist).all().length > 0);
        expect(await inbox(it, 0)).toEqual([]);
        await it.advance(61_000);
        await until(async () => {
          await it.neighbour.retry();
          return (await inbox(it, 0)).length > 0;
        });
        expect(await inbox(it, 1)).toMatchObject([{ subject: "Later" }]);
      });
    },
  );
}
