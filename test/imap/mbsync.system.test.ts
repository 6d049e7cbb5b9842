/** mbsync, set up as docs/mail-apps.md says: both ways, and again after changes on both sides. */
import { expect, test } from "bun:test";
import { readdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type Booted, boot } from "../harness/appliance.ts";
import { arrive } from "../harness/arrive.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { letter } from "../harness/mail.ts";
import { installed, run } from "../harness/programs.ts";

const mbsync = installed("mbsync");
const MANY = 1_000;

interface Place {
  sync(): Promise<string>;
  /** File names of a local folder, with their flags. */
  names(folder: string): string[];
  path(folder: string, name: string): string;
}

async function setUp(app: Booted): Promise<Place> {
  const folder = temporaryFolder();
  const page = await Bun.file(join(import.meta.dir, "../../docs/mail-apps.md")).text();
  const [, written = ""] = /(IMAPAccount mailroom[\s\S]*?)```/.exec(page) ?? [];
  const old = / 1\.4\./.test((await run([mbsync.path, "--version"])).output);
  const config = written
    .replace("Host mail.example.com", `Host localhost\nPort ${app.ready.imaps?.split(":")[1]}`)
    .replace("you@example.com", "alice@example.test")
    .replace("pass mailroom", `echo ${app.owner.apiKey}`)
    .replace("TLSType", old ? "SSLType" : "TLSType")
    .replace("IMAPS\n", `IMAPS\nCertificateFile ${join(app.appliance.config.data, "tls/self-signed.pem")}\n`)
    .replaceAll("~/Mail/", `${folder}/`);
  writeFileSync(join(folder, ".mbsyncrc"), config);
  const filesIn = (name: string) =>
    ["cur", "new"].flatMap((part) => {
      const at = join(folder, name, part);
      return readdirSync(at).map((file) => join(at, file));
    });
  return {
    async sync() {
      const { exitCode, output } = await run([mbsync.path, "-c", join(folder, ".mbsyncrc"), "--all", "--quiet"]);
      return `${exitCode} ${output}`.trim();
    },
    names: (name) => filesIn(name).map((file) => file.slice(file.lastIndexOf("/") + 1)),
    path: (name, part) => filesIn(name).find((file) => file.includes(part)) ?? "",
  };
}

test.skipIf(mbsync.absent)(
  `${mbsync.named} copies both ways, and again after changes on both sides`,
  async () => {
    const app = await boot({ MAILROOM_IMAPS: "127.0.0.1:0" });
    const ids: string[] = [];
    for (let i = 0; i < MANY; i++) {
      const { threadId } = await arrive(app, { subject: `Message ${i}`, messageId: `<m${i}@remote.example>` });
      ids.push(threadId);
    }
    const place = await setUp(app);
    expect(await place.sync()).toBe("0");
    expect(place.names("Inbox")).toHaveLength(MANY);
    expect(await place.sync()).toBe("0");
    expect(place.names("Inbox")).toHaveLength(MANY);

    // Here: one is archived, one read. There: one is read, one deleted, one new.
    const subjects = new Map<string, string>();
    for (const name of place.names("Inbox")) {
      const text = await Bun.file(place.path("Inbox", name)).text();
      subjects.set(/^Subject: (.*?)\r?$/m.exec(text)?.[1] ?? "", name);
    }
    expect(subjects.size).toBe(MANY);
    const at = (i: number) => place.path("Inbox", subjects.get(`Message ${i}`) ?? "?");
    await app.api.patch(`/threads/${ids[0]}`, { folder: "archive" });
    await app.api.patch(`/threads/${ids[1]}`, { unread: false });
    const read = at(2);
    renameSync(read, `${read.replace("/new/", "/cur/").replace(/:2,.*$/, "")}:2,S`);
    rmSync(at(3));
    writeFileSync(join(read, "../../cur/1.made.here:2,S"), letter({ subject: "Made there", messageId: "<new@x>" }));
    expect(await place.sync()).toBe("0");

    expect(place.names("Inbox")).toHaveLength(MANY - 1);
    expect(place.names("Archive")).toHaveLength(1);
    expect(await place.sync()).toBe("0");
    expect(place.names("Trash")).toHaveLength(1);
    const found = async (query: string) =>
      (
        await app.api.get<{ threads: { subject: string }[] }>(`/search?q=${encodeURIComponent(query)}`)
      ).body.threads.map(({ subject }) => subject);
    expect((await found("in:trash")).join()).toBe("Message 3");
    expect((await found("subject:there in:inbox")).join()).toBe("Made there");
    const { body } = await app.api.get<{ thread: { unread: boolean } }>(`/threads/${ids[2]}`);
    expect(body.thread.unread).toBe(false);
    expect(at(1)).toMatch(/:2,S$/);
  },
  240_000,
);
