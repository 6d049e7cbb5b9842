/** Files that root names on the command line: root's own rights open them, and nobody gets root to open others. */
import { beforeAll, describe, expect, test } from "bun:test";
import {
  chmodSync,
  chownSync,
  lchownSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { temporaryFolder } from "../harness/folder.ts";
import { zip } from "../harness/mail/documents.ts";
import { letter } from "../harness/mail/mail.ts";
import { type Place, PROGRAM, run, runJson } from "../harness/servers/process.ts";
import { mboxEntry } from "../harness/servers/transfer-rig.ts";

const isRoot = process.getuid?.() === 0;
/** Debian's user nobody. */
const OWNER = 65_534;
const INTO = ["--mailbox", "ada@acme.test"];

/** A file of root's that nobody else may reach. */
function secretly(name: string, content: string): string {
  const path = join(temporaryFolder(), name);
  writeFileSync(path, content, { mode: 0o600 });
  return path;
}

/** A link as the owner of the data folder plants it. */
function plant(target: string, path: string): string {
  symlinkSync(target, path);
  lchownSync(path, OWNER, OWNER);
  return path;
}

describe.skipIf(!isRoot)(`what root names${isRoot ? "" : " (only as root)"}`, () => {
  let place: Place;
  let workspace: string;

  beforeAll(async () => {
    place = { data: temporaryFolder() };
    chownSync(place.data, OWNER, OWNER);
    await runJson(place, "setup", "--domain", "acme.test", "--email", "ada@acme.test", "--name", "Ada");
    [{ name: workspace = "" } = {}] = await runJson<{ name?: string }[]>(place, "workspace", "list");
  }, 120_000);

  const ask = (...args: string[]) => runJson<Record<string, unknown>>(place, ...args);

  test("is read: a file, and a Maildir, that are closed to others", async () => {
    const mbox = secretly("old.mbox", mboxEntry(letter({ subject: "In root's file" })));
    const maildir = join(temporaryFolder(), "Maildir");
    for (const folder of ["cur", "new", ".Work/cur"])
      mkdirSync(join(maildir, folder), { recursive: true, mode: 0o700 });
    for (const [name, subject] of [
      ["cur/1.a:2,S", "Read"],
      ["new/2.b", "New"],
      [".Work/cur/3.c:2,", "Work"],
    ] as const) {
      writeFileSync(join(maildir, name), letter({ subject }), { mode: 0o600 });
    }
    expect(await ask("import", ...INTO, mbox, maildir)).toMatchObject({ imported: 4, failed: 0 });
    const packed = join(temporaryFolder(), "same.zip");
    const mail = { name: "Mail/old.mbox", content: readFileSync(mbox) };
    writeFileSync(packed, zip([mail]), { mode: 0o600 });
    expect(await ask("import", ...INTO, packed)).toMatchObject({ imported: 0, skipped: 1, failed: 0 });
    const paths = readdirSync(place.data, { recursive: true, encoding: "utf8" });
    expect(paths.filter((path) => statSync(join(place.data, path)).uid !== OWNER)).toEqual([]);
  }, 120_000);

  test("is written, and belongs to root", async () => {
    const folder = temporaryFolder();
    const path = join(folder, "ada.mbox");
    expect(await ask("export", ...INTO, "--to", path)).toMatchObject({ messages: 4, to: path });
    expect(readdirSync(folder)).toEqual(["ada.mbox"]);
    expect(statSync(path)).toMatchObject({ uid: 0, gid: 0, mode: 0o100600 });
    expect(readFileSync(path, "utf8")).toContain("Subject: In root's file");
    expect(await run(place, ["export", ...INTO, "--to", path])).toMatchObject({
      exitCode: 1,
      stderr: expect.stringContaining("exists: name another file"),
    });
  }, 120_000);

  test("is no link that the server's user planted, neither in a path nor at its end", async () => {
    const secret = secretly("secret.mbox", mboxEntry(letter({ subject: "Root's secret" })));
    const elsewhere = temporaryFolder();
    const inside = join(temporaryFolder(), "mail");
    mkdirSync(inside);
    plant(secret, join(inside, "linked.mbox"));
    const links = {
      file: plant(secret, join(place.data, "in.mbox")),
      folder: plant(join(secret, ".."), join(place.data, "in")),
    };
    for (const path of [links.file, links.folder, join(links.folder, "secret.mbox")]) {
      const said = await run(place, ["import", ...INTO, path, "--json"]);
      expect([path, said.exitCode, JSON.parse(said.stdout).imported]).toEqual([path, 1, 0]);
      expect(said.stdout).toContain("is a link of another user, which root does not follow");
    }
    expect(await ask("import", ...INTO, inside)).toMatchObject({ imported: 0, failed: 0 });
    const throughRoots = join(temporaryFolder(), "roots");
    symlinkSync(links.folder, throughRoots);
    const behind = await run(place, ["import", ...INTO, join(throughRoots, "secret.mbox"), "--json"]);
    expect([behind.exitCode, behind.stdout]).toEqual([
      1,
      expect.stringContaining(`${links.folder} is a link of another user`),
    ]);
    plant(elsewhere, join(place.data, "out"));
    for (const args of [
      ["export", ...INTO, "--to", join(place.data, "out/ada.mbox")],
      ["backup", "key", join(place.data, "out/key.txt")],
      ["workspace", "export", workspace, "--to", join(place.data, "out/acme")],
    ]) {
      const said = await run(place, args);
      expect([args[0], said.exitCode]).toEqual([args[0], 1]);
      expect(said.stderr).toContain("is a link of another user, which root does not follow");
    }
    expect(readdirSync(elsewhere)).toEqual([]);
    for (const link of [links.file, links.folder, join(place.data, "out")]) rmSync(link);
  }, 120_000);

  test("is read also where it is small: a policy, and a private key", async () => {
    const policy = secretly("policy.json", '{"recipientsPerDay":3}');
    const key = ["key", "create", "--user", "ada@acme.test", "--name", "K", "--scopes", "read", "--policy", policy];
    expect(await ask(...key)).toMatchObject({ policy: { recipientsPerDay: 3 } });
    const identity = join(temporaryFolder(), "key.txt");
    await ask("backup", "key", identity);
    expect(statSync(identity)).toMatchObject({ uid: 0, mode: 0o100600 });
    const none = temporaryFolder();
    chmodSync(none, 0o755);
    expect(await run(place, ["workspace", "import", none, "--identity", identity])).toMatchObject({
      exitCode: 1,
      stderr: expect.stringMatching(/is no export of a workspace/),
    });
  }, 120_000);

  test("is run, where it is a command for tokens", async () => {
    const ran = join(temporaryFolder(), "ran");
    const account = ["--imap", "imaps://ada@127.0.0.1:9", "--token-command", `id -u >${ran}; exit 7`];
    const said = await run(place, ["import", ...INTO, ...account]);
    expect(said.exitCode).toBe(1);
    expect(said.stderr).toContain("--token-command failed (exit 7)");
    expect(readFileSync(ran, "utf8")).toBe("0\n");
  }, 120_000);

  test("is a folder for a workspace: made for the server's user, or it is said that this user cannot go there", async () => {
    const open = temporaryFolder();
    chmodSync(open, 0o755);
    expect(await ask("workspace", "export", workspace, "--to", join(open, "acme"))).toMatchObject({ name: workspace });
    expect(statSync(join(open, "acme"))).toMatchObject({ uid: OWNER, mode: 0o040700 });
    const nowhere = join(temporaryFolder(), "no/acme");
    expect((await run(place, ["workspace", "export", workspace, "--to", nowhere])).stderr).toContain(
      "is closed to nobody",
    );
    const closed = join(temporaryFolder(), "acme");
    const said = await run(place, ["workspace", "export", workspace, "--to", closed]);
    expect(said).toMatchObject({ exitCode: 1, stdout: "" });
    expect(said.stderr).toMatch(/acme.* is closed to nobody, as whom root runs this command: name a place/);
  }, 120_000);

  test("is opened by the command of an installation, too, and nothing else is done as root", async () => {
    const folder = temporaryFolder();
    chmodSync(folder, 0o755);
    const file = (name: string, text: string, mode: number): string => {
      writeFileSync(join(folder, name), text, { mode });
      return join(folder, name);
    };
    const executable = file("executable", `#!/bin/sh\nexec ${PROGRAM.join(" ")} "$@"\n`, 0o755);
    const environment = file("mailroom.env", `MAILROOM_DATA=${place.data}\nMAILROOM_LOG="error"\n`, 0o600);
    const installed = readFileSync(join(import.meta.dir, "../../packaging/mailroom"), "utf8")
      .replace("environment=/etc/mailroom/mailroom.env", `environment=${environment}`)
      .replace("executable=/usr/local/lib/mailroom/mailroom", `executable=${executable}`)
      .replace("user=mailroom", "user=nobody");
    const root: Place = { data: place.data, program: ["/bin/bash", file("mailroom", installed, 0o755)], cwd: "/" };
    const mbox = secretly("more.mbox", mboxEntry(letter({ subject: "By the wrapper" })));
    expect(await runJson(root, "import", ...INTO, mbox)).toMatchObject({ imported: 1 });
    const exported = join(temporaryFolder(), "ada.mbox");
    expect(await runJson(root, "export", ...INTO, "--to", exported)).toMatchObject({ messages: 5 });
    expect(statSync(exported).uid).toBe(0);
    const paths = readdirSync(place.data, { recursive: true, encoding: "utf8" });
    expect(paths.filter((path) => lstatSync(join(place.data, path)).uid !== OWNER)).toEqual([]);
  }, 120_000);
});
