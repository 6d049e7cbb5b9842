/** Labels as keywords over a socket (RFC 9051 §2.3.2), beside the keywords that programs have for themselves. */
import { expect, test } from "bun:test";
import { imapWorld } from "../harness/imap-world.ts";

const listed = (lines: readonly string[], start: string): string[] =>
  lines
    .find((line) => line.startsWith(start))
    ?.replace(/^[^(]*\(([^)]*)\).*$/, "$1")
    .split(" ") ?? [];

test("labels are told when a mailbox is selected, and never taken for keywords of programs", async () => {
  const world = await imapWorld();
  const { threadId } = await world.arrive({ subject: "Labelled" });
  const labels = ["Invoices", "To do", "$Forwarded", "Junk"];
  expect((await world.app.api.patch(`/threads/${threadId}`, { labels })).status).toBe(200);
  const keywords = ["Invoices", "To&ACA-do", "&ACQ-Forwarded", "&AEo-unk"];
  const mail = await world.client();
  const { untagged } = await mail.say("SELECT INBOX");
  expect(listed(untagged, "* FLAGS")).toEqual(expect.arrayContaining(["\\Seen", ...keywords]));
  expect(listed(untagged, "* OK [PERMANENTFLAGS")).toEqual(expect.arrayContaining(["\\Seen", ...keywords, "\\*"]));
  const flagsOf = async (): Promise<string[]> =>
    (/FLAGS \(([^)]*)\)/.exec((await mail.say("FETCH 1 (FLAGS)")).untagged.join("\n"))?.[1] ?? "").split(" ").sort();
  expect(await flagsOf()).toEqual([...keywords].sort());

  // A program's keyword is a flag of the message or nothing, and no label.
  await mail.say("STORE 1 +FLAGS ($Forwarded NonJunk)");
  expect(await flagsOf()).toEqual([...keywords, "$Forwarded"].sort());
  await mail.say("STORE 1 -FLAGS ($Forwarded &ACQ-Forwarded &AEo-unk)");
  expect(await flagsOf()).toEqual(["Invoices", "To&ACA-do"]);
  const { body } = await world.app.api.get<{ thread: { labels: string[] } }>(`/threads/${threadId}`);
  expect(body.thread.labels.sort()).toEqual(["Invoices", "To do"]);

  const text = "Subject: Appended\r\n\r\nHello\r\n";
  await mail.say(`APPEND Archive (Junk $Label1 Later) {${text.length}+}\r\n${text}`);
  await mail.say("SELECT Archive");
  expect(await flagsOf()).toEqual(["Later"]);
  mail.end();
});
