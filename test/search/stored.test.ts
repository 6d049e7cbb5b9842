import { expect, test } from "bun:test";
import { prepareMessage } from "../../src/mailbox/filing/prepare.ts";
import { readStoredMessages } from "../../src/search/stored.ts";
import { createAlice } from "../harness/servers/mailbox-world.ts";

const mail = (text: string, html: string) =>
  [
    "From: Carol <carol@remote.example>",
    "To: alice@example.test",
    "Cc: bob@example.test",
    "Subject: Both",
    "MIME-Version: 1.0",
    "Content-Type: multipart/alternative; boundary=x",
    "",
    `--x\r\n\r\n${text}\r\n--x\r\nContent-Type: text/html\r\n\r\n${html}\r\n--x--\r\n`,
  ].join("\r\n");

test("stored mail is folded as it was when it came, whatever its text and HTML say", async () => {
  const alice = createAlice();
  const long = "A sentence that both of them have. ".repeat(3_000);
  for (const [text, html] of [
    ["Hello", "<p>Hello</p>"],
    ["Hello", "<p>Hello, pineapple</p><p hidden>secret</p>"],
    [" ", "<p>Hello</p>"],
    [long, `<p>${long}</p>papaya`],
  ] as const) {
    const source = mail(text, html);
    const { index } = await prepareMessage(new TextEncoder().encode(source), alice.store.blobs);
    const { seq } = await alice.receive(source.replace("Subject:", `Message-ID: <${html.length}@x>\r\nSubject:`));
    const [stored] = readStoredMessages(alice.store.db, [seq]);
    expect(stored?.fold()).toEqual(index);
    expect(await stored?.foldInTurns(async () => {})).toEqual(index);
    expect(index.body).not.toContain("secret");
  }
});
