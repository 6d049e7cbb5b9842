/** Labels as keywords over a socket (RFC 9051 §2.3.2), beside the keywords that programs have for themselves. */
import { expect, test } from "bun:test";
import { imapWorld } from "../harness/servers/imap-world.ts";

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
  await mail.say("STORE 1 +FLAGS ($Forwarded NonJunk ReceiptChecked)");
  expect(await flagsOf()).toEqual([...keywords, "$Forwarded", "NonJunk"].sort());
  await mail.say("STORE 1 -FLAGS ($Forwarded NonJunk &ACQ-Forwarded &AEo-unk)");
  expect(await flagsOf()).toEqual(["Invoices", "To&ACA-do"]);
  const { body } = await world.app.api.get<{ thread: { labels: string[] } }>(`/threads/${threadId}`);
  expect(body.thread.labels.sort()).toEqual(["Invoices", "To do"]);

  const text = "Subject: Appended\r\n\r\nHello\r\n";
  await mail.say(`APPEND Archive (Junk $Label1 Later) {${text.length}+}\r\n${text}`);
  await mail.say("SELECT Archive");
  expect(await flagsOf()).toEqual(["$label1", "Junk", "Later"]);
  mail.end();
});

test("keywords of mail apps are kept, a message each, and found", async () => {
  const world = await imapWorld();
  const { threadId } = await world.arrive({ subject: "Tagged" });
  await world.arrive({ subject: "Another" });
  const mail = await world.client();
  const flags = listed((await mail.say("SELECT INBOX")).untagged, "* OK [PERMANENTFLAGS");
  const own = flags.filter((flag) => /^(?:\$|Junk$|NonJunk$)/.test(flag));
  expect(own.sort()).toEqual([
    ...["$Forwarded", "$Important", "$Junk", "$MDNSent", "$MailFlagBit0", "$MailFlagBit1", "$MailFlagBit2", "$NotJunk"],
    ...["$Phishing", "$label1", "$label2", "$label3", "$label4", "$label5", "Junk", "NonJunk"],
  ]);
  await mail.say(`STORE 1 +FLAGS (${own.join(" ").toUpperCase()})`);
  const flagsOf = async (number: number): Promise<string[]> =>
    (/FLAGS \(([^)]*)\)/.exec((await mail.say(`FETCH ${number} (FLAGS)`)).untagged.join("\n"))?.[1] ?? "").split(" ");
  expect((await flagsOf(1)).sort()).toEqual(own.sort());
  expect(await flagsOf(2)).toEqual([""]);
  for (const keyword of own) {
    expect((await mail.say(`SEARCH KEYWORD ${keyword}`)).untagged).toEqual(["* SEARCH 1"]);
    expect((await mail.say(`SEARCH UNKEYWORD ${keyword}`)).untagged).toEqual(["* SEARCH 2"]);
  }
  expect(
    (await world.app.api.get<{ thread: { labels: string[] } }>(`/threads/${threadId}`)).body.thread.labels,
  ).toEqual([]);
  await mail.say("MOVE 1 Archive");
  await mail.say("SELECT Archive");
  expect((await flagsOf(1)).sort()).toEqual(own.sort());
  await mail.say("STORE 1 FLAGS ($label2)");
  expect(await flagsOf(1)).toEqual(["$label2"]);
  mail.end();
});

test("labels whose keywords differ by case alone have a number, and a keyword in any case is of its label", async () => {
  const world = await imapWorld();
  const labelled = async (subject: string, ...labels: string[]): Promise<string> => {
    const { threadId } = await world.arrive({ subject });
    expect((await world.app.api.patch(`/threads/${threadId}`, { labels })).status).toBe(200);
    return threadId;
  };
  const labelsOf = async (threadId: string): Promise<string[]> =>
    (await world.app.api.get<{ thread: { labels: string[] } }>(`/threads/${threadId}`)).body.thread.labels;
  const labels = ["\u00e4", "\u0284", "\u68e4", "\u6a84"];
  const keywords = ["&AOQ-", "&AoQ-&2", "&aOQ-&3", "&aoQ-&4"];
  const threads = [];
  for (const label of labels) threads.push(await labelled(`Has ${label.codePointAt(0)}`, label));
  // A label is the same in any case, however a conversation has it.
  threads.push(await labelled("Has it in capitals", "Ä"));
  const mail = await world.client();
  const flagsOf = (lines: readonly string[]): string[] =>
    lines.flatMap(
      (line) =>
        /FETCH .*FLAGS \(([^)]*)\)/
          .exec(line)?.[1]
          ?.split(" ")
          .filter((flag) => flag !== "\\Seen") ?? [],
    );
  expect(listed((await mail.say("SELECT INBOX")).untagged, "* FLAGS").filter((flag) => flag.startsWith("&"))).toEqual(
    keywords,
  );
  expect(flagsOf((await mail.say("FETCH 1:* (FLAGS)")).untagged)).toEqual([...keywords, "&AOQ-"]);
  for (const [i, keyword] of keywords.entries()) {
    const found = (await mail.say(`SEARCH KEYWORD ${keyword.toLowerCase()}`)).untagged[0];
    expect(found).toBe(i === 0 ? "* SEARCH 1 5" : `* SEARCH ${i + 1}`);
    await mail.say(`STORE 5 FLAGS (${keyword.toUpperCase()})`);
    expect(await labelsOf(threads[4] as string)).toEqual([labels[i] as string]);
    await mail.say(`STORE 5 -FLAGS (${keyword.toLowerCase()})`);
    expect(await labelsOf(threads[4] as string)).toEqual([]);
  }
  const text = "Subject: Appended\r\n\r\nHello\r\n";
  await mail.say(`APPEND INBOX (&aoq-&3 &ANY-) {${text.length}+}\r\n${text}`);
  expect(flagsOf((await mail.say("FETCH 6 (FLAGS)")).untagged)).toEqual(["&aOQ-&3", "&ANY-"]);
  mail.end();
});
