/** Apps that move by COPY and delete, as those do that know no MOVE. */
import { expect } from "bun:test";
import type { ImapAccount } from "../harness/clients/imap-client.ts";
import { type ImapWorld, uidsOf } from "../harness/servers/imap-world.ts";

const NAMES = { inbox: "INBOX", archive: "Archive", drafts: "Drafts", spam: "Junk", sent: "Sent", trash: "Trash" };

/** Where a mailbox has messages with that subject, by default Alice's. */
export function placesIn({ app }: ImapWorld, subject: string, mailboxId = app.owner.mailboxId): string[] {
  const rows = app.core.db.$client
    .query<{ folder: keyof typeof NAMES }, [string, string]>(
      "SELECT folder FROM messages WHERE subject = ? AND mailbox_id = ?",
    )
    .all(subject, mailboxId);
  return rows.map(({ folder }) => NAMES[folder]);
}

const STEPS = {
  copy: (set: string, name: string) => `COPY ${set} ${name}`,
  mark: (set: string) => `STORE ${set} +FLAGS.SILENT (\\Deleted)`,
  expunge: () => "EXPUNGE",
};
type Step = keyof typeof STEPS;
const ORDERS: readonly (readonly Step[])[] = [
  ["copy", "mark", "expunge"],
  ["mark", "copy", "expunge"],
  ["copy", "expunge", "mark", "expunge"],
  ["copy", "copy", "mark", "expunge", "expunge"],
];
let made = 0;

/** Carries a message in every order of the steps, and ends after each of these: the message is in one place then. */
export async function carryInAnyOrder(
  world: ImapWorld,
  person: { email: string; key: string },
  from: string,
  to: string,
  byUid: boolean,
): Promise<void> {
  const open = async (name: string): Promise<ImapAccount> => {
    const client = await world.client(person);
    expect(await client.say(`SELECT ${name}`)).toMatchObject({ status: "OK" });
    return client;
  };
  for (const order of ORDERS) {
    for (let length = 1; length <= order.length; length++) {
      const [subject, beside] = [`Carried ${++made}`, `Beside ${made}`];
      for (const one of [subject, beside]) await world.arrive({ subject: one });
      let client = await open("INBOX");
      if (from !== "INBOX") {
        for (const one of [subject, beside]) await client.say(`UID MOVE ${await uidsOf(client, one)} ${from}`);
        client.end();
        client = await open(from);
      }
      const [uid = 0] = await uidsOf(client, subject);
      const [, number] = /^\* (\d+) FETCH/.exec((await client.say(`UID FETCH ${uid} (UID)`)).untagged[0] ?? "") ?? [];
      for (const step of order.slice(0, length)) {
        const command = STEPS[step](byUid ? `${uid}` : `${number}`, to);
        const whole = byUid ? (step === "expunge" ? `UID EXPUNGE ${uid}` : `UID ${command}`) : command;
        // A number that EXPUNGE has taken away is refused.
        const { status } = await client.say(whole);
        if (step !== "mark") expect([whole, status]).toEqual([whole, "OK"]);
        if (!byUid && step === "expunge") break;
      }
      client.end();
      const places = placesIn(world, subject);
      const isCopied = order.slice(0, length).includes("copy");
      expect([order, length, places]).toEqual([order, length, [isCopied ? to : from]]);
      expect(placesIn(world, beside)).toEqual([from]);
    }
  }
}
