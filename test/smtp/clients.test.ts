/** nodemailer and raw sessions against the whole way from socket to mailbox. */
import { describe, expect, test } from "bun:test";
import { connectSmtp } from "../harness/clients/smtp-client.ts";
import { letter, mailer } from "../harness/mail/mail.ts";
import { listenForMailbox } from "../harness/servers/mx-rig.ts";

describe("nodemailer", () => {
  test.each([true, false])("with STARTTLS: %p", async (starttls) => {
    const { address, filed, lines } = await listenForMailbox();
    const sender = mailer(address, { starttls });
    const { reply } = await sender.send(
      { from: "carol@remote.example", to: ["alice@example.test", "bob@example.test"] },
      letter({ subject: "Grüße", text: "Schöne Grüße\n.\n..\nEnde" }),
    );
    sender.close();
    expect(reply).toMatch(/^250 2\.6\.0 msg_/);
    expect(filed().map(({ mailbox, subject, text }) => [mailbox, subject, text])).toEqual(
      ["alice@example.test", "bob@example.test"].map((to) => [to, "Grüße", "Schöne Grüße\n.\n..\nEnde"]),
    );
    expect(lines.find(({ message }) => message === "message")).toMatchObject({ tls: starttls });
  });

  test("twenty connections at once: every message arrives once", async () => {
    const { address, filed } = await listenForMailbox();
    const sender = mailer(address, { connections: 20 });
    const subjects = Array.from({ length: 200 }, (_, i) => `number ${i}`);
    await Promise.all(
      subjects.map((subject) =>
        sender.send({ from: "carol@remote.example", to: "alice@example.test" }, letter({ subject })),
      ),
    );
    sender.close();
    expect(
      filed()
        .map(({ subject }) => subject)
        .sort(),
    ).toEqual(subjects.sort());
  }, 300_000);

  test("gets the reason of a refusal", async () => {
    const { address } = await listenForMailbox();
    const sender = mailer(address);
    const refusal = await sender
      .send({ from: "carol@remote.example", to: "nobody@example.test" }, letter())
      .catch((error) => error);
    sender.close();
    expect(refusal).toMatchObject({ responseCode: 550, response: "550 5.1.1 No such mailbox here" });
  });
});

test("thirty raw sessions at once: every message arrives once", async () => {
  const { address, filed } = await listenForMailbox();
  const clients = await Promise.all(Array.from({ length: 30 }, () => connectSmtp(address)));
  const replies = await Promise.all(
    clients.map((client, i) => client.deliver({ to: "bob@example.test" }, letter({ subject: `s${i}` }))),
  );
  expect(replies.map(({ code }) => code)).toEqual(clients.map(() => 250));
  expect(filed()).toHaveLength(30);
  for (const client of clients) client.destroy();
});
