/** Programs of others that fetch mail: offlineimap, which copies both ways, and fetchmail, which takes it away. */
import { expect, test } from "bun:test";
import { readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { temporaryFolder } from "../harness/folder.ts";
import { letter } from "../harness/mail/mail.ts";
import { installed } from "../harness/programs.ts";
import { type Booted, boot } from "../harness/servers/boot.ts";
import { arrive } from "./arrive.ts";

const offlineimap = installed("offlineimap");
const fetchmail = installed("fetchmail");
const MANY = 30;

async function bootFilled() {
  const app = await boot({ MAILROOM_IMAPS: "127.0.0.1:0" });
  const threads: string[] = [];
  for (let i = 0; i < MANY; i++) {
    threads.push((await arrive(app, { subject: `Message ${i}`, messageId: `<m${i}@remote.example>` })).threadId);
  }
  const home = temporaryFolder();
  return {
    ...{ app, threads, home, port: app.ready.imaps?.split(":")[1] },
    certificate: join(app.opened.config.data, "tls/self-signed.pem"),
    /** Exit code, and what it said if that is not 0. */
    async run(...command: string[]): Promise<string> {
      const env = { PATH: process.env.PATH, HOME: home, USER: "alice" };
      const child = Bun.spawn(command, { env, stdin: "ignore", stdout: "pipe", stderr: "pipe" });
      const said = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()]);
      return (await child.exited) === 0 ? "0" : said.join("");
    },
  };
}

const subjectsIn = async ({ api }: Booted, query: string): Promise<string[]> => {
  const { body } = await api.get<{ threads: { subject: string }[] }>(`/search?q=${query}&limit=100`);
  return body.threads.map(({ subject }) => subject);
};

const subjectOf = (text: string): string => /^Subject: (.*?)\r?$/m.exec(text)?.[1] ?? "";

test.skipIf(offlineimap.absent)(
  `${offlineimap.named} copies both ways, and again after changes on both sides`,
  async () => {
    const { app, threads, home, port, certificate, run } = await bootFilled();
    const account = [
      `[general]\naccounts = mailroom\nmetadata = ${home}/metadata`,
      "[Account mailroom]\nlocalrepository = near\nremoterepository = far",
      `[Repository near]\ntype = Maildir\nlocalfolders = ${home}/mail`,
      `[Repository far]\ntype = IMAP\nremotehost = localhost\nremoteport = ${port}\nssl = yes\nsslcacertfile = ${certificate}`,
      `remoteuser = alice@example.test\nremotepass = ${app.owner.apiKey}\ncreatefolders = False\n`,
    ];
    writeFileSync(join(home, "offlineimaprc"), account.join("\n"));
    const sync = () => run(offlineimap.path, "-c", join(home, "offlineimaprc"), "-u", "quiet");
    /** Paths by subject. */
    const mail = (folder: string): Map<string, string> =>
      new Map(
        ["cur", "new"].flatMap((part) =>
          readdirSync(join(home, "mail", folder, part)).map((name): [string, string] => {
            const path = join(home, "mail", folder, part, name);
            return [subjectOf(readFileSync(path, "utf8")), path];
          }),
        ),
      );
    expect(await sync()).toBe("0");
    const before = mail("INBOX");
    expect(before.size).toBe(MANY);
    const at = (i: number): string => before.get(`Message ${i}`) ?? "";
    await app.api.patch(`/threads/${threads[0]}`, { folder: "archive" });
    renameSync(
      at(2),
      at(2)
        .replace("/new/", "/cur/")
        .replace(/,[A-Z]*$/, ",FS"),
    );
    rmSync(at(3));
    writeFileSync(
      join(home, "mail/INBOX/cur/1.made.there:2,S"),
      letter({ subject: "Made there", messageId: "<made@there.example>" }),
    );
    // The second copy brings what the first one moved to Trash.
    for (let round = 0; round < 2; round++) expect(await sync()).toBe("0");
    expect(["INBOX", "Archive", "Trash"].map((name) => mail(name).size)).toEqual([MANY - 1, 1, 1]);
    expect(await subjectsIn(app, "is:starred")).toEqual(["Message 2"]);
    expect(await subjectsIn(app, "in:trash")).toEqual(["Message 3"]);
    expect(await subjectsIn(app, "subject:there+in:inbox")).toEqual(["Made there"]);
  },
  60_000,
);

test.skipIf(fetchmail.absent)(
  `${fetchmail.named} fetches all, which then is in Trash`,
  async () => {
    const { app, home, port, certificate, run } = await bootFilled();
    const config = [
      `poll localhost protocol imap service ${port}`,
      `user "alice@example.test" password "${app.owner.apiKey}" ssl sslcertfile "${certificate}"`,
      `mda "cat >>${home}/mbox" nokeep fetchall`,
      "",
    ];
    writeFileSync(join(home, "fetchmailrc"), config.join("\n"), { mode: 0o600 });
    expect(await run(fetchmail.path, "-f", join(home, "fetchmailrc"), "--pidfile", join(home, "pid"))).toBe("0");
    const fetched = readFileSync(join(home, "mbox"), "utf8").match(/^Subject: .*$/gm);
    expect(fetched?.map(subjectOf)).toEqual(Array.from({ length: MANY }, (_, i) => `Message ${i}`));
    expect(await subjectsIn(app, "in:inbox")).toEqual([]);
    expect(await subjectsIn(app, "in:trash")).toHaveLength(MANY);
  },
  60_000,
);
