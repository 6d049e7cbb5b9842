/** mbsync, set up as docs/mail-apps.md says: it copies both ways, and again after changes on both sides. */
import { expect } from "bun:test";
import { readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import * as people from "../../src/admin/people.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { letter } from "../harness/mail/mail.ts";
import { installed, run } from "../harness/programs.ts";
import { type Booted, boot } from "../harness/servers/boot.ts";
import { arrive } from "./arrive.ts";

export const mbsync = installed("mbsync");
/** Filed at once. */
const PORTION = 100;

interface Place {
  /** Exit code and output. */
  sync(): Promise<string>;
  /** Paths of the messages in a local folder, whose names have their flags. */
  files(folder: string): string[];
}

/** Where mbsync fetches mail from. */
interface Server {
  /** Host and port of IMAPS. */
  imaps: string | undefined;
  key: string;
  /** The data folder of the server. */
  data: string;
}

/** The mailbox of alice@example.test, as docs/mail-apps.md has it. `patterns`: what is copied; `folder`: what it has copied. */
export async function setUpMbsync(
  { imaps, key, data }: Server,
  { patterns = "*", folder = temporaryFolder() } = {},
): Promise<Place> {
  const page = await Bun.file(join(import.meta.dir, "../../docs/mail-apps.md")).text();
  const [, written = ""] = /(IMAPAccount mailroom[\s\S]*?)```/.exec(page) ?? [];
  const isOld = / 1\.4\./.test((await run([mbsync.path, "--version"])).output);
  const config = written
    .replace("Host mail.example.com", `Host localhost\nPort ${imaps?.split(":")[1]}`)
    .replace("you@example.com", "alice@example.test")
    .replace("pass mailroom", `echo ${key}`)
    .replace("Patterns *", `Patterns ${patterns}`)
    .replace("TLSType", isOld ? "SSLType" : "TLSType")
    .replace("IMAPS\n", `IMAPS\nCertificateFile ${join(data, "tls/self-signed.pem")}\n`)
    .replaceAll("~/Mail/", `${folder}/`);
  writeFileSync(join(folder, ".mbsyncrc"), config);
  return {
    async sync() {
      const { exitCode, output } = await run([mbsync.path, "-c", join(folder, ".mbsyncrc"), "--all", "--quiet"]);
      return `${exitCode} ${output}`.trim();
    },
    files: (name) =>
      ["cur", "new"].flatMap((part) => {
        const at = join(folder, name, part);
        return readdirSync(at).map((file) => join(at, file));
      }),
  };
}

const serverOf = ({ ready, owner, opened }: Booted): Server => ({
  imaps: ready.imaps,
  key: owner.apiKey,
  data: opened.config.data,
});

/** Copies a mailbox with `many` messages, changes some on both sides, and copies again. */
export async function syncBothWays(many: number): Promise<void> {
  const app = await boot({ MAILROOM_IMAPS: "127.0.0.1:0" });
  const ids: string[] = [];
  while (ids.length < many) {
    const next = Array.from({ length: PORTION }, (_, i) => ids.length + i);
    const filed = next.map((i) => arrive(app, { subject: `Message ${i}`, messageId: `<m${i}@remote.example>` }));
    ids.push(...(await Promise.all(filed)).map(({ threadId }) => threadId));
  }
  const { sync, files } = await setUpMbsync(serverOf(app));
  for (let round = 0; round < 2; round++) {
    expect(await sync()).toBe("0");
    expect(files("Inbox")).toHaveLength(many);
  }

  const paths = new Map<string, string>();
  for (const path of files("Inbox")) {
    const text = readFileSync(path, "utf8");
    paths.set(/^Subject: (.*?)\r?$/m.exec(text)?.[1] ?? "", path);
  }
  expect(paths.size).toBe(many);
  const at = (i: number) => paths.get(`Message ${i}`) ?? "";
  // Here, one is archived and one is read.
  await app.api.patch(`/threads/${ids[0]}`, { folder: "archive" });
  await app.api.patch(`/threads/${ids[1]}`, { unread: false });
  // There, one is read, one is deleted, and one is made.
  renameSync(
    at(2),
    `${at(2)
      .replace("/new/", "/cur/")
      .replace(/:2,.*$/, "")}:2,S`,
  );
  rmSync(at(3));
  const made = letter({ subject: "Made there", messageId: "<made@there.example>" });
  writeFileSync(join(at(2), "../../cur/1.made.there:2,S"), made);
  // The second copy brings what the first one moved to Trash.
  for (let round = 0; round < 2; round++) expect(await sync()).toBe("0");

  expect(["Inbox", "Archive", "Trash"].map((name) => files(name).length)).toEqual([many - 1, 1, 1]);
  const [, number = ""] = /\/([^/:]+)(?::2,.*)?$/.exec(at(1)) ?? [];
  expect(files("Inbox").find((path) => path.includes(number))).toEndWith(":2,S");
  const found = async (query: string) => {
    const { body } = await app.api.get<{ threads: { subject: string }[] }>(`/search?q=${encodeURIComponent(query)}`);
    return body.threads.map(({ subject }) => subject);
  };
  expect(await found("in:trash")).toEqual(["Message 3"]);
  expect(await found("subject:there in:inbox")).toEqual(["Made there"]);
  const { body } = await app.api.get<{ thread: { unread: boolean } }>(`/threads/${ids[2]}`);
  expect(body.thread.unread).toBe(false);
}

/** Copies labels as folders, and changes them on both sides; then leaves them out, as docs/mail-apps.md says. */
export async function syncLabels(): Promise<void> {
  const app = await boot({ MAILROOM_IMAPS: "127.0.0.1:0" });
  const {
    core: { store },
  } = app.opened;
  store.transact((tx) => people.setLabelFolders(tx, app.owner.userId, true));
  const threads: string[] = [];
  for (let i = 0; i < 4; i++) {
    const { threadId } = await arrive(app, { subject: `Message ${i}`, messageId: `<m${i}@remote.example>` });
    threads.push(threadId);
    if (i < 3) await app.api.patch(`/threads/${threadId}`, { labels: ["Work/Urgent"] });
  }
  const { sync, files } = await setUpMbsync(serverOf(app));
  expect(await sync()).toBe("0");
  expect([files("Inbox").length, files("Labels/Work/Urgent").length]).toEqual([4, 3]);
  // Here, one gets the label and one loses it; there, one is deleted from under it.
  await app.api.patch(`/threads/${threads[3]}`, { labels: ["Work/Urgent"] });
  await app.api.patch(`/threads/${threads[0]}`, { labels: [] });
  const [deleted = ""] = files("Labels/Work/Urgent").filter((path) => readFileSync(path, "utf8").includes("Message 1"));
  rmSync(deleted);
  for (let round = 0; round < 2; round++) expect(await sync()).toBe("0");
  expect([files("Inbox").length, files("Labels/Work/Urgent").length]).toEqual([4, 2]);
  const { body } = await app.api.get<{ threads: { subject: string; labels: string[] }[] }>("/threads?folder=inbox");
  expect(
    body.threads
      .filter(({ labels }) => labels.length > 0)
      .map(({ subject }) => subject)
      .sort(),
  ).toEqual(["Message 2", "Message 3"]);

  const page = await Bun.file(join(import.meta.dir, "../../docs/mail-apps.md")).text();
  const other = await setUpMbsync(serverOf(app), { patterns: /`Patterns (.*?)`/.exec(page)?.[1] ?? "" });
  expect(await other.sync()).toBe("0");
  expect(other.files("Inbox")).toHaveLength(4);
  expect(() => other.files("Labels/Work/Urgent")).toThrow("ENOENT");
}
