/**
 * Spam, from the socket to the API and the events: what a mailbox is taught over PATCH and by answering is followed by
 * the next mail that arrives, in that mailbox alone, and by nobody who only shows somebody else's address.
 */
import { expect, test } from "bun:test";
import { events } from "../../src/store/schema.ts";
import { type Letter, letter, mailer } from "../harness/mail/mail.ts";
import { zone } from "../harness/peers/dns-server.ts";
import { boot } from "../harness/servers/boot.ts";

const JUNK = "Cheap pills and watches, guaranteed: order now, limited offer, discount pharmacy, no prescription needed";
const WANTED = "The quarterly report is attached, please review the budget figures before our meeting on Thursday";

interface Arrived {
  threadId: string;
  mailboxId: string;
  isSpam: boolean;
  subject: string;
}

async function world() {
  const app = await boot(
    {},
    zone({
      // What comes from here over IPv4 passes; what does not says so.
      "shop.example": { txt: ["v=spf1 ip4:127.0.0.1 -all"] },
      "_dmarc.shop.example": { txt: ["v=DMARC1; p=none"] },
    }),
  );
  const { core } = app;
  const bob = app.join("bob@example.test", "member", { name: "Bob" });
  const sender = mailer(app.mx);

  /** Lets a message with that reverse-path arrive. Returns the data of its message.inbound. */
  async function arrive(mail: Letter, reversePath = "list@unknown.example"): Promise<Arrived> {
    const to = mail.to ?? "alice@example.test";
    await sender.send({ from: reversePath, to }, letter(mail));
    const inbound = core.store.db.select().from(events).all();
    return inbound.filter(({ event }) => event === "message.inbound").at(-1)?.data as unknown as Arrived;
  }
  const move = async (threadId: string, folder: string) => {
    const { status } = await app.api.patch(`/threads/${threadId}`, { folder });
    expect(status).toBe(200);
  };
  return { ...app, bob, arrive, move, close: () => sender.close() };
}

test("a sender trained as spam, forgiven, and spoofed", async () => {
  const { arrive, move, api, close } = await world();
  const from = "Shop <news@shop.example>";
  const own = "news@shop.example";
  const first = await arrive({ from, subject: "One" }, own);
  expect(first.isSpam).toBe(false);
  await move(first.threadId, "spam");
  const second = await arrive({ from: "Other name <NEWS@Shop.example>", subject: "Two" }, own);
  expect(second).toMatchObject({ isSpam: true, subject: "Two" });
  expect((await api.get<{ thread: { folder: string } }>(`/threads/${second.threadId}`)).body.thread.folder).toBe(
    "spam",
  );
  expect((await arrive({ from, subject: "Three", to: "bob@example.test" }, own)).isSpam).toBe(false);
  expect((await arrive({ from: "else@shop.example", subject: "Four" }, "else@shop.example")).isSpam).toBe(false);
  await move(second.threadId, "inbox");
  expect(await arrive({ from, subject: "Five" }, own)).toMatchObject({ isSpam: false });
  const spoofed = await arrive({ from, subject: "Six" });
  expect(spoofed.isSpam).toBe(false);
  await move(spoofed.threadId, "spam");
  expect((await arrive({ from, subject: "Seven" })).isSpam).toBe(true);
  expect((await arrive({ from, subject: "Eight" }, own)).isSpam).toBe(false);
  close();
});

test("the junk filter: taught by moving, archiving and answering, in one mailbox alone", async () => {
  const { arrive, move, api, apiWith, bob, close } = await world();
  let count = 0;
  const junk = (more: Letter = {}): Letter => ({
    from: `offer@junk${++count}.example`,
    subject: `Pills ${count}`,
    text: `${JUNK} ${count}`,
    ...more,
  });
  for (let i = 0; i < 20; i++) {
    await move((await arrive(junk())).threadId, "spam");
    const wanted = { from: `ben@work${i}.example`, subject: `Report ${i}`, text: WANTED };
    const { threadId } = await arrive(wanted);
    if (i % 2 === 0) await move(threadId, "archive");
    else expect((await api.post(`/threads/${threadId}/reply`, { text: "I will." })).status).toBe(202);
  }
  const bad = await arrive(junk());
  expect(bad.isSpam).toBe(true);
  expect((await arrive({ from: "new@work.example", subject: "Figures", text: WANTED })).isSpam).toBe(false);
  expect((await arrive(junk({ to: "bob@example.test" }))).isSpam).toBe(false);
  const folders = async (key?: string) =>
    (await (key === undefined ? api : apiWith(key)).get<{ threads: unknown[] }>("/threads?folder=spam")).body.threads;
  expect([(await folders()).length, (await folders(bob.key)).length]).toEqual([21, 0]);
  // Taken back, it is one message short of an opinion.
  await move(bad.threadId, "inbox");
  const threads = (await api.get<{ threads: { id: string }[] }>("/threads?folder=spam")).body.threads;
  await move(threads[0]?.id ?? "", "archive");
  expect((await arrive(junk())).isSpam).toBe(false);
  close();
});
