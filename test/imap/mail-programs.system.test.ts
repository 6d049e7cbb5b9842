/** Programs of others that read mail: neomutt and aerc in a terminal, Evolution's library, and Python's imapclient. */
import { expect, test } from "bun:test";
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import * as people from "../../src/admin/people.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { installed, run } from "../harness/programs.ts";
import { type Booted, boot } from "../harness/servers/boot.ts";
import { until } from "../harness/until.ts";
import { arrive } from "./arrive.ts";

const neomutt = installed("neomutt");
const aerc = installed("aerc");
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
        `set ssl_force_tls=yes certificate_file="${join(app.opened.config.data, "tls/self-signed.pem")}"`,
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

test.skipIf(aerc.absent || script.absent)(
  `${aerc.named} searches, flags, files and shows messages, and waits for news`,
  async () => {
    const app = await bootFilled();
    const home = temporaryFolder();
    mkdirSync(join(home, ".config/aerc"), { recursive: true });
    const at = `alice%40example.test:${app.owner.apiKey}@localhost:${app.ready.imaps?.split(":")[1]}`;
    const account = `[mailroom]\nsource = imaps://${at}\nfrom = Alice <alice@example.test>\ndefault = INBOX\n`;
    writeFileSync(join(home, ".config/aerc/accounts.conf"), account, { mode: 0o600 });
    const child = Bun.spawn([script.path, "-qec", "stty rows 40 cols 120; exec aerc", "/dev/null"], {
      stdin: "pipe",
      stdout: "pipe",
      env: {
        ...{ PATH: process.env.PATH, TERM: "xterm", HOME: home },
        SSL_CERT_FILE: join(app.opened.config.data, "tls/self-signed.pem"),
      },
    });
    let shown = "";
    const whole = child.stdout.pipeThrough(new TextDecoderStream()).pipeTo(
      new WritableStream({
        write(text) {
          shown += text;
        },
      }),
    );
    const shows = (pattern: RegExp) => until(() => pattern.test(shown));
    /** Types a command; what is shown is from then on. */
    const type = (command: string): void => {
      shown = "";
      child.stdin.write(`:${command}\r`);
      child.stdin.flush();
    };
    await shows(/Message 29/);
    // It draws what it has found.
    type("search Message 11");
    await shows(/Message 11/);
    type("flag");
    await until(async () => (await subjectsIn(app, "is:starred")).join() === "Message 11");
    type("mv Archive");
    await until(async () => (await subjectsIn(app, "in:archive")).join() === "Message 11");
    await shows(/moved/);
    type("select 0");
    type("view");
    // It moves the cursor where a space is already.
    await shows(/Text\S*29/);
    type("close");
    type("delete-message");
    await until(async () => (await subjectsIn(app, "in:trash")).join() === "Message 29");
    await shows(/deleted\./);
    // It draws only the letters that differ from what was there.
    await arrive(app, { subject: "XYZXYZ" });
    await app.advance(1_000);
    await shows(/XYZXYZ/);
    type("quit");
    expect(await child.exited).toBe(0);
    await whole;
  },
  60_000,
);

/** Where Evolution is, if it is not installed. */
const EVOLUTION = process.env.MAILROOM_TEST_EVOLUTION ?? "/";
const PROVIDERS = join(EVOLUTION, "usr/lib/evolution-data-server/camel-providers");
/** Debian's, which has its bindings. */
const PYTHON = "/usr/bin/python3";
const BINDINGS = "import gi; gi.require_version('Camel', '1.2'); from gi.repository import Camel";
const hasCamel =
  existsSync(join(PROVIDERS, "libcamelimapx.so")) &&
  existsSync(PYTHON) &&
  (await run([PYTHON, "-c", BINDINGS])).exitCode === 0;

const CAMEL = `
import gi, os, sys
gi.require_version("Camel", "1.2")
from gi.repository import Camel, Gio, GLib

home = os.environ["HOME"]
Camel.init(home, False)
Camel.provider_init()

class Session(Camel.Session):
    def do_authenticate_sync(self, service, mechanism, cancellable):
        service.set_password(os.environ["PASSWORD"])
        return service.authenticate_sync(mechanism, cancellable) == Camel.AuthenticationResult.ACCEPTED
    def do_trust_prompt(self, service, certificate, errors):
        return Camel.CertTrust.FULLY

session = Session(user_data_dir=home + "/data", user_cache_dir=home + "/cache", online=True)
store = session.add_service("mailroom", "imapx", Camel.ProviderType.STORE)
settings = store.ref_settings()
settings.set_property("host", "localhost")
settings.set_property("port", int(sys.argv[1]))
settings.set_property("user", "alice@example.test")
settings.set_property("security-method", Camel.NetworkSecurityMethod.SSL_ON_ALTERNATE_PORT)
settings.set_property("auth-mechanism", "PLAIN")
store.set_online_sync(True, None)
assert store.connect_sync(None)
store.get_folder_info_sync(None, Camel.StoreGetFolderInfoFlags.RECURSIVE, None)
inbox, archive, drafts, trash = [store.get_folder_sync(name, 0, None) for name in ("INBOX", "Archive", "Drafts", "Trash")]
inbox.refresh_info_sync(None)
assert inbox.get_message_count() == 30, inbox.get_message_count()

def subjects(folder):
    # Camel's lists of UIDs are freed twice in Python.
    infos = [(str(uid), folder.get_message_info(str(uid))) for uid in range(1, 50)]
    return {info.get_subject(): uid for uid, info in infos if info}

def uid_of(folder, subject):
    return subjects(folder)[subject]

def text_of(folder, uid):
    stream = Gio.MemoryOutputStream.new_resizable()
    folder.get_message_sync(uid, None).get_content().decode_to_output_stream_sync(stream, None)
    stream.close(None)
    return stream.steal_as_bytes().get_data().decode()

seven = uid_of(inbox, "Message 7")
assert text_of(inbox, seven) == "Text 7\\n", repr(text_of(inbox, seven))
assert inbox.count_by_expression("(match-all (body-contains \\"Text 9\\"))", None) == 3
info = inbox.get_message_info(seven)
info.set_flags(Camel.MessageFlags.FLAGGED | Camel.MessageFlags.SEEN, Camel.MessageFlags.FLAGGED | Camel.MessageFlags.SEEN)
info.set_user_flag("work", True)
inbox.get_message_info(uid_of(inbox, "Message 8")).set_flags(Camel.MessageFlags.DELETED, Camel.MessageFlags.DELETED)
inbox.synchronize_sync(True, None)
moved, _ = inbox.transfer_messages_to_sync([uid_of(inbox, "Message 3")], archive, True, None)
archive.refresh_info_sync(None)
assert text_of(archive, uid_of(archive, "Message 3")) == "Text 3\\n"
trash.refresh_info_sync(None)
uid_of(trash, "Message 8")

draft = Camel.MimeMessage.new()
draft.set_subject("A draft")
address = Camel.InternetAddress.new()
address.add("Alice", "alice@example.test")
draft.set_from(address)
content = b"Hi\\n"
draft.set_content(content, "text/plain")
flags = Camel.MessageInfo.new(None)
flags.set_flags(Camel.MessageFlags.DRAFT, Camel.MessageFlags.DRAFT)
drafts.append_message_sync(draft, flags, None)

loop = GLib.MainLoop()
inbox.refresh_info_sync(None)
def changed(folder, changes):
    if "News" in subjects(folder):
        loop.quit()
inbox.connect("changed", changed)
print("waits", flush=True)
GLib.timeout_add_seconds(30, loop.quit)
loop.run()
assert text_of(inbox, uid_of(inbox, "News")) == "It is new\\n"
store.disconnect_sync(True, None)
print("done")
`;

test.skipIf(!hasCamel)(
  `Evolution's library${hasCamel ? "" : " (not installed)"} lists, fetches, searches, labels, files, deletes, appends and waits`,
  async () => {
    const app = await bootFilled();
    const child = Bun.spawn([PYTHON, "-c", CAMEL, app.ready.imaps?.split(":")[1] ?? ""], {
      env: {
        ...process.env,
        HOME: temporaryFolder(),
        PASSWORD: app.owner.apiKey,
        EDS_CAMEL_PROVIDER_DIR: PROVIDERS,
        GSETTINGS_SCHEMA_DIR: join(EVOLUTION, "usr/share/glib-2.0/schemas"),
        // Without a desktop.
        GSETTINGS_BACKEND: "memory",
        GIO_USE_NETWORK_MONITOR: "base",
      },
      stdout: "pipe",
      stderr: "pipe",
    });
    let out = "";
    const whole = child.stdout.pipeThrough(new TextDecoderStream()).pipeTo(
      new WritableStream({
        write(text) {
          out += text;
        },
      }),
    );
    const errors = new Response(child.stderr).text();
    await Promise.race([until(() => out.includes("waits\n")), child.exited]);
    await arrive(app, { subject: "News", text: "It is new" });
    await app.advance(1_000);
    expect({ exitCode: await child.exited, errors: await errors }).toMatchObject({ exitCode: 0 });
    await whole;
    expect(out).toBe("waits\ndone\n");
    expect(await subjectsIn(app, "is:starred")).toEqual(["Message 7"]);
    expect(await subjectsIn(app, "label:work")).toEqual(["Message 7"]);
    expect(await subjectsIn(app, "in:archive")).toEqual(["Message 3"]);
    expect(await subjectsIn(app, "in:trash")).toEqual(["Message 8"]);
    expect(await subjectsIn(app, "in:drafts")).toEqual(["A draft"]);
  },
  60_000,
);

const CLIENT = `
import imapclient, os, ssl, sys
c = imapclient.IMAPClient("127.0.0.1", port=int(sys.argv[1]), ssl_context=ssl._create_unverified_context())
c.login("alice@example.test", os.environ["PASSWORD"])
assert c.namespace().personal[0][1] == "/"
assert [name for _, _, name in c.list_folders()] == ["Labels", "INBOX", "Archive", "Drafts", "Junk", "Sent", "Trash"]
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
assert "Labels/work" in [name for _, _, name in c.list_folders()]
c.create_folder("Labels/Müll & mehr")
assert "Labels/Müll & mehr" in [name for _, _, name in c.list_folders("Labels")]
[other] = c.search(["SUBJECT", "Message 9"])
c.copy([other], "Labels/Müll & mehr")
c.rename_folder("Labels/Müll & mehr", "Labels/Rest")
assert c.select_folder("Labels/Rest")[b"EXISTS"] == 1
c.delete_messages(c.search()); c.expunge()
assert c.folder_status("Labels/Rest")[b"MESSAGES"] == 0
c.delete_folder("Labels/Rest")
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
    const {
      core: { store },
    } = app.opened;
    store.transact((tx) => people.setLabelFolders(tx, app.owner.userId, true));
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
