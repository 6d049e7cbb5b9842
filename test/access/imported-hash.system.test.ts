/** Passwords that came from Dovecot, at the program: each kind signs in, and is replaced by one of ours. */
import { Database } from "bun:sqlite";
import { expect, test } from "bun:test";
import { join } from "node:path";
import { createTransport } from "nodemailer";
import { page } from "../harness/clients/browser-session.ts";
import { imapAccount } from "../harness/clients/imap-client.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { imapsOf, type Place, run, runJson, type Served, serve } from "../harness/servers/process.ts";

const PASSWORD = "correct horse battery";
/** `doveadm pw -s SCHEME -p PASSWORD`, of Dovecot 2.3.19. */
const PEOPLE = {
  sha: "{SHA512-CRYPT}$6$foOIZmsNY5yEToG6$EDg1ugHZZ64mFVe.Iq5kOgiHuWHVf1n6QcQefqWFCkvAnitjMCdE.Nre4ZQNpvdRmKyfzresuiOkmIawRS1IL1",
  blf: "{BLF-CRYPT}$2y$05$btvKi3CrD6cb83lctokMc.TY4NexUFMd5q6XNFjLmxHTo1AG6G5ue",
  argon: "{ARGON2ID}$argon2id$v=19$m=65536,t=3,p=1$5MW0lkQUQDpgRzwUZTctGA$keVT/9Vw686fj8oBlcCupXd2GCJ5YsJEXmuRrwX095Q",
};

type SignIn = (server: Served, user: string, password: string) => Promise<boolean>;

const inBrowser: SignIn = async ({ http }, email, password) =>
  (await page({ http }).send("POST", "/sign-in", { email, password })).status === 204;

const overImap: SignIn = (server, user, password) =>
  imapAccount(imapsOf(server), user, `"${password}"`).then(
    (account) => {
      account.end();
      return true;
    },
    () => false,
  );

const overSubmission: SignIn = ({ submissions }, user, pass) =>
  createTransport({ ...submissions, secure: true, auth: { user, pass }, tls: { rejectUnauthorized: false } })
    .verify()
    .catch(() => false);

const WAYS: readonly SignIn[] = [inBrowser, overImap, overSubmission];

test("hashes of Dovecot sign in by each way, and the first sign-in replaces them", async () => {
  const place: Place = {
    data: temporaryFolder(),
    env: { MAILROOM_IMAPS: "127.0.0.1:0", MAILROOM_IMAP: "off", MAILROOM_HOSTNAME: "mail.acme.test" },
  };
  await runJson(place, "setup", "--domain", "acme.test", "--email", "ada@acme.test", "--name", "Ada");
  for (const [name, hash] of Object.entries(PEOPLE)) {
    const added = await run(
      place,
      ["user", "add", `${name}@acme.test`, "--name", name, "--role", "member", "--password-hash", "-"],
      `${hash}\n`,
    );
    expect(added).toMatchObject({ exitCode: 0, stderr: "" });
  }
  const server = await serve(place);
  const hashes = () => {
    using db = new Database(join(place.data, "mailroom.db"), { readonly: true });
    return Object.fromEntries(
      db
        .query<{ email: string; hash: string }, []>("SELECT email, password_hash AS hash FROM users ORDER BY email")
        .all()
        .map(({ email, hash }) => [email.split("@")[0], hash]),
    );
  };
  expect(hashes()).toMatchObject(PEOPLE);
  for (const [i, name] of Object.keys(PEOPLE).entries()) {
    const first = WAYS[i] as SignIn;
    expect([name, await first(server, `${name}@acme.test`, "another horse battery")]).toEqual([name, false]);
    expect(hashes()).toMatchObject({ [name]: PEOPLE[name as keyof typeof PEOPLE] });
    expect([name, await first(server, `${name}@acme.test`, PASSWORD)]).toEqual([name, true]);
    const replaced = hashes()[name];
    expect(replaced).toStartWith("$argon2id$v=19$m=32768,t=3,p=1$");
    for (const signIn of WAYS)
      expect([name, await signIn(server, `${name}@acme.test`, PASSWORD)]).toEqual([name, true]);
    expect(hashes()[name]).toBe(replaced);
  }
  await server.kill("SIGTERM");
}, 120_000);
