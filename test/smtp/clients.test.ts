/** Clients that others wrote, against the whole way from socket to mailbox. */
import { describe, expect, test } from "bun:test";
import { letter, mailer } from "../harness/mail.ts";
import { listenForMailbox } from "../harness/mx-rig.ts";
import { connectSmtp } from "../harness/smtp-client.ts";

const swaks = Bun.which("swaks");

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

  test("is told why it is refused", async () => {
    const { address } = await listenForMailbox();
    const sender = mailer(address);
    const refusal = await sender
      .send({ from: "carol@remote.example", to: "nobody@example.test" }, letter())
      .catch((error) => error);
    sender.close();
    expect(refusal).toMatchObject({ responseCode: 550, response: "550 5.1.1 No such mailbox here" });
  });
});

describe.skipIf(!swaks)(`swaks${swaks ? "" : " (not installed)"}`, () => {
  async function run(port: number, ...args: string[]): Promise<{ exitCode: number; output: string }> {
    const child = Bun.spawn([swaks as string, "--server", "127.0.0.1", "--port", String(port), ...args], {
      stdio: ["ignore", "pipe", "pipe"],
    });
    return { output: await new Response(child.stdout).text(), exitCode: await child.exited };
  }

  test.each([[], ["--tls"], ["--pipeline"], ["--protocol", "SMTP"]])("%p", async (...args) => {
    const { address, filed } = await listenForMailbox();
    const from = ["--from", "swaks@remote.example", "--to", "alice@example.test,bob@example.test"];
    const { exitCode, output } = await run(address.port, ...from, ...args, "--body", "from swaks");
    expect({ exitCode, output }).toMatchObject({ exitCode: 0, output: expect.stringContaining("250 2.6.0 msg_") });
    expect(filed().map(({ text }) => text.trim())).toEqual(["from swaks", "from swaks"]);
  });

  test("sees a refusal", async () => {
    const { address } = await listenForMailbox();
    const { exitCode, output } = await run(address.port, "--from", "s@remote.example", "--to", "who@elsewhere.example");
    expect({ exitCode, output }).toMatchObject({ exitCode: 24, output: expect.stringContaining("550 5.7.1") });
  });
});

test("thirty raw sessions at once", async () => {
  const { address, filed } = await listenForMailbox();
  const clients = await Promise.all(Array.from({ length: 30 }, () => connectSmtp(address)));
  const replies = await Promise.all(
    clients.map((client, i) => client.deliver({ to: "bob@example.test" }, letter({ subject: `s${i}` }))),
  );
  expect(replies.map(({ code }) => code)).toEqual(clients.map(() => 250));
  expect(filed()).toHaveLength(30);
  for (const client of clients) client.destroy();
});
