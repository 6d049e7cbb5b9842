/**
 * Every message of the corpus goes the whole way: over SMTP into an appliance, and out again through the API. The server
 * refuses none of them, loses none, and serves each whole. (test/message covers the parsing.)
 */
import { describe, expect, test } from "bun:test";
import { createHash } from "node:crypto";
import { corpusFiles, corpusNote, corpusPresent } from "../harness/mail/corpus.ts";
import { mailer } from "../harness/mail/mail.ts";
import { boot } from "../harness/servers/boot.ts";

interface Message {
  id: string;
  threadId: string;
  text: string;
  html?: string;
  attachments: { url: string; size: number; contentType: string }[];
}

const ID = /\b(msg_\w+) filed/;

describe.skipIf(!corpusPresent)(`the corpus, over SMTP and through the API${corpusNote}`, () => {
  test("every message is filed, found and served", async () => {
    const { mx, api, core } = await boot();
    const sender = mailer(mx, { connections: 4, starttls: false });
    const files = corpusFiles();
    expect(files.length).toBeGreaterThan(800);

    const accepted = await Promise.all(
      files.map(async ({ name, bytes }) => {
        const { reply } = await sender.send({ from: "corpus@remote.example", to: "alice@example.test" }, bytes);
        return { name, id: ID.exec(reply)?.[1] as string };
      }),
    );
    sender.close();

    const faults: string[] = [];
    for (const { name, id } of accepted) {
      const { status, body } = await api.get<{ message: Message }>(`/messages/${id}`);
      if (status !== 200) {
        faults.push(`${name}: ${status}`);
        continue;
      }
      const { message } = body;
      const thread = await api.get<{ messages: Message[] }>(`/threads/${message.threadId}?html=false`);
      if (!thread.body.messages.some((one) => one.id === id && one.html === undefined))
        faults.push(`${name}: not in its thread`);
      const raw = await api.bytes(`/messages/${id}/raw`);
      if (raw.status !== 200 || raw.body.byteLength === 0) faults.push(`${name}: raw ${raw.status}`);
      for (const attachment of message.attachments) {
        const { status, body } = await api.bytes(attachment.url);
        if (status !== 200 || body.byteLength !== attachment.size) faults.push(`${name}: ${attachment.url} ${status}`);
      }
    }
    expect(faults).toEqual([]);

    // The blobs are what their names say, and every one is named by an attachment.
    const rows = core.store.db.$client.query("SELECT DISTINCT blob FROM attachments").all() as { blob: string }[];
    for (const { blob } of rows) {
      expect(
        createHash("sha256")
          .update(await core.store.blobs.read(blob))
          .digest("hex"),
      ).toBe(blob);
    }
  }, 300_000);
});
