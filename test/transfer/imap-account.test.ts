/** The URL of an account on an IMAP server. */
import { describe, expect, test } from "bun:test";
import { readImapAccountUrl } from "../../src/transfer/imap-account.ts";

describe("the account's URL", () => {
  const cases: [text: string, account: object | undefined][] = [
    ["imaps://ada@mail.example", { host: "mail.example", port: 993, user: "ada", implicitTls: true }],
    ["imaps://ada@mail.example.", { host: "mail.example", port: 993, user: "ada", implicitTls: true }],
    ["imap://ada%40acme.test@[::1]:1143", { host: "::1", port: 1143, user: "ada@acme.test", implicitTls: false }],
    ["imaps://mail.example", undefined],
    ["imaps://ada:secret@mail.example", undefined],
    ["imaps://ada%zz@mail.example", undefined],
    ["https://ada@mail.example", undefined],
    ["mail.example", undefined],
  ];
  for (const [text, account] of cases) {
    test(text, () => {
      expect(readImapAccountUrl(text)).toEqual(account as never);
    });
  }
});
