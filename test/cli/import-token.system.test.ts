/** `mailroom import --imap … --token-command`: accounts on servers that take access tokens alone. */
import { Database } from "bun:sqlite";
import { beforeAll, expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { temporaryFolder } from "../harness/folder.ts";
import { letter } from "../harness/mail/mail.ts";
import { makeChain } from "../harness/peers/certificate-chain.ts";
import { type ImapAnswer, startImapServer } from "../harness/peers/imap-server.ts";
import { openSetUp, openTerminal } from "../harness/servers/terminal.ts";

const HOST = "localhost";
const MESSAGES = [1, 2, 3].map((n) => letter({ subject: `Message ${n}`, messageId: `<${n}@old.example>` }));
let chain: Awaited<ReturnType<typeof makeChain>>;
beforeAll(async () => {
  chain = await makeChain(HOST);
});

/** A server with these mechanisms that takes the tokens of `isValid`. */
function server(
  mechanisms: string,
  isValid: (given: string) => boolean,
  answers: Readonly<Record<string, ImapAnswer>> = {},
) {
  const given: string[] = [];
  return startImapServer({
    pair: chain.pair,
    messages: MESSAGES,
    answers: {
      CAPABILITY: { lines: [`* CAPABILITY IMAP4rev1 SASL-IR ${mechanisms}`] },
      AUTHENTICATE({ tag, line, write, socket }) {
        const [, mechanism = "", encoded = ""] = line.split(" ");
        const said = Buffer.from(encoded, "base64").toString();
        given.push(`${mechanism} ${said.replaceAll("\u0001", "|")}`);
        if (isValid(said)) write(`${tag} OK welcome\r\n`);
        else {
          write(`+ ${Buffer.from('{"status":"invalid_token"}').toString("base64")}\r\n`);
          socket.once("data", () => write(`${tag} NO [AUTHENTICATIONFAILED] refused\r\n`));
        }
      },
      ...answers,
    },
  }).then((started) => Object.assign(started, { given }));
}

/** A command that prints `token-1`, then `token-2`, and so on. */
function counting(): string {
  const folder = temporaryFolder();
  writeFileSync(join(folder, "count"), "0");
  writeFileSync(
    join(folder, "token"),
    `n=$(($(cat "${folder}/count") + 1)); printf %s $n >"${folder}/count"; echo "token-$n"; echo "expires in an hour"`,
  );
  return `sh ${folder}/token`;
}

async function importing(port: number, ...args: string[]) {
  const { data } = await openSetUp();
  // Waits before another attempt are over at once.
  const setTimer = (wake: () => void, ms: number) => {
    const timer = setTimeout(wake, ms > 2_000 ? ms : 1);
    return () => clearTimeout(timer);
  };
  const terminal = openTerminal({
    data,
    runtime: { authorities: [chain.authority], setTimer },
    interrupted: new Promise(() => {}),
  });
  const url = `imaps://ada%40old.example@${HOST}:${port}`;
  const said = await terminal.say("import", "--mailbox", "ada@acme.test", "--imap", url, ...args, "--json");
  return { ...said, data };
}

const subjectsIn = (data: string): string[] => {
  using db = new Database(join(data, "mailroom.db"), { readonly: true });
  return db
    .query<{ subject: string }, []>("SELECT subject FROM messages ORDER BY subject")
    .all()
    .map(({ subject }) => subject);
};
const ALL = ["Message 1", "Message 2", "Message 3"];

test.each([
  ["AUTH=XOAUTH2", "XOAUTH2 user=ada@old.example|auth=Bearer token-1||"],
  ["AUTH=OAUTHBEARER", /^OAUTHBEARER n,a=ada@old\.example,\|host=localhost\|port=\d+\|auth=Bearer token-1\|\|$/],
])(
  "%s: the token that the command prints signs in",
  async (mechanism, expected) => {
    const account = await server(mechanism, () => true);
    const said = await importing(account.port, "--token-command", counting());
    expect(said).toMatchObject({ exitCode: 0 });
    expect(account.given).toEqual([typeof expected === "string" ? expected : expect.stringMatching(expected)]);
    expect(subjectsIn(said.data)).toEqual(ALL);
    expect(said.stdout + said.stderr).not.toContain("token-1");
  },
  120_000,
);

test("a token that expires while mail is read is asked for anew", async () => {
  let isExpired = false;
  let valid = "token-1";
  const account = await server("AUTH=XOAUTH2", (given) => given.includes(`Bearer ${valid}\u0001`), {
    "UID SEARCH"({ tag, write, socket }) {
      if (!isExpired) {
        isExpired = true;
        // The command may have the old one once more.
        valid = "token-3";
        write("* BYE Session expired, please login again.\r\n");
        socket.end();
        return;
      }
      write(`* SEARCH 1 2 3\r\n${tag} OK done\r\n`);
    },
  });
  const said = await importing(account.port, "--token-command", counting());
  expect(said).toMatchObject({ exitCode: 0 });
  expect(account.given.map((given) => /token-\d/.exec(given)?.[0])).toEqual(["token-1", "token-2", "token-3"]);
  expect(subjectsIn(said.data)).toEqual(ALL);
}, 120_000);

test.each([
  ["exit 7", /--token-command failed \(exit 7\)/],
  ["echo", /--token-command printed no token/],
  ["echo 'a token'", /--token-command printed no token/],
  ["yes secret", /--token-command printed too much/],
])(
  "a command that gives none: %s",
  async (command, says) => {
    const account = await server("AUTH=XOAUTH2", () => true);
    const said = await importing(account.port, "--token-command", command);
    expect(said.exitCode).toBe(1);
    expect(said.stderr).toMatch(says);
    expect(said.stderr).not.toContain("secret");
    expect(account.given).toEqual([]);
  },
  120_000,
);

test("a refused token, and a server that takes none, are said", async () => {
  const refusing = await server("AUTH=XOAUTH2", () => false);
  expect(await importing(refusing.port, "--token-command", counting())).toMatchObject({
    exitCode: 1,
    stderr: expect.stringContaining("localhost refuses the user ada@old.example or the token"),
  });
  const none = await server("AUTH=PLAIN", () => true);
  expect(await importing(none.port, "--token-command", counting())).toMatchObject({
    exitCode: 1,
    stderr: expect.stringContaining("localhost takes no tokens: it offers neither OAUTHBEARER nor XOAUTH2"),
  });
}, 120_000);

test("a password and a token are one too many, and neither is too few", async () => {
  const account = await server("AUTH=XOAUTH2", () => true);
  for (const args of [[], ["--password-stdin", "--token-command", "echo x"]]) {
    expect(await importing(account.port, ...args)).toMatchObject({
      exitCode: 2,
      stderr: expect.stringContaining("--password-stdin, or a command that prints a token, with --token-command"),
    });
  }
  expect(account.connections).toBe(0);
}, 120_000);
