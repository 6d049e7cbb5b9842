import { describe, expect, test } from "bun:test";
import { createPrivateKey, X509Certificate } from "node:crypto";
import { readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { connect, createServer, type TLSSocket } from "node:tls";
import { ConfigError } from "../../src/base/errors.ts";
import { createLog } from "../../src/base/log.ts";
import { type Certificates, type KeyPair, openCertificates, ownCertificateNames } from "../../src/tls/certificates.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { fakeRuntime, START } from "../harness/runtime.ts";

const DAY_MS = 24 * 60 * 60_000;

function setup(hostname = "mail.example.test", folder = temporaryFolder()) {
  const runtime = fakeRuntime();
  const lines: string[] = [];
  const log = createLog("debug", runtime.now, (line) => lines.push(line));
  return { hostname, folder, runtime, log, lines };
}

const selfSigned = (given: ReturnType<typeof setup>) => openCertificates({ ...given, mode: { mode: "self-signed" } });

const pathOf = ({ folder }: { folder: string }) => join(folder, "tls/self-signed.pem");

async function madePair(hostname: string): Promise<KeyPair> {
  return (await selfSigned(setup(hostname))).current();
}

/** The fingerprint a client sees. */
async function served(pair: KeyPair): Promise<string> {
  const server = createServer(pair, (socket) => socket.end());
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as { port: number };
  const client = await new Promise<TLSSocket>((resolve, reject) => {
    const socket = connect({ port, host: "127.0.0.1", rejectUnauthorized: false }, () => resolve(socket));
    socket.once("error", reject);
  });
  const { fingerprint256 } = client.getPeerCertificate();
  client.destroy();
  server.close();
  return fingerprint256;
}

describe("self-signed", () => {
  test("is made for the host on first start, and a TLS server runs on it", async () => {
    const given = setup();
    const pair = (await selfSigned(given)).current();
    const certificate = new X509Certificate(pair.cert);
    expect(certificate.subjectAltName).toBe("DNS:mail.example.test");
    expect(certificate.checkHost("mail.example.test")).toBe("mail.example.test");
    expect(certificate.checkPrivateKey(createPrivateKey(pair.key))).toBe(true);
    expect(certificate.publicKey.asymmetricKeyDetails?.namedCurve).toBe("prime256v1");
    expect(certificate.validFromDate.getTime()).toBeLessThan(START);
    expect(certificate.validToDate.getTime()).toBeGreaterThan(START + 3600 * DAY_MS);
    expect(await served(pair)).toBe(certificate.fingerprint256);
  });

  test("is for an address when the host is one", async () => {
    const certificate = new X509Certificate((await madePair("[192.0.2.7]")).cert);
    expect(certificate.checkIP("192.0.2.7")).toBe("192.0.2.7");
    const six = new X509Certificate((await madePair("[IPv6:2001:db8::7]")).cert);
    expect(six.checkIP("2001:db8::7")).toBe("2001:db8::7");
  });

  test("is kept, readable by its owner only", async () => {
    const given = setup();
    const first = (await selfSigned(given)).current();
    expect(statSync(pathOf(given)).mode & 0o777).toBe(0o600);
    expect(statSync(join(given.folder, "tls")).mode & 0o777).toBe(0o700);
    expect((await selfSigned(given)).current()).toEqual(first);
    expect(given.lines).toHaveLength(1);
    expect(given.lines.join()).not.toContain("PRIVATE KEY");
  });

  test("is made anew when a clock that was ahead made it, and was set right", async () => {
    const given = setup();
    given.runtime.setBy(10 * DAY_MS);
    const first = (await selfSigned(given)).current();
    given.runtime.setBy(-10 * DAY_MS);
    const second = (await selfSigned(given)).current();
    expect(second).not.toEqual(first);
    expect(new X509Certificate(second.cert).validFromDate.getTime()).toBeLessThan(START);
  });

  test("is made anew for another host, and when the file is damaged", async () => {
    const given = setup();
    const first = (await selfSigned(given)).current();
    const moved = (await selfSigned({ ...given, hostname: "mx.example.test" })).current();
    expect(moved.cert).not.toBe(first.cert);
    writeFileSync(pathOf(given), readFileSync(pathOf(given), "utf8").slice(0, 300));
    const mended = (await selfSigned(given)).current();
    expect(new X509Certificate(mended.cert).checkPrivateKey(createPrivateKey(mended.key))).toBe(true);
  });

  test("is renewed before it expires, while running", async () => {
    const given = setup();
    const certificates = await selfSigned(given);
    const seen: KeyPair[] = [];
    certificates.onChange((pair) => seen.push(pair));
    const first = certificates.current();
    expect(await certificates.job.runDue(given.runtime.now())).toBe(START + DAY_MS);
    expect(certificates.current()).toBe(first);
    given.runtime.advanceTo(START + 3625 * DAY_MS);
    await certificates.job.runDue(given.runtime.now());
    expect(seen).toEqual([certificates.current()]);
    expect(certificates.current().cert).not.toBe(first.cert);
  });
});

describe("files", () => {
  async function setUpFiles() {
    const given = setup();
    const files = { cert: join(given.folder, "cert.pem"), key: join(given.folder, "key.pem") };
    const write = (pair: Partial<KeyPair>): void => {
      if (pair.cert) writeFileSync(files.cert, pair.cert);
      if (pair.key) writeFileSync(files.key, pair.key);
    };
    const pairs = [await madePair("one.example.test"), await madePair("two-two.example.test")] as const;
    const openFiles = (): Promise<Certificates> => openCertificates({ ...given, mode: { mode: "files", ...files } });
    const warnings = () => given.lines.map((line) => JSON.parse(line)).filter(({ level }) => level === "warn");
    return { given, files, write, pairs, openFiles, warnings };
  }

  test("are taken as they are", async () => {
    const { write, pairs, openFiles } = await setUpFiles();
    write(pairs[0]);
    expect((await openFiles()).current()).toEqual(pairs[0]);
  });

  test("are refused when unreadable, not PEM, or no pair", async () => {
    const { write, pairs, openFiles } = await setUpFiles();
    const refusal = () => openFiles().then(String, (error: Error) => error);
    expect(await refusal()).toBeInstanceOf(ConfigError);
    expect(String(await refusal())).toContain("cannot read");
    write({ cert: "nonsense", key: pairs[0].key });
    expect(String(await refusal())).toContain("not an X.509 certificate");
    write({ cert: pairs[0].cert, key: "nonsense" });
    expect(String(await refusal())).toContain("not a private key");
    write({ cert: pairs[0].cert, key: pairs[1].key });
    expect(String(await refusal())).toContain("does not belong");
    expect(await refusal()).toBeInstanceOf(ConfigError);
  });

  test("are read again when they change; a bad pair is logged once and the old one stays", async () => {
    const { given, write, pairs, openFiles, warnings } = await setUpFiles();
    write(pairs[0]);
    const certificates = await openFiles();
    const seen: KeyPair[] = [];
    const forget = certificates.onChange((pair) => seen.push(pair));
    const look = async () => certificates.job.runDue(given.runtime.now());

    expect(await look()).toBe(START + 2_000);
    expect(seen).toEqual([]);

    write({ cert: pairs[1].cert });
    await look();
    await look();
    expect(certificates.current()).toEqual(pairs[0]);
    expect(warnings()).toHaveLength(1);
    expect(warnings()[0]).toMatchObject({ reason: expect.stringContaining("does not belong") });

    write({ key: pairs[1].key });
    await look();
    expect(certificates.current()).toEqual(pairs[1]);
    expect(seen).toEqual([pairs[1]]);

    forget();
    write(pairs[0]);
    await look();
    expect(certificates.current()).toEqual(pairs[0]);
    expect(seen).toHaveLength(1);
  });

  test("that have expired are served, with a warning", async () => {
    const { given, write, pairs, openFiles, warnings } = await setUpFiles();
    write(pairs[0]);
    given.runtime.advanceTo(START + 4000 * DAY_MS);
    expect((await openFiles()).current()).toEqual(pairs[0]);
    expect(warnings()).toMatchObject([{ message: "certificate has expired" }]);
  });
});

test.each([
  ["https://app.example.com", ["mail.example.com", "app.example.com"]],
  ["https://mail.example.com", ["mail.example.com"]],
  ["http://localhost:8025", ["mail.example.com"]],
  ["https://192.0.2.1", ["mail.example.com"]],
])("the server's own names with %s are %p", (baseUrl, names) => {
  expect(ownCertificateNames({ hostname: "Mail.example.com", baseUrl })).toEqual(names);
});
