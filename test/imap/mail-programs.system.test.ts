/** Programs of others that read mail: neomutt in a terminal, and Python's imapclient. */
import { expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { type Booted, boot } from "../harness/appliance.ts";
import { arrive } from "../harness/arrive.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { installed, run } from "../harness/programs.ts";

const neomutt = installed("neomutt");
const script = installed("script");
const python = Bun.which("python3");
const hasClient = python !== null && (await run([python, "-c", "import imapclient"])).exitCode === 0;

async function bootFilled(): Promise<Booted> {
  const app = await boot({ MAILROOM_IMAPS: "127.0.0.1:0" });
  for (let i = 0; i < 30; i++) {
    await arrive(app, { subject: `Message ${i}`, text: `Text ${i}`, messageId: `<m${i}@remote.example>` });
  }
  return app;
}

const subjectsIn = async ({ api }: Booted, query: string): Promise<string[]> => {
  const { body } = await api.get<{ threads: { subject: string }[] }>(`/search?q=${query}`);
  return body.threads.map(({ subject }) => subject);
};

test.skipIf(neomutt.absent || script.absent)(
  `${neomutt.named} shows the list, flags a message and files another`,
  async () => {
    const app = await bootFilled();
    const folder = temporaryFolder();
    const server = `imaps://localhost:${app.ready.imaps?.split(":")[1]}/`;
    writeFileSync(
      join(folder, "muttrc"),
      [
        `set folder="${server}" spoolfile="+INBOX" header_cache="${folder}/cache"`,
        `set imap_user="alice@example.test" imap_pass="${app.owner.apiKey}"`,
        `set ssl_force_tls=yes certificate_file="${join(app.appliance.config.data, "tls/self-signed.pem")}"`,
        "set ssl_verify_dates=no ssl_verify_host=no confirmappend=no quit=yes delete=yes",
        "",
      ].join("\n"),
    );
    const keys = [
      "<search>~s Message.5$<enter><flag-message>",
      "<search>~s Message.3$<enter><save-message>=Archive<enter>",
      "<sync-mailbox><quit>",
    ].join("");
    // "exec" leaves no shell between the terminal and neomutt, whichever shell this machine has.
    const command = `exec neomutt -F ${folder}/muttrc -e 'push "${keys}"'`;
    const child = Bun.spawn([script.path, "-qec", command, "/dev/null"], {
      stdin: "pipe",
      stdout: "pipe",
      env: { ...process.env, TERM: "xterm", HOME: folder },
    });
    const shown = await new Response(child.stdout).text();
    expect({ exitCode: await child.exited, shown }).toMatchObject({
      exitCode: 0,
      shown: expect.stringContaining("Message 2"),
    });
    expect(await subjectsIn(app, "in:archive")).toEqual(["Message 3"]);
    expect(await subjectsIn(app, "is:starred")).toEqual(["Message 5"]);
  },
  120_000,
);

const CLIENT = `
import imapclient, os, ssl, sys
c = imapclient.IMAPClient("127.0.0.1", port=int(sys.argv[1]), ssl_context=ssl._create_unverified_context())
c.login("alice@example.test", os.environ["PASSWORD"])
assert c.namespace().personal[0][1] == "/"
assert [name for _, _, name in c.list_folders()] == ["INBOX", "Archive", "Drafts", "Junk", "Sent", "Trash"]
assert c.find_special_folder(b"\\\\Sent") == "Sent"
assert c.folder_status("INBOX")[b"UNSEEN"] == 30
assert c.select_folder("INBOX")[b"EXISTS"] == 30
[uid] = c.search(["SUBJECT", "Message 7"])
told = c.fetch([uid], ["ENVELOPE", "BODYSTRUCTURE", "RFC822.SIZE", "BODY.PEEK[TEXT]", "BODY.PEEK[]"])[uid]
assert told[b"ENVELOPE"].subject == b"Message 7", told
assert told[b"BODY[TEXT]"] == b"Text 7\\r\\n", told
assert told[b"RFC822.SIZE"] == len(told[b"BODY[]"]), told
assert told[b"BODYSTRUCTURE"][:2] == (b"text", b"plain"), told
assert set(c.add_flags([uid], [imapclient.SEEN, b"work"])[uid]) == {b"\\\\Seen", b"work"}
c.move([uid], "Archive")
c.append("Drafts", b"From: alice@example.test\\r\\nSubject: A draft\\r\\n\\r\\nHi\\r\\n", [imapclient.DRAFT])
c.idle(); c.idle_check(timeout=0.1); c.idle_done()
c.select_folder("Archive")
c.delete_messages(c.search()); c.expunge()
c.logout()
print("done")
`;

test.skipIf(!hasClient)(
  `imapclient${hasClient ? "" : " (not installed)"} lists, fetches, labels, moves, appends, waits and deletes`,
  async () => {
    const app = await bootFilled();
    const child = Bun.spawn(["python3", "-c", CLIENT, app.ready.imaps?.split(":")[1] ?? ""], {
      env: { ...process.env, PASSWORD: app.owner.apiKey },
      stdout: "pipe",
      stderr: "pipe",
    });
    const [out, errors] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()]);
    expect([errors, out]).toEqual(["", "done\n"]);
    expect(await subjectsIn(app, "in:trash")).toEqual(["Message 7"]);
    expect(await subjectsIn(app, "in:drafts")).toEqual(["A draft"]);
  },
  60_000,
);
