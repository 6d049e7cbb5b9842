/** Reading a command line: what is wrong usage (exit 2), what is refused (exit 1), and what help says. */
import { expect, test } from "bun:test";
import { existsSync, mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { build, version } from "../../src/base/version.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { openSetUp, openTerminal, type Said } from "../harness/servers/terminal.ts";

const WRONG_USAGE: [line: string, says: RegExp][] = [
  ["", /^mailroom: name a command:\n/],
  ["frobnicate", /there is no command "frobnicate"/],
  ["domain", /name a command:\n[\s\S]*mailroom domain add/],
  ["domain frobnicate", /there is no command "domain frobnicate"/],
  ["frobnicate list", /there is no command "frobnicate"/],
  ["workspace rename Acme", /there is no command "workspace rename"/],
  ["workspace pause Acme", /--reason is missing\nusage: mailroom workspace pause NAME --reason REASON/],
  ["mailbox pause x@acme.test", /--reason is missing/],
  ["mailbox resume x@acme.test --reason y", /--reason/],
  ["suppression add", /ADDRESS is missing/],
  ["queue retry", /ID is missing/],
  ["queue list que_1", /"que_1" is one argument too many/],
  ["domain add", /DOMAIN is missing\nusage: mailroom domain add DOMAIN \[--workspace NAME\]/],
  ["domain add a.test b.test", /"b\.test" is one argument too many/],
  ["domain list --frob", /--frob/],
  ["domain list --json=yes", /--json/],
  ["workspace list --workspace Acme", /--workspace/],
  ["user add x@acme.test --role member", /--name is missing/],
  ["user add x@acme.test --name", /--name/],
  ["user add x@acme.test --name X --role member --password-hash $6$x", /--password-hash is "\$6\$x": give -/],
  ["user add x@acme.test --name X --role boss", /--role is "boss": give one of owner, admin, member/],
  ["user role x@acme.test boss", /"boss": give one of owner, admin, member/],
  ["mailbox alias x@acme.test", /add\|remove is missing/],
  ["mailbox alias x@acme.test toggle y@acme.test", /"toggle": give one of add, remove/],
  ["mailbox grant x@acme.test --to y@acme.test --access all", /--access is "all": give one of view, send, full/],
  ["mailbox quota x@acme.test 5TB", /"5TB" is no quota: give a whole number of bytes, or a number with kB, MB, GB/],
  ["mailbox quota x@acme.test 9007199254740993", /"9007199254740993" is no quota/],
  ["mailbox quota x@acme.test -5", /"-5" is no quota/],
  [
    "key create --user x@acme.test --name K --scopes read,all",
    /--scopes is "all": give one of read, send, write, admin/,
  ],
  ["key create --user x@acme.test --name K --scopes=", /--scopes is ""/],
  ["setup --domain acme.test", /--email is missing/],
  ["settings set api.cooldownSeconds", /VALUE is missing/],
];

test.each(WRONG_USAGE)("wrong usage: mailroom %s", async (line, says) => {
  const { say, data } = openTerminal();
  const said = await say(...(line === "" ? [] : line.split(" ")));
  expect(said.stderr).toMatch(says);
  expect(said.stderr).toStartWith("mailroom: ");
  expect(said).toMatchObject({ exitCode: 2, stdout: "" });
  expect(existsSync(join(data, "mailroom.db"))).toBe(line.includes("quota x@acme.test"));
});

test.each([
  [{ MAILROOM_MX: "nonsense" }, /^mailroom: MAILROOM_MX is "nonsense": give host:port/],
  [{ MAILROOM_SUBMISSION: "1" }, /MAILROOM_SUBMISSION is "1"/],
  [{ MAILROOM_SUBMISSIONS: "x:99999" }, /MAILROOM_SUBMISSIONS is "x:99999"/],
  [{ MAILROOM_TLS: "acme", MAILROOM_HTTP: "off" }, /MAILROOM_TLS=acme needs MAILROOM_HTTP/],
  [
    { MAILROOM_TLS: "acme", MAILROOM_ACME_CHALLENGE: "dns-update:ns.example.net,/etc/mailroom/tsig.key" },
    /^mailroom: MAILROOM_ACME_CHALLENGE is "dns-update:.*: give dns-hook:\/PATH of packaging\/nsupdate-hook/,
  ],
  [{ MAILROOM_LOG: "loud" }, /MAILROOM_LOG/],
])("a bad environment: %p", async (env, says) => {
  const { say, data } = openTerminal({ env });
  for (const line of [["serve"], ["user", "list"]]) {
    const said = await say(...line);
    expect(said.stderr).toMatch(says);
    expect(said).toMatchObject({ exitCode: 2, stdout: "" });
  }
  expect(readdirSync(data)).toEqual([]);
});

const REFUSED: [line: string, says: RegExp][] = [
  ["setup --domain acme.test --email bob@acme.test --name Bob", /there is a workspace already/],
  ["domain add acme.test", /acme\.test is here already/],
  ["domain verify other.test", /there is no domain other\.test/],
  ["domain remove acme.test", /in use by ada@acme\.test/],
  ["user add ada@acme.test --name Ada --role member", /there is a user ada@acme\.test already/],
  ["user add x@other.test --name X --role member", /other\.test is not a domain of this workspace/],
  ["user add nonsense --name X --role member", /"nonsense" is not an address/],
  ["user role ada@acme.test member", /last owner/],
  ["user remove ada@acme.test", /last owner/],
  ["user remove bob@acme.test", /there is no user bob@acme\.test/],
  ["user list --workspace Nowhere", /there is no workspace Nowhere/],
  ["mailbox remove bob@acme.test", /there is no mailbox bob@acme\.test/],
  ["mailbox grant ada@acme.test --to bob@acme.test --access view", /there is no user bob@acme\.test in the workspace/],
  ["mailbox grant ada@acme.test --to nobody --access view", /there is no user "nobody" in the workspace/],
  ["mailbox grant eve@acme.test --to bob@acme.test --access view", /there is no mailbox eve@acme\.test/],
  ["mailbox add x@acme.test --name X --owner bob@acme.test", /there is no user "bob@acme\.test" in the workspace/],
  ["mailbox revoke ada@acme.test --from ada@acme.test", /not shared with that user/],
  ["mailbox pause bob@acme.test --reason x", /there is no mailbox bob@acme\.test/],
  ["mailbox pause ada@acme.test --reason=", /give a reason of 1 to 500 characters/],
  ["workspace pause Nowhere --reason x", /there is no workspace Nowhere/],
  ["workspace resume Nowhere", /there is no workspace Nowhere/],
  ["suppression add nonsense", /"nonsense" is not an address/],
  ["suppression add x@remote.example --reason=", /give a reason/],
  ["suppression remove x@remote.example", /x@remote\.example is not suppressed/],
  ["queue retry que_nothing", /There is no queue entry que_nothing/],
  ["queue cancel que_nothing", /There is no queue entry que_nothing/],
  ["key revoke key_nothing", /there is no key key_nothing/],
  ["key create --user bob@acme.test --name K --scopes read", /there is no user bob@acme\.test/],
  ["settings get no.such", /there is no setting "no\.such"/],
  ["settings set no.such 1", /there is no setting "no\.such"/],
  ["settings set api.cooldownSeconds soon", /cannot be "soon": give a number \(seconds\), 0 to/],
  ["settings set api.keyRequestsPerMinute -1", /keyRequestsPerMinute cannot be "-1": give a whole number/],
  ["settings set search.engine grep", /cannot be "grep": give one of fts5, meilisearch/],
  ["settings set search.meilisearchKey ü", /meilisearchKey cannot be that/],
  ["settings reset no.such", /there is no setting/],
];

test("a refusal exits with 1 and the reason on stderr", async () => {
  const { say } = await openSetUp();
  for (const [line, says] of REFUSED) {
    const said = await say(...line.split(" "));
    expect([line, said.stderr]).toEqual([line, expect.stringMatching(says)]);
    expect([line, said.stderr]).toEqual([line, expect.stringMatching(/^mailroom: .+\n$/)]);
    expect([line, said.exitCode, said.stdout]).toEqual([line, 1, ""]);
  }
});

test("an impossible data folder is refused", async () => {
  const { say, data } = openTerminal();
  writeFileSync(join(data, "file"), "");
  const elsewhere = openTerminal({ env: { MAILROOM_DATA: join(data, "file") } });
  const said = await elsewhere.say("user", "list");
  expect(said).toMatchObject({ exitCode: 1, stdout: "" });
  expect(said.stderr).toMatch(/^mailroom: .*file/);
  mkdirSync(join(data, "mailroom.db"));
  expect((await say("user", "list")).stderr).toMatch(/^mailroom: .+\n$/);
});

test.each([
  ["srve", "serve"],
  ["usr list", "user list"],
  ["mailbxo", "mailbox"],
  ["domian ad acme.test", "domain add"],
  ["domain ad acme.test", "domain add"],
  ["key craete --json", "key create"],
  ["exprt all.mbox", "export"],
  ["help doctr", "doctor"],
])("a mistyped command: mailroom %s", async (line, meant) => {
  const said = await openTerminal().say(...line.split(" "));
  expect(said).toMatchObject({ exitCode: 2, stdout: "" });
  expect(said.stderr).toMatch(/^mailroom: there is no command ".+"/);
  expect(said.stderr).toEndWith(`: did you mean "${meant}"?\n`);
});

test.each([
  ["frobnicate", "see mailroom --help"],
  ["webhook create", "see mailroom webhook --help"],
])("what resembles no command gets no suggestion: mailroom %s", async (line, says) => {
  expect((await openTerminal().say(...line.split(" "))).stderr).toEndWith(`: ${says}\n`);
});

test("-h and help COMMAND are --help, --version is version", async () => {
  const { say, data } = openTerminal();
  const same = async (...lines: string[]) => {
    const [first, ...others] = await Promise.all(lines.map((line) => say(...line.split(" "))));
    expect(first).toMatchObject({ exitCode: 0, stderr: "" });
    for (const said of others) expect(said).toEqual(first as Said);
  };
  await same("--help", "-h", "help");
  await same("user --help", "user -h", "help user");
  await same("key create --help", "-h key create", "key create -h", "help key create", "help key create --json");
  await same("version", "--version");
  await same("version --json", "--version --json", "--json --version");
  expect(readdirSync(data)).toEqual([]);
});

test("the examples of the help work, one after the other", async () => {
  const { say } = openTerminal();
  const { stdout } = await say("--help");
  const examples = [...(stdout.split("\nExamples:\n")[1] ?? "").matchAll(/^ {2}mailroom (.+)$/gm)];
  expect(examples.length).toBeGreaterThan(3);
  for (const [, line = ""] of examples) {
    const words = [...line.matchAll(/"([^"]*)"|(\S+)/g)].map(([, quoted, word]) => quoted ?? word ?? "");
    expect([line, await say(...words)]).toEqual([line, expect.objectContaining({ exitCode: 0, stderr: "" })]);
  }
});

test("a listing of a data folder that is not there lists nothing, makes nothing, and says so", async () => {
  const parent = temporaryFolder();
  const data = join(parent, "none");
  const { say, ask } = openTerminal({ data });
  const { stdout } = await say("--help");
  const lists = [...stdout.matchAll(/^ {2}mailroom (\w+ list) /gm)].map(([, name = ""]) => name);
  expect(lists).toContain("key list");
  for (const name of lists) {
    const said = await say(...name.split(" "), "--json");
    expect(said).toMatchObject({
      exitCode: 0,
      stderr: `mailroom: there is nothing in ${data} yet (MAILROOM_DATA names another data folder)\n`,
    });
    if (name !== "settings list") expect([name, said.stdout]).toEqual([name, "[]\n"]);
  }
  expect(await ask("settings", "get", "api.cooldownSeconds")).toMatchObject({ value: "60" });
  expect(readdirSync(parent)).toEqual([]);
  // As in a checkout.
  mkdirSync(data);
  writeFileSync(join(data, ".gitkeep"), "");
  await ask("key", "list");
  expect(readdirSync(data)).toEqual([".gitkeep"]);
  await ask("workspace", "add", "Acme");
  expect((await say("workspace", "list")).stderr).toBe("");
});

test("help comes from the table, whatever other arguments are missing or wrong", async () => {
  const { say, data } = openTerminal({ env: { MAILROOM_MX: "nonsense" } });
  const all = await say("--help");
  expect(all.exitCode).toBe(0);
  for (const name of [
    "serve",
    "setup",
    "domain verify",
    "mailbox quota",
    "key revoke",
    "queue retry",
    "suppression add",
    "settings reset",
    "version",
  ]) {
    expect(all.stdout).toContain(`mailroom ${name} `);
  }
  expect((await say("help")).stdout).toBe(all.stdout);
  const group = await say("user", "--help");
  expect(group.stdout).toContain("mailroom user role");
  expect(group.stdout).not.toContain("mailroom key");
  expect((await say("user", "add", "--frob", "--help")).exitCode).toBe(2);
  expect((await say("user", "add", "--role", "member", "--help")).exitCode).toBe(0);
  const described = await say("key", "create", "--help");
  expect(described.stdout).toContain("mailroom key create --user ADDRESS --name NAME --scopes read,send,write");
  expect(described).toMatchObject({ exitCode: 0, stderr: "" });
  expect(readdirSync(data)).toEqual([]);
});

test("version needs no data folder", async () => {
  const { say, ask, data } = openTerminal({ env: { MAILROOM_MX: "nonsense" } });
  expect((await say("version")).stdout).toBe(`${version}+${build}\n`);
  expect(await ask("version")).toMatchObject({ version, build });
  expect(readdirSync(data)).toEqual([]);
});

test("options may be anywhere, with = or without", async () => {
  const { say } = await openSetUp();
  const lines = [
    ["--json", "user", "add", "--role=member", "b@acme.test", "--name=B C"],
    ["user", "add", "--name", "D", "--json", "--role", "admin", "d@acme.test"],
    ["user", "add", "--no-mailbox", "--name", "E-", "--role", "owner", "--json", "--", "e@x.example"],
  ];
  const documents = [];
  for (const line of lines) {
    const said = await say(...line);
    expect(said).toMatchObject({ exitCode: 0, stderr: "" });
    documents.push(JSON.parse(said.stdout));
  }
  expect(documents).toMatchObject([
    { address: "b@acme.test", name: "B C", role: "member" },
    { address: "d@acme.test", name: "D", role: "admin" },
    { address: "e@x.example", name: "E-", role: "owner" },
  ]);
});
