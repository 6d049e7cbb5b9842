/** Signatures (RFC 6376, RFC 8463), checked by code that shares nothing with the signer. */
import { beforeAll, describe, expect, test } from "bun:test";
import { makeDkimKeys } from "../../src/admin/domains.ts";
import type { SigningKey } from "../../src/authentication/dkim.ts";
import { verifyDkim } from "../harness/mail/dkim-verifier.ts";
import { START } from "../harness/runtime.ts";
import { sign } from "../harness/servers/outgoing.ts";

let keys: SigningKey[];
const published = new Map<string, string>();
beforeAll(async () => {
  keys = (await makeDkimKeys()).map(({ algorithm, privateKey, publicKey }) => {
    published.set(`${algorithm}-2026`, publicKey);
    return { domain: "example.test", selector: `${algorithm}-2026`, algorithm, privateKey };
  });
});

const publicKeyOf = (selector: string, domain: string): string | undefined =>
  domain === "example.test" ? published.get(selector) : undefined;

const crlf = (lines: string[]): string => lines.join("\r\n");
const MESSAGE = crlf([
  "From: Alice <alice@example.test>",
  "To: Bob <bob@remote.example>,",
  "\tCarol   <carol@remote.example>",
  "Cc: dave@remote.example",
  "Subject: =?UTF-8?Q?gr=C3=BC=C3=9Fe?=  und\t mehr",
  "Date: Mon, 05 Jan 2026 09:00:00 +0000",
  "Message-ID: <1@example.test>",
  "In-Reply-To: <0@remote.example>",
  "References: <0@remote.example>",
  "MIME-Version: 1.0",
  "Content-Type: text/plain; charset=utf-8",
  "Content-Transfer-Encoding: 8bit",
  "",
  "Grüße,  \t with   spaces ",
  "",
  "and an end of empty lines",
  "",
  "",
  "",
]);

async function signed(text: string): Promise<string> {
  const signatures = await sign(Buffer.from(text), keys, START);
  return signatures + Buffer.from(text).toString("latin1");
}
const check = (text: string) => verifyDkim(Buffer.from(text, "latin1"), publicKeyOf);

test("each key makes a valid, dated signature for the domain", async () => {
  const signatures = check(await signed(MESSAGE));
  expect(signatures.map(({ valid, tags: { a, d, s, t, c } }) => ({ valid, a, d, s, t, c }))).toEqual(
    ["rsa", "ed25519"].map((algorithm) => ({
      valid: true,
      a: `${algorithm}-sha256`,
      d: "example.test",
      s: `${algorithm}-2026`,
      t: String(START / 1_000),
      c: "relaxed/relaxed",
    })),
  );
});

test("a signature covers the fields that readers see, From and Subject once more than they occur", async () => {
  for (const { signed: names } of check(await signed(MESSAGE))) {
    expect(names.toSorted()).toEqual([
      "cc",
      "content-transfer-encoding",
      "content-type",
      "date",
      "from",
      "from",
      "in-reply-to",
      "message-id",
      "mime-version",
      "references",
      "subject",
      "subject",
      "to",
    ]);
  }
});

describe("a signature is broken by", () => {
  for (const [what, change] of [
    ["another Subject on top", (text: string) => text.replace("From:", "Subject: You won\r\nFrom:")],
    [
      "another From below",
      (text: string) => text.replace("MIME-Version: 1", "From: eve@remote.example\r\nMIME-Version: 1"),
    ],
    ["another To", (text: string) => text.replace("bob@remote", "eve@remote")],
    ["another text", (text: string) => text.replace("an end", "no end")],
    ["a text added", (text: string) => `${text}P.S.\r\n`],
  ] as const) {
    test(what, async () => {
      expect(check(change(await signed(MESSAGE))).map(({ valid }) => valid)).toEqual([false, false]);
    });
  }
});

test("adding a Subject where there was none breaks the signature", async () => {
  const without = await signed(MESSAGE.replace(/^Subject:.*\r\n/m, ""));
  const valid = (text: string) => check(text).map((signature) => signature.valid);
  expect(valid(without)).toEqual([true, true]);
  expect(valid(without.replace("From: Alice", "Subject: You won\r\nFrom: Alice"))).toEqual([false, false]);
});

test("a signature survives the changes of relays: folding, white space, trace headers", async () => {
  const relayed = (await signed(MESSAGE))
    .replace("To: Bob <bob@remote.example>,\r\n\tCarol   <", "TO:  Bob <bob@remote.example>, Carol\r\n <")
    .replace("spaces ", "spaces");
  const received = `Received: from a by b; Mon, 5 Jan 2026 09:00:01 +0000\r\n${relayed}`;
  expect(check(received).map(({ valid }) => valid)).toEqual([true, true]);
});

test("a body that is empty or only line breaks is signed too", async () => {
  const header = MESSAGE.slice(0, MESSAGE.indexOf("\r\n\r\n") + 4);
  for (const body of ["", "\r\n", "\r\n\r\n"]) {
    expect(check(await signed(header + body)).map(({ valid }) => valid)).toEqual([true, true]);
  }
});

test("without keys there is no signature", async () => {
  expect(await sign(Buffer.from(MESSAGE), [], START)).toBe("");
});

test("a key that does not work and a message without From are errors", async () => {
  const broken = keys.map((key) => ({ ...key, privateKey: "none" }));
  await expect(sign(Buffer.from(MESSAGE), broken, START)).rejects.toThrow();
  const swapped = keys.map((key, i) => ({ ...key, privateKey: keys[1 - i]?.privateKey ?? "" }));
  await expect(sign(Buffer.from(MESSAGE), swapped, START)).rejects.toThrow("is no rsa key");
  await expect(sign(Buffer.from(MESSAGE.replace(/^From:.*\r\n/, "")), keys, START)).rejects.toThrow("From");
});
