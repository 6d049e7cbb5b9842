/**
 * SMTP smuggling: a message must end exactly where the next server would end it, at CRLF . CRLF, with any other look-alike ends
 * and in any packets.
 */
import { expect, test } from "bun:test";
import fc from "fast-check";
import { SMTPStream } from "smtp-server/lib/smtp-stream.js";
import { connectSmtp, type SmtpClient } from "../harness/clients/smtp-client.ts";
import { listenAndKeep } from "../harness/servers/mx-rig.ts";

const NO_END = [
  "\n.\n",
  "\n.\r\n",
  "\r\n.\n",
  "\r.\r",
  "\r\n.\r",
  "\r.\r\n",
  "\n.\r",
  "\r.\n",
  "\r\n\0.\r\n",
  "\r\n. \r\n",
];
const SMUGGLED =
  "MAIL FROM:<smuggled@remote.example>\r\nRCPT TO:<bob@example.test>\r\nDATA\r\nSubject: smuggled\r\n\r\nsmuggled\r\n.\r\n";

const PACKETS: Record<string, (bytes: string) => string[]> = {
  whole: (bytes) => [bytes],
  "byte by byte": (bytes) => [...bytes],
  "before each dot": (bytes) => bytes.split(/(?=\.)/),
  "after each dot": (bytes) => bytes.split(/(?<=\.)/),
  "after each CR": (bytes) => bytes.split(/(?<=\r)/),
  "after each LF": (bytes) => bytes.split(/(?<=\n)/),
};

/** All ways of cutting at once, each on a listener of its own. */
const everyCutting = (check: (split: (bytes: string) => string[]) => Promise<void>) =>
  Promise.all(Object.values(PACKETS).map(check));

/** One write after another, each read before the next where the system lets it. */
async function writeAll(client: SmtpClient, packets: string[]): Promise<void> {
  for (const packet of packets) {
    client.write(packet);
    await new Promise((resolve) => setImmediate(resolve));
  }
}

async function startData(client: SmtpClient): Promise<void> {
  await client.expect(250, "MAIL FROM:<outer@remote.example>");
  await client.expect(250, "RCPT TO:<alice@example.test>");
  await client.expect(354, "DATA");
}

test.each(NO_END)("%j is part of the message", async (variant) => {
  await everyCutting(async (split) => {
    const { address, accepted } = await listenAndKeep();
    const client = await connectSmtp(address);
    await startData(client);
    await writeAll(client, split(`Subject: outer\r\n\r\nouter${variant}${SMUGGLED}`));
    expect((await client.reply()).code).toBe(250);
    await client.expect(221, "QUIT");
    expect(accepted.map(({ envelope }) => envelope.reversePath)).toEqual(["outer@remote.example"]);
    expect(accepted[0]?.content).toContain("MAIL FROM:<smuggled@remote.example>");
    expect(accepted[0]?.content).toEndWith("smuggled\r\n");
  });
});

test("CRLF . CRLF ends the message, and commands follow it, in any packets", async () => {
  await everyCutting(async (split) => {
    const { address, accepted } = await listenAndKeep();
    const client = await connectSmtp(address);
    await startData(client);
    await writeAll(client, split(`Subject: outer\r\n\r\nouter\r\n.\r\n${SMUGGLED}QUIT\r\n`));
    const codes: number[] = [];
    for (let i = 0; i < 6; i++) codes.push((await client.reply()).code);
    expect(codes).toEqual([250, 250, 250, 354, 250, 221]);
    expect(accepted.map(({ content }) => content)).toEqual([
      "Subject: outer\r\n\r\nouter\r\n",
      "Subject: smuggled\r\n\r\nsmuggled\r\n",
    ]);
  });
});

test("an empty message, and one that is a single dot, are read as sent", async () => {
  const { address, accepted } = await listenAndKeep();
  const client = await connectSmtp(address);
  for (const [sent, content] of [
    [".\r\n", ""],
    ["..\r\n.\r\n", ".\r\n"],
    ["\r\n.\r\n", "\r\n"],
  ] as const) {
    await startData(client);
    await writeAll(client, [...sent]);
    expect((await client.reply()).code).toBe(250);
    expect(accepted.at(-1)?.content).toBe(content);
  }
  client.destroy();
});

/** Reads bytes after DATA as RFC 5321 §4.5.2 says, simply and slowly. */
function expected(bytes: string): { content: string; rest: string } {
  const end = `\r\n${bytes}`.indexOf("\r\n.\r\n");
  const content = bytes.slice(0, end).replace(/(^|\r\n)\.\./g, "$1.");
  return { content, rest: bytes.slice(end + 3) };
}

/** Drops dots after a bare LF: they begin no line of SMTP, and smtp-server may remove one or not. */
const lenient = (content: string): string => content.replace(/(?<!\r)\n\.+/g, "\n.");

const bytes = fc
  .array(fc.constantFrom("\r", "\n", ".", "\r\n", "\r\n.", "..", "x"), { maxLength: 40 })
  .map((parts) => parts.join(""));

test("the message ends at CRLF . CRLF, for any dots and line ends, cut into any packets", async () => {
  await fc.assert(
    fc.asyncProperty(bytes, fc.array(fc.nat(80), { maxLength: 10 }), async (random, cuts) => {
      const given = `${random}\r\n.\r\nNOOP\r\n`;
      const stream = new SMTPStream();
      const commands: string[] = [];
      stream.oncommand = (command, next) => {
        commands.push(command.toString("latin1"));
        next?.();
      };
      const data = stream.startDataMode();
      const received: Buffer[] = [];
      data.on("data", (chunk: Buffer) => received.push(chunk));
      data.on("end", () => stream.continue());
      const positions = [0, ...new Set(cuts.filter((cut) => cut < given.length)), given.length].sort((a, b) => a - b);
      for (let i = 1; i < positions.length; i++) {
        stream.write(Buffer.from(given.slice(positions[i - 1], positions[i]), "latin1"));
      }
      await new Promise((resolve) => stream.end(resolve));
      const wanted = expected(given);
      expect(lenient(Buffer.concat(received).toString("latin1"))).toBe(lenient(wanted.content));
      expect(commands.join("\n")).toBe(wanted.rest.split(/\r?\n/).slice(0, -1).join("\n"));
    }),
    { numRuns: 2_000 },
  );
});
