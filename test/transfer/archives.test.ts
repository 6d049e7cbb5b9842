/** Mail in archives, as Google Takeout and people pack it. */
import { describe, expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { packTar } from "modern-tar";
import { findMessagesInFiles } from "../../src/transfer/sources.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { type Entry, zip } from "../harness/mail/documents.ts";
import { letter } from "../harness/mail/mail.ts";
import { boot } from "../harness/servers/boot.ts";
import { importInto, mboxEntry } from "../harness/servers/transfer-rig.ts";

const DELIVERED = new Date("2024-05-06T07:08:09Z");

async function tar(entries: readonly Entry[]): Promise<Uint8Array> {
  return packTar(
    entries.map(({ name, content }) => ({
      header: { name, size: Buffer.byteLength(content), type: "file", mtime: DELIVERED },
      body: content,
    })),
  );
}

const KINDS: readonly [name: string, pack: (entries: readonly Entry[]) => Promise<Uint8Array> | Uint8Array][] = [
  ["mail.zip", zip],
  ["mail.tgz", async (entries) => gzipSync(await tar(entries))],
  ["mail.tar", tar],
];

function keep(name: string, bytes: Uint8Array): string {
  const path = join(temporaryFolder(), name);
  writeFileSync(path, bytes);
  return path;
}

async function found(path: string, mostBytes = 1_000_000): Promise<string[]> {
  const lines: string[] = [];
  for await (const each of findMessagesInFiles(path, mostBytes)) {
    const shown = (at: string) => at.replace(path, "ARCHIVE");
    if ("reason" in each) lines.push(`${shown(each.path)}: ${each.reason}`);
    else {
      const [, subject] = /^Subject: (.*)$/m.exec(each.content.toString("latin1")) ?? [];
      const { path: of, folder, labels } = each.source;
      lines.push(`${shown(of)} ${each.place}: ${subject} ${folder} ${labels}${each.marks?.read ? " read" : ""}`);
    }
  }
  return lines;
}

const takeout = (labels: string, subject: string) =>
  mboxEntry(`X-GM-THRID: 17\nX-Gmail-Labels: ${labels}\n${letter({ subject, messageId: `<${subject}@x.example>` })}`);

const TAKEOUT: readonly Entry[] = [
  { name: "Takeout/archive_browser.html", content: "<html>" },
  {
    name: "Takeout/Mail/All mail Including Spam and Trash.mbox",
    content: [
      takeout("Inbox,Unread,Clients", "new"),
      takeout("Sent,Starred", "sent"),
      takeout("Spam", "spam"),
      takeout("Trash", "trash"),
    ].join(""),
  },
  { name: "Takeout/Drive/notes.txt", content: "no mail\n" },
];

describe.each(KINDS)("%s", (name, pack) => {
  test("of Google Takeout: folders and labels are those of Gmail, and a second import adds nothing", async () => {
    const path = keep(name, await pack(TAKEOUT));
    const booted = await boot();
    expect(await importInto(booted, path)).toMatchObject({ imported: 4, skipped: 0, failed: 0 });
    const { body } = await booted.api.get<{ threads: { subject: string; folder: string; labels: string[] }[] }>(
      "/threads?folder=all&limit=100",
    );
    const state = Object.fromEntries(
      body.threads.map(({ subject, ...thread }) => [subject, thread as Record<string, unknown>]),
    );
    expect(state.new).toMatchObject({ folder: "inbox", unread: true, labels: ["Clients"] });
    expect(state.sent).toMatchObject({ folder: "sent", starred: true });
    expect(await importInto(booted, path)).toMatchObject({ imported: 0, skipped: 4, failed: 0 });
  });

  test("of a Maildir, folders of messages, and mbox files in folders", async () => {
    const path = keep(
      name,
      await pack([
        { name: "Maildir/.Work.Clients/new/4.d", content: letter({ subject: "four" }) },
        { name: "Maildir/cur/1.a:2,S", content: letter({ subject: "one" }) },
        { name: "Maildir/new/2.b", content: letter({ subject: "two" }) },
        { name: "old/Sent.mbox", content: mboxEntry(letter({ subject: "five" })) },
        { name: "old/one.eml", content: letter({ subject: "six" }) },
        { name: "old/box.mbox.gz", content: gzipSync(mboxEntry(letter({ subject: "seven" }))) },
      ]),
    );
    expect((await found(path)).sort()).toEqual([
      "ARCHIVE/Maildir 1.a:2,S: one inbox  read",
      "ARCHIVE/Maildir 2.b: two inbox ",
      "ARCHIVE/Maildir/.Work.Clients 4.d: four archive Work/Clients",
      "ARCHIVE/old one.eml: six archive old",
      "ARCHIVE/old/Sent.mbox byte 0: five archive old/Sent",
      "ARCHIVE/old/box.mbox.gz byte 0: seven archive old/box",
    ]);
  });

  test("of a Maildir with Dovecot's keywords, wherever their names lie, and with the times of the files", async () => {
    const path = keep(
      name,
      await pack([
        { name: "Maildir/cur/1800000000.a:2,Sa", content: letter({ subject: "one" }) },
        { name: "Maildir/dovecot-keywords", content: "0 Clients\n" },
      ]),
    );
    const [message] = await Array.fromAsync(findMessagesInFiles(path, 1_000_000));
    expect(message).toMatchObject({ marks: { read: true, labels: ["Clients"] } });
    // The zip of the harness has no times.
    if (name !== "mail.zip") expect(message).toMatchObject({ receivedAt: DELIVERED.getTime() });
  });

  test("in a folder is read, and one in an archive is not", async () => {
    const inner = await pack([{ name: "one.eml", content: letter({ subject: "inside" }) }]);
    const path = keep(name, await pack([{ name: `more/${name}`, content: inner }]));
    expect(await found(path)).toEqual([`ARCHIVE/more/${name}: an archive in an archive is not read: unpack it`]);
    expect(await found(join(keep(name, inner), ".."))).toEqual([
      expect.stringContaining(`ARCHIVE/${name} one.eml: inside`),
    ]);
  });

  test("with a message larger than may be in memory: it is reported, and the others are imported", async () => {
    const large = letter({ subject: "large", text: "x".repeat(50_000) });
    const path = keep(
      name,
      await pack([
        { name: "a.eml", content: large },
        { name: "b.eml", content: letter({ subject: "small" }) },
      ]),
    );
    const sizes: [number, boolean][] = [];
    for await (const each of findMessagesInFiles(path, 10_000)) {
      if (!("reason" in each)) sizes.push([each.size, each.content.byteLength < 10_000]);
    }
    expect(sizes).toEqual([
      [large.length, true],
      [expect.any(Number), true],
    ]);
  });

  test("that leads out of itself is refused", async () => {
    const path = keep(name, await pack([{ name: "../../etc/one.eml", content: letter() }]));
    expect(await found(path)).toEqual([expect.stringMatching(/^ARCHIVE: .*(?:leads out of|invalid relative path)/)]);
  });
});

test("an archive that was cut off: what is there is imported, and it is said", async () => {
  const letters = Array.from({ length: 200 }, (_, i) =>
    mboxEntry(letter({ subject: `${i}`, text: Bun.hash(String(i)).toString(36).repeat(40) })),
  );
  const entries = [{ name: "all.mbox", content: letters.join("") }];
  const tgz = gzipSync(await tar(entries));
  const lines = await found(keep("mail.tgz", tgz.subarray(0, tgz.length / 2)));
  expect(lines.length).toBeGreaterThan(20);
  expect(lines.length).toBeLessThan(200);
  expect(lines.at(-1)).toMatch(/^ARCHIVE: the archive is cut off or damaged: fetch it again/);
  const plain = await tar(entries);
  expect((await found(keep("mail.tar", plain.subarray(0, plain.length / 2)))).at(-1)).toMatch(/is cut off or damaged/);
  const packed = zip(entries);
  expect(await found(keep("mail.zip", packed.subarray(0, packed.length / 2)))).toEqual([
    expect.stringMatching(/^ARCHIVE: the archive is cut off or damaged: fetch it again/),
  ]);
});

test("a zip that lies: encrypted, larger than it says, parts that overlap", async () => {
  const content = letter({ subject: "one" });
  const of = (entry: Partial<Entry>) => keep("mail.zip", zip([{ name: "one.eml", content, ...entry }]));
  expect(await found(of({ says: { encrypted: true } }))).toEqual([
    "ARCHIVE/one.eml: it is encrypted: unpack the archive, and import the folder",
  ]);
  expect(await found(of({ says: { size: 10 } }))).toEqual([expect.stringMatching(/^ARCHIVE\/one.eml: too many bytes/)]);
  const bomb = Array.from({ length: 10 }, (_, i) => ({ name: `${i}.eml`, content, overlaps: i > 0 }));
  expect(await found(keep("mail.zip", zip(bomb)))).toEqual(["ARCHIVE: parts of the archive overlap"]);
});

test("links in a tar are no files", async () => {
  const path = keep(
    "mail.tar",
    await packTar([
      { header: { name: "secret.eml", size: 0, type: "symlink", linkname: "/etc/passwd" } },
      { header: { name: "hard.eml", size: 0, type: "link", linkname: "/etc/passwd" } },
    ]),
  );
  expect(await found(path)).toEqual([]);
});
