/** A mailbox of 100,000 messages from a seed, parsed and filed by the program's own code. */
import { createAppliance } from "../../src/appliance.ts";
import { readConfig } from "../../src/config.ts";
import { createLog } from "../../src/log.ts";
import { prepareMessage } from "../../src/mailbox/prepare.ts";
import { systemRuntime } from "../../src/runtime.ts";
import { words } from "./generator.ts";

export const MESSAGES = 100_000;
/** In a tenth of the messages. */
export const COMMON_WORD = "invoice";
/** In one of ten thousand. */
export const RARE_WORD = "zanzibar";
/** In one of a hundred. */
export const PHRASE = "quarterly budget review";

const BATCH = 200;
const LONG_THREAD = 50;
const ME = "owner@example.test";

/** Message n: conversations of three, one of fifty; a sixth of them still unread. */
function messageOf(n: number, { text, random }: ReturnType<typeof words>): string {
  const long = n < LONG_THREAD;
  const first = long ? 0 : n - ((n - LONG_THREAD) % 3);
  const extras = [random() < 0.1 ? COMMON_WORD : "", random() < 0.0001 ? RARE_WORD : "", random() < 0.01 ? PHRASE : ""];
  return [
    `From: Person ${first % 911} <person${first % 911}@remote${first % 31}.example>`,
    `To: Owner <${ME}>`,
    `Subject: ${n === first ? "" : "Re: "}${long ? "longthread" : ""} ${words(first).text(30)}`,
    `Message-ID: <seed-${n}@remote.example>`,
    ...(n === first
      ? []
      : [`In-Reply-To: <seed-${first}@remote.example>`, `References: <seed-${first}@remote.example>`]),
    `Date: ${new Date(Date.UTC(2023, 0, 1) + n * 15 * 60_000).toUTCString()}`,
    "MIME-Version: 1.0",
    "Content-Type: text/plain; charset=utf-8",
    "",
    `${text(300)}\r\n${extras.join(" ")}\r\n${text(300)}`,
  ].join("\r\n");
}

/** Fills the mailbox in the data folder. */
export async function seedMailbox(data: string, mailboxId: string): Promise<void> {
  const runtime = systemRuntime();
  const config = readConfig({ MAILROOM_DATA: data, MAILROOM_LOG: "warn" });
  const appliance = createAppliance(config, runtime, createLog("warn", runtime.now, console.error));
  const generator = words(7);
  for (let n = 0; n < MESSAGES; n += BATCH) {
    const prepared = await Promise.all(
      Array.from({ length: BATCH }, (_, i) =>
        prepareMessage(Buffer.from(messageOf(n + i, generator)), appliance.store.blobs),
      ),
    );
    appliance.store.transact((tx) => {
      for (const message of prepared) {
        appliance.mailbox.file(tx, { mailboxId, receivedOn: ME, message, now: runtime.now() });
      }
    });
  }
  // As a person leaves a mailbox: most of it read.
  appliance.store.db.$client.exec("UPDATE messages SET read = 1 WHERE thread_seq % 6 <> 0");
  appliance.store.db.$client.exec("UPDATE threads SET unread = 0 WHERE seq % 6 <> 0");
  appliance.close();
}
