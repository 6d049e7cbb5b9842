/** Apple's configuration profile, and the files of discovery, as openssl and Python's plistlib and XML parser read them. */
import { describe, expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { KeyPair } from "../../src/tls/certificates.ts";
import { page, setPassword, signIn } from "../harness/clients/browser-session.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { makeChain } from "../harness/peers/certificate-chain.ts";
import { installed, run } from "../harness/programs.ts";
import { type Booted, boot } from "../harness/servers/boot.ts";

const openssl = installed("openssl");
const python = installed("python3");
const HOST = "mail.example.test";
const ALICE = "alice@example.test";
const ON = { MAILROOM_IMAP: "127.0.0.1:0", MAILROOM_IMAPS: "127.0.0.1:0", MAILROOM_HOSTNAME: HOST };

async function bootWith(pair: KeyPair, env: Record<string, string> = {}): Promise<Booted> {
  const folder = temporaryFolder();
  const files = ["cert", "key"].map((name) => join(folder, name)) as [string, string];
  writeFileSync(files[0], pair.cert);
  writeFileSync(files[1], pair.key);
  return boot({ ...ON, MAILROOM_TLS: `files:${files.join(",")}`, ...env });
}

async function download(app: Booted): Promise<Response> {
  await setPassword(app, app.owner.userId);
  return (await signIn(app, ALICE)).fetch("/mail-apps/profile");
}

/** Reads a property list with plistlib. @throws for what is no property list */
async function readPlist(text: string): Promise<Record<string, unknown>> {
  const script = "import json, plistlib, sys; print(json.dumps(plistlib.loads(sys.stdin.buffer.read())))";
  return JSON.parse((await run(["python3", "-c", script], text)).output);
}

const profileSeen = async (app: Booted) => (await (await signIn(app, ALICE)).get("/app-passwords")).body.mailApps;

/** An authority, and a pair that it signed, with keys of RSA. */
async function makeRsaChain(): Promise<{ pair: KeyPair; authority: string }> {
  const folder = temporaryFolder();
  const at = (name: string) => join(folder, name);
  const make = (name: string, subject: string, more: string[] = []) =>
    run([
      ...["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", `/CN=${subject}`, "-days", "10"],
      ...["-keyout", at(`${name}.key`), "-out", at(`${name}.pem`), ...more],
    ]);
  await make("ca", "An authority");
  await make("own", HOST, ["-CA", at("ca.pem"), "-CAkey", at("ca.key"), "-addext", `subjectAltName=DNS:${HOST}`]);
  const read = (name: string) => Bun.file(at(name)).text();
  const authority = await read("ca.pem");
  return { pair: { cert: (await read("own.pem")) + authority, key: await read("own.key") }, authority };
}

describe.skipIf(openssl.absent || python.absent)(`a profile (${openssl.named}, ${python.named})`, () => {
  for (const [keys, chain] of [
    ["EC", makeChain.bind(undefined, HOST)],
    ["RSA", makeRsaChain],
  ] as const) {
    test(`is signed by the certificate of the server, whose key is ${keys}`, async () => {
      const { pair, authority } = await chain();
      const app = await bootWith(pair);
      const response = await download(app);
      expect([
        response.status,
        response.headers.get("content-type"),
        response.headers.get("content-disposition"),
      ]).toEqual([200, "application/x-apple-aspen-config", `attachment; filename="${ALICE}.mobileconfig"`]);
      const folder = temporaryFolder();
      const at = (name: string) => join(folder, name);
      writeFileSync(at("profile"), await response.bytes());
      writeFileSync(at("ca.pem"), authority);
      for (const command of ["cms", "smime"]) {
        const verify = (file: string) =>
          run([
            ...["openssl", command, "-verify", "-inform", "DER", "-in", at(file), "-CAfile", at("ca.pem")],
            ...["-purpose", "any", "-no_check_time", "-out", at("plist")],
          ]);
        expect([command, (await verify("profile")).output.trim()]).toEqual([
          command,
          expect.stringMatching(/^(CMS )?Verification successful$/i),
        ]);
        const forged = Buffer.from(await Bun.file(at("profile")).bytes());
        forged[forged.indexOf("EmailTypeIMAP")] = 0x58;
        writeFileSync(at("forged"), forged);
        expect((await verify("forged")).exitCode).not.toBe(0);
        expect((await verify("profile")).exitCode).toBe(0);
      }
      // The whole chain is inside.
      const printed = await run(["openssl", "pkcs7", "-inform", "DER", "-in", at("profile"), "-print_certs"]);
      expect(printed.output.match(/BEGIN CERTIFICATE/g)).toHaveLength(2);

      const profile = await readPlist(await Bun.file(at("plist")).text());
      const port = (address = "") => Number(address.split(":")[1]);
      expect(profile).toMatchObject({
        PayloadType: "Configuration",
        PayloadVersion: 1,
        PayloadIdentifier: `${HOST}.${ALICE}`,
        PayloadContent: [
          {
            PayloadType: "com.apple.mail.managed",
            EmailAccountType: "EmailTypeIMAP",
            EmailAccountName: "Alice",
            EmailAddress: ALICE,
            IncomingMailServerHostName: HOST,
            IncomingMailServerPortNumber: port(app.ready.imaps),
            IncomingMailServerUseSSL: true,
            IncomingMailServerUsername: ALICE,
            OutgoingMailServerHostName: HOST,
            OutgoingMailServerPortNumber: port(app.ready.submissions),
            OutgoingMailServerUseSSL: true,
            OutgoingMailServerUsername: ALICE,
          },
        ],
      });
      expect(JSON.stringify(profile)).not.toMatch(/"(Incoming|Outgoing)Password"/);
      expect((await profileSeen(app)) as unknown).toMatchObject({ profile: { signed: true } });
    });
  }

  test("is not signed by a certificate that devices do not know", async () => {
    const app = await boot(ON);
    const profile = await readPlist(await (await download(app)).text());
    expect(profile).toMatchObject({ PayloadDisplayName: `Mail for ${ALICE}` });
    expect((await profileSeen(app)) as unknown).toMatchObject({ profile: { signed: false } });
  });

  test("has an id that stays, and names with any characters", async () => {
    const app = await boot(ON);
    const { store } = app.core;
    const before = await readPlist(await (await download(app)).text());
    store.transact((tx) => tx.$client.run("UPDATE mailboxes SET name = ?", ["A <b> & \"c\" 'd' é"]));
    const after = await readPlist(await (await download(app)).text());
    expect(after.PayloadUUID).toBe(before.PayloadUUID);
    expect(after.PayloadContent).toMatchObject([{ EmailAccountName: "A <b> & \"c\" 'd' é" }]);
  });
});

test("a profile is for people who are signed in, where mail apps read and send", async () => {
  const app = await boot(ON);
  expect((await page(app).fetch("/mail-apps/profile")).status).toBe(401);
  for (const env of [{}, { ...ON, MAILROOM_SUBMISSION: "off", MAILROOM_SUBMISSIONS: "off" }]) {
    const without = await boot(env);
    expect((await download(without)).status).toBe(404);
    expect((await profileSeen(without)) as unknown).toMatchObject({ profile: false });
  }
});

test.skipIf(python.absent)(`an XML parser reads what apps are told (${python.named})`, async () => {
  const app = await boot(ON);
  const tags = async (response: Response) => {
    const script =
      "import sys, xml.etree.ElementTree as E; print(' '.join(e.tag.split('}')[-1] for e in E.fromstring(sys.stdin.buffer.read()).iter()))";
    return (await run(["python3", "-c", script], await response.text())).output.trim();
  };
  const headers = { host: "autoconfig.example.test" };
  const server = "hostname port socketType authentication username";
  expect(await tags(await fetch(`${app.http}/mail/config-v1.1.xml`, { headers }))).toBe(
    `clientConfig emailProvider domain displayName displayShortName incomingServer ${server} incomingServer ${server} outgoingServer ${server} outgoingServer ${server} documentation descr`,
  );
  const body =
    "<Autodiscover><Request><EMailAddress>O'Neil+&amp;x@example.test</EMailAddress></Request></Autodiscover>";
  const answered = await fetch(`${app.http}/autodiscover/autodiscover.xml`, { method: "POST", body });
  expect(await tags(answered)).toStartWith(
    "Autodiscover Response Account AccountType Action Protocol Type Server Port LoginName",
  );
});
