/** Calls of tools over HTTP, as they go over the wire. */
import { expect } from "bun:test";
import { countTokens } from "gpt-tokenizer/encoding/o200k_base";
import { mailer } from "../../harness/mail/mail.ts";
import { ALICE, type ExtWorld, MAX } from "../../harness/servers/ext-world.ts";

// biome-ignore lint/suspicious/noExplicitAny: results are looked into as JSON.
export type Structured = Record<string, any>;
export interface Result {
  text: string;
  structured: Structured;
  isError: boolean;
  /** Request and response as they went over the wire. */
  wire: string;
}

export const CAROL = "carol@remote.example";

export function createCalls(world: ExtWorld) {
  async function call(name: string, args: object = {}, key = world.owner.apiKey): Promise<Result> {
    const request = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/call", params: { name, arguments: args } });
    const response = await fetch(`${world.http}/api/mcp`, {
      method: "POST",
      headers: {
        authorization: `Bearer ${key}`,
        "content-type": "application/json",
        accept: "application/json, text/event-stream",
      },
      body: request,
    });
    const answer = await response.text();
    const { content, structuredContent: structured, isError = false } = JSON.parse(answer).result;
    return { text: content[0].text, structured, isError, wire: request + answer };
  }

  const rest = async (path: string): Promise<Structured> => (await world.api.get<Structured>(path)).body;

  /** Delivers a message with files; returns its ids. */
  async function receiveFiles(subject: string, files: [name: string, bytes: Uint8Array][]): Promise<Structured> {
    const parts = files.map(([name, bytes]) =>
      [
        `--b\r\nContent-Type: application/pdf\r\nContent-Disposition: attachment; filename="${name}"`,
        `Content-Transfer-Encoding: base64\r\n\r\n${bytes.toBase64().replace(/.{76}/g, "$&\r\n")}`,
      ].join("\r\n"),
    );
    // Older than what world.receive delivers, which looks for the newest.
    const date = "Thu, 01 Jan 2026 00:00:00 +0000";
    const head = `From: Carol <${CAROL}>\r\nTo: ${ALICE}\r\nSubject: ${subject}\r\nDate: ${date}\r\nMIME-Version: 1.0`;
    const sender = mailer(world.mx);
    await sender.send(
      { from: CAROL, to: ALICE },
      `${head}\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\nAttached.\r\n${parts.join("\r\n")}\r\n--b--\r\n`,
    );
    sender.close();
    const { threads } = await rest(`/search?q=${encodeURIComponent(`subject:"${subject}" has:attachment`)}`);
    return (await rest(`/threads/${threads[0].id}`)).messages[0];
  }

  /** Expects that a PDF of that many bytes is forwarded by its handle for less than 300 tokens in all. */
  async function expectForwarded(size: number): Promise<void> {
    const { id } = await receiveFiles("The scan", [["scan.pdf", new Uint8Array(size).fill(37)]]);
    const [{ id: attachmentId }] = (await rest(`/messages/${id}`)).message.attachments;
    const mail = { from: ALICE, to: [MAX], subject: "The scan", text: "As you asked." };
    for (const args of [
      { ...mail, attachments: [{ attachmentId }] },
      { ...mail, forward: id },
    ]) {
      const { wire, structured } = await call("send_email", args);
      expect(countTokens(wire)).toBeLessThan(300);
      const { message } = await rest(`/messages/${structured.emailId}`);
      expect(message.attachments).toMatchObject([{ filename: "scan.pdf", size: size }]);
    }
  }

  return { call, rest, receiveFiles, expectForwarded };
}
