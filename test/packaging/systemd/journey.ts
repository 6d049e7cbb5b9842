/**
 * Tests that systemd.system.test.ts runs: Mailroom is installed on a machine that systemd boots, and does under its unit,
 * with all that this forbids, what the system tier sees it do elsewhere. One test goes on where the last one ended.
 */
import { beforeAll, expect, test } from "bun:test";
import { copyFileSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { connect } from "node:tls";
import { apiClient, type Client } from "../../harness/clients/api.ts";
import { PASSWORD, type Page, signIn } from "../../harness/clients/browser-session.ts";
import { connectMcp } from "../../harness/clients/mcp-client.ts";
import { letterWith } from "../../harness/mail/documents.ts";
import { invitationMail } from "../../harness/mail/invitations.ts";
import { letter, mailer } from "../../harness/mail/mail.ts";
import { makeChain } from "../../harness/peers/certificate-chain.ts";
import { startDnsServer, type Zone } from "../../harness/peers/dns-server.ts";
import { noPebble, startPebble } from "../../harness/peers/pebble.ts";
import { receive } from "../../harness/peers/raw-receiver.ts";
import { startS3 } from "../../harness/peers/s3.ts";
import { noReplica } from "../../harness/servers/replica.ts";
import { until } from "../../harness/until.ts";
import { boot, FIRST, INSTALL, installed, keyOf, upgrade } from "../installs.ts";
import type { Machine } from "../machine.ts";

const HTTP = "http://127.0.0.1:8025";
const HOST = "mail.example.test";
const ADA = "ada@example.test";
const PUBLIC = "93.184.215.14";
const MEILISEARCH = process.env.MEILISEARCH_BIN;
const REFUSED = /EPERM|EROFS|Operation not permitted|Read-only file system/;
const PNG = Buffer.from("89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c489", "hex");

let machine: Machine;
let key: string;
let api: Client;
let ada: Page;

const log = (): Promise<string> => machine.bash("journalctl --unit mailroom --output cat");
const mailroom = async <T>(...args: string[]): Promise<T> =>
  JSON.parse(await machine.bash(`mailroom ${args.join(" ")} --json`)) as T;

/** Adds to the environment of the server, and starts it anew. */
async function restart(...lines: string[]): Promise<void> {
  const file = "/etc/mailroom/mailroom.env";
  machine.write(file, `${machine.read(file)}${lines.map((line) => `${line}\n`).join("")}`, 0o640);
  await machine.bash("systemctl restart mailroom");
  await untilWell();
}

const untilWell = (): Promise<void> =>
  until(() =>
    fetch(`${HTTP}/healthz`).then(
      ({ status }) => status === 200,
      () => false,
    ),
  );

/** Delivers a message for Ada that has the Message-ID. Returns its id. */
async function deliver(messageId: string, raw: string): Promise<string> {
  const sender = mailer({ host: "127.0.0.1", port: 25 });
  const { reply } = await sender.send({ from: "bea@remote.example", to: ADA }, raw);
  sender.close();
  expect(reply).toStartWith("250 ");
  const { body } = await api.get<{ messages: { id: string }[] }>(`/messages?messageId=${messageId}`);
  return body.messages[0]?.id ?? "";
}

interface Finding {
  id: string;
  state: string;
  detail: string;
}

/** Asks the server, under its unit, for the findings of its doctor. */
async function findingsWithin(): Promise<Finding[]> {
  interface Known {
    running: unknown;
    last: { findings: Finding[] } | null;
  }
  await ada.send("POST", "/settings/doctor");
  for (;;) {
    const { running, last } = (await ada.get<Known>("/settings/doctor")).body;
    if (running === null && last) return last.findings;
    await Bun.sleep(50);
  }
}

const findingWithin = async (id: string): Promise<Finding | undefined> =>
  (await findingsWithin()).find((finding) => finding.id === id);

/** The certificate that mail apps are shown. */
const shownCertificate = (): Promise<string> =>
  new Promise((resolve, reject) => {
    const socket = connect({ host: "127.0.0.1", port: 993, servername: HOST, rejectUnauthorized: false }, () => {
      resolve(socket.getPeerCertificate().fingerprint256);
      socket.destroy();
    });
    socket.once("error", reject);
  });

/** Gives the server a new certificate in its files. Returns its fingerprint. */
async function putCertificate(): Promise<string> {
  const { pair } = await makeChain(HOST);
  await machine.bash("install -d /etc/mailroom");
  machine.write("etc/mailroom/key.pem", pair.key);
  machine.write("etc/mailroom/cert.pem", pair.cert);
  return new Bun.CryptoHasher("sha256")
    .update(Buffer.from(pair.cert.split("-----")[2]?.replaceAll("\n", "") ?? "", "base64"))
    .digest("hex")
    .toUpperCase()
    .replaceAll(/..(?=.)/g, "$&:");
}

const WORDS = ["Apples\t3", "日本語の文書", "cell 00\tcell 01", "May\t17.3", "# Slide 1: Plans"];

async function expectDocuments(id: string): Promise<void> {
  const mcp = await connectMcp(HTTP, key);
  const message = await mcp.call("get_message", { id, list: "attachments" });
  const texts: string[] = [];
  for (const attachment of message.structured.attachments) {
    texts.push((await mcp.call("get_attachment", { id: attachment.id })).structured.text);
  }
  await mcp.close();
  for (const words of WORDS) expect([words, texts.filter((text) => text.includes(words)).length]).toEqual([words, 1]);
}

beforeAll(async () => {
  machine = await boot({ systemd: true });
  const dns = await startDnsServer({ "pictures.example": { a: [PUBLIC] }, [HOST]: { a: ["127.0.0.1"] } });
  await putCertificate();
  const options = ["--tls", "files:/etc/mailroom/cert.pem,/etc/mailroom/key.pem", "--behind-proxy", "--password-stdin"];
  const { exitCode, stdout, stderr } = await machine.run([...INSTALL, "--yes", ...FIRST, ...options], `${PASSWORD}\n`);
  expect([exitCode, stderr]).toEqual([0, expect.any(String)]);
  key = keyOf(stdout);
  await machine.bash("mailroom domain verify example.test --skip-dns");
  await restart(`MAILROOM_BASE_URL=${HTTP}`, `MAILROOM_DNS=${dns.address}`);
  api = apiClient(HTTP, key);
  ada = await signIn({ http: HTTP } as never, ADA);
}, 180_000);

const status = async (pid: string): Promise<string> => machine.bash(`cat /proc/${pid.trim()}/status`);
const mainPid = (): Promise<string> => machine.bash("systemctl show --property MainPID --value mailroom");

test("the server is confined, and starts at boot", async () => {
  const own = await status(await mainPid());
  const uid = (await machine.bash("id -u mailroom")).trim();
  expect(own).toContain(`Uid:\t${uid}\t${uid}\t${uid}\t${uid}\n`);
  // CAP_NET_BIND_SERVICE is the tenth bit; 2 is a filter of system calls.
  for (const set of ["Prm", "Eff", "Bnd", "Amb"]) expect(own).toContain(`Cap${set}:\t0000000000000400\n`);
  expect(own).toMatch(/^NoNewPrivs:\t1$/m);
  expect(own).toMatch(/^Seccomp:\t2$/m);
  expect(await machine.bash("systemctl is-enabled mailroom")).toBe("enabled\n");
});

let documents: string;
test("the text of PDF and Office files is read", async () => {
  const names = ["bill.pdf", "cjk.pdf", "offer.docx", "sums.xlsx", "plans.pptx"];
  const files = names.map((name): [string, string, Uint8Array] => [
    name,
    "application/octet-stream",
    readFileSync(join(import.meta.dir, "../../documents/files", name)),
  ]);
  documents = await deliver("documents@remote.example", letterWith(ADA, files));
  await expectDocuments(documents);
});

test("an invitation is read", async () => {
  const id = await deliver("1@x", invitationMail({ to: ADA, id: "1@x" }, { attendees: [ADA] }));
  const { body } = await ada.get(`/messages/${id}/invitation`);
  expect(body).toMatchObject({ invitation: { method: "request", guest: ADA, summary: "Boards by the lake" } });
});

test("a remote image is fetched", async () => {
  await receive(
    (socket) => {
      socket.write(`HTTP/1.1 200 OK\r\nContent-Type: image/png\r\nContent-Length: ${PNG.length}\r\n\r\n`);
      socket.write(PNG);
    },
    // Of its own addresses, the server asks web ports alone.
    { host: PUBLIC, port: 80 },
  );
  const text = `<p>See</p><img src="http://pictures.example/a.png">`;
  const headers = ["MIME-Version: 1.0", "Content-Type: text/html"];
  const id = await deliver("2@x", letter({ to: ADA, text, headers, messageId: "<2@x>" }));
  const frame = await (await ada.fetch(`/messages/${id}/frame?images=1`)).text();
  const address = /<img src="\/app(\/images\?[^"]*)"/.exec(frame)?.[1]?.replaceAll("&amp;", "&") ?? "";
  expect(Buffer.from(await (await ada.fetch(address)).bytes())).toEqual(PNG);
});

test("a certificate that is put into its files is taken up, at once when the service is reloaded", async () => {
  const first = await putCertificate();
  await until(async () => (await shownCertificate()) === first);
  const second = await putCertificate();
  await machine.bash("systemctl reload mailroom");
  await until(async () => (await shownCertificate()) === second);
  await until(async () => (await log()).includes('"message":"SIGHUP: '));
  expect(await machine.bash("systemctl is-active mailroom")).toBe("active\n");
});

test("backups are made by hand and by the schedule", async () => {
  const [mine, daily] = ["/var/backups/mailroom/mine", "/var/backups/mailroom/daily"];
  expect(await mailroom<unknown>("backup", mine)).toMatchObject({ lacking: [] });
  await machine.bash(`mailroom settings set backup.folder ${daily}`);
  await restart();
  await until(async () => /"message":"backup (made|failed)"/.test(await log()));
  expect(await log()).toContain('"message":"backup made"');
  expect(await mailroom<unknown>("backup", "verify", daily)).toMatchObject({ ok: true });
});

test.skipIf(MEILISEARCH === undefined)(
  `Meilisearch runs and finds${MEILISEARCH === undefined ? " (skipped: MEILISEARCH_BIN names no server)" : ""}`,
  async () => {
    await machine.bash("rm -f /root/meilisearch");
    copyFileSync(MEILISEARCH as string, join(machine.root, "root/meilisearch"));
    await installed(machine, "--meilisearch", "/root/meilisearch");
    await until(async () => {
      const { search } = (await (await fetch(`${HTTP}/healthz`)).json()) as { search: string };
      return search === "meilisearch";
    });
    expect(await findingWithin("search-engine")).toMatchObject({ state: "ok" });
    const sidecar = await status(await machine.bash("pidof meilisearch"));
    expect(sidecar).toMatch(/^NoNewPrivs:\t1$/m);
    expect(sidecar).toMatch(/^Seccomp:\t2$/m);
    expect(await machine.bash("stat -c '%U %a' /usr/local/lib/mailroom/meilisearch")).toBe("root 755\n");
    const { body } = await api.get<{ threads: unknown[] }>("/search?q=Invitation");
    expect(body.threads).toHaveLength(1);
  },
);

test.skipIf(noReplica !== undefined)(
  `files go to S3 and come from its cache, and Litestream replicates${noReplica ? ` (skipped: ${noReplica})` : ""}`,
  async () => {
    await machine.bash("rm -f /root/litestream");
    copyFileSync(Bun.which("litestream") as string, join(machine.root, "root/litestream"));
    await installed(machine, "--litestream", "/root/litestream");
    const s3 = await startS3();
    const credentials = Object.entries(s3.credentials).map(([name, value]) => `${name}=${value}`);
    await restart(
      `MAILROOM_REPLICA=${s3.url}`,
      `MAILROOM_BLOBS=${s3.url.replace("/team?", "/blobs?")}`,
      ...credentials,
    );
    const file: [string, string, Uint8Array] = ["far.txt", "text/plain", Buffer.from("kept far away")];
    const raw = letterWith(ADA, [file]).replace("documents@", "far@");
    const id = await deliver("far@remote.example", raw);
    const { body } = await api.get<{ message: { attachments: { url: string }[] } }>(`/messages/${id}`);
    expect(Buffer.from((await api.bytes(body.message.attachments[0]?.url ?? "")).body).toString()).toContain(
      "kept far away",
    );
    await until(async () => (await findingWithin("replica"))?.state === "ok");
    expect(s3.asked.filter((line) => /^PUT .*\/blobs\//.test(line))).not.toEqual([]);
  },
);

test("the doctor sees as much as beside the unit, and metrics are whole", async () => {
  // It exits 1 for the records of the domain, which are not there.
  const beside = JSON.parse(await machine.bash("mailroom doctor --json || true")) as Finding[];
  const states = (findings: Finding[]) => findings.map(({ id, state }) => [id, state]);
  expect(states(await findingsWithin())).toEqual(states(beside));
  const metrics = await (await fetch(`${HTTP}/metrics`)).text();
  for (const name of ["process_open_fds", "process_max_fds", "process_resident_memory_bytes"]) {
    expect(metrics).toMatch(new RegExp(`^${name} [1-9]`, "m"));
  }
});

test.skipIf(noPebble !== undefined)(
  `a hook gets a certificate from an authority${noPebble ? ` (skipped: ${noPebble})` : ""}`,
  async () => {
    // As the server's child it is confined, too, and writes where the server may.
    const calls = "/var/lib/mailroom/calls";
    machine.write("etc/mailroom/hook", `#!/bin/sh\necho "$1 $3" >>${calls}\n`, 0o755);
    const published = (): string[] =>
      machine.has(calls) ? [...machine.read(calls).matchAll(/^present (.*)$/gm)].map(([, value = ""]) => value) : [];
    const zone: Zone = {
      [HOST]: { a: ["127.0.0.1"] },
      "example.test": { ns: [HOST] },
      [`_acme-challenge.${HOST}`]: {
        get txt() {
          return published();
        },
      },
    };
    const pebble = await startPebble(zone);
    const dns = await startDnsServer(zone);
    machine.write("etc/mailroom/authority.pem", pebble.authority);
    await restart(
      `MAILROOM_BASE_URL=http://${HOST}`,
      `MAILROOM_DNS=${dns.address}`,
      "MAILROOM_TLS=acme",
      `MAILROOM_ACME_DIRECTORY=${pebble.directory}`,
      "MAILROOM_ACME_CHALLENGE=dns-hook:/etc/mailroom/hook",
      "NODE_EXTRA_CA_CERTS=/etc/mailroom/authority.pem",
    );
    await until(async () => (await log()).includes("certificate obtained"));
    await until(() => machine.read(calls).includes("cleanup"));
  },
);

test("what is killed is started again, with one of each child", async () => {
  const before = await mainPid();
  const children = "pidof meilisearch litestream";
  const former = (await machine.bash(`${children} || true`)).split(/\s+/);
  await machine.bash(`kill -KILL ${before}`);
  await until(async () => !["0\n", before].includes(await mainPid()));
  await untilWell();
  await until(async () => {
    const now = (await machine.bash(`${children} || true`)).split(/\s+/);
    return now.length === former.length && !now.some((pid) => pid !== "" && former.includes(pid));
  });
  expect(await machine.bash("systemctl is-active mailroom")).toBe("active\n");
});

test("an upgrade takes its place, and documents are read as before", async () => {
  await installed(machine, "--executable", "/media/release/next");
  expect(await machine.bash("mailroom version")).toBe("0.2.0\n");
  await expectDocuments(documents);
});

test("nothing was refused that the log would tell", async () => {
  expect((await log()).split("\n").filter((line) => REFUSED.test(line))).toEqual([]);
});

test("a backup elsewhere is refused until the unit lets the server write there", async () => {
  await machine.bash(
    "install -d -o mailroom -g mailroom /srv/backups; mailroom settings set backup.folder /srv/backups",
  );
  await restart();
  await until(async () => /"backup failed","folder":"\/srv\/backups".*EROFS/.test(await log()));
  await machine.bash(`folder=/etc/systemd/system/mailroom.service.d; install -d $folder
    printf '[Service]\\nReadWritePaths=/srv/backups\\n' >$folder/override.conf; systemctl daemon-reload`);
  await restart();
  await until(async () => (await log()).includes('"backup made","folder":"/srv/backups"'));
});

test("an upgrade to a version that does not start is undone", async () => {
  const { exitCode, stderr } = await upgrade(machine, "broken");
  expect([exitCode, stderr]).toEqual([
    1,
    expect.stringContaining("version 0.3.0 did not come up, and the upgrade was undone"),
  ]);
  expect(await machine.bash("systemctl is-active mailroom; mailroom version")).toBe("active\n0.2.0\n");
  await expectDocuments(documents);
});

test("a wrong environment is not tried again and again", async () => {
  await machine.bash("echo MAILROOM_LOG=nonsense >>/etc/mailroom/mailroom.env; systemctl restart mailroom || true");
  await machine.bash("until systemctl is-failed --quiet mailroom; do sleep 0.1; done");
  expect(await machine.bash("systemctl show --property NRestarts mailroom")).toBe("NRestarts=0\n");
});

test("it is taken off, and its data stays", async () => {
  expect(await installed(machine, "--uninstall")).toContain("Kept: the data in /var/lib/mailroom");
  expect(await machine.bash("systemctl is-active mailroom || true")).toBe("inactive\n");
});
