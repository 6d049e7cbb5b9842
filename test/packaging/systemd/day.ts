/**
 * Tests that systemd.system.test.ts runs: the days on which a machine is gone, or a version is worse than the one before, by what
 * docs/bad-days.md says, on machines that systemd boots. One test goes on where the last one ended.
 */
import { beforeAll, expect, test } from "bun:test";
import { copyFileSync, cpSync } from "node:fs";
import { join } from "node:path";
import { connect } from "node:tls";
import { apiClient, type Client } from "../../harness/clients/api.ts";
import { textOf } from "../../harness/doc-pages.ts";
import { temporaryFolder } from "../../harness/folder.ts";
import { letterWith } from "../../harness/mail/documents.ts";
import { letter, mailer } from "../../harness/mail/mail.ts";
import { startDnsServer, type Zone, zoneOf } from "../../harness/peers/dns-server.ts";
import { type RemoteMx, settingsFor, startRemoteMx } from "../../harness/peers/remote-mx.ts";
import { startS3 } from "../../harness/peers/s3.ts";
import { noReplica } from "../../harness/servers/replica.ts";
import { until } from "../../harness/until.ts";
import { boot, FIRST, installed, keyOf, OFFLINE } from "../installs.ts";
import type { Machine } from "../machine.ts";

const HTTP = "http://127.0.0.1:8025";
const HOST = "mail.example.test";
const ADA = "ada@example.test";
const ENVIRONMENT = "etc/mailroom/mailroom.env";
const MESSAGES = 60;
/** From a bare machine to mail, by the page alone. */
const TEN_MINUTES_MS = 600_000;

const zone: Zone = { [HOST]: { a: ["127.0.0.1"] }, "unknown.example": "SERVFAIL" };
let remote: RemoteMx;
let resolver: string;
let machine: Machine;
let key: string;
let api: Client;

/** The commands of a section of the page that are run on the machine, each example a text. */
function examplesOf(heading: string): string[] {
  const [, after = ""] = textOf("docs/bad-days.md").split(`\n## ${heading}\n`);
  const [section = ""] = after.split("\n## ");
  return [...section.matchAll(/^```sh no-run=machine\n([\s\S]*?)^```$/gm)].map(([, code = ""]) => code);
}

const mailroom = async <T>(on: Machine, ...args: string[]): Promise<T> =>
  JSON.parse(await on.bash(`mailroom ${args.join(" ")} --json`)) as T;

const untilWell = (http = HTTP): Promise<void> =>
  until(() =>
    fetch(`${http}/healthz`).then(
      ({ status }) => status === 200,
      () => false,
    ),
  );

async function restart(on: Machine, ...lines: string[]): Promise<void> {
  on.write(ENVIRONMENT, `${on.read(ENVIRONMENT)}${lines.map((line) => `${line}\n`).join("")}`, 0o640);
  await on.bash("systemctl restart mailroom");
  await untilWell();
}

async function deliver(...subjects: string[]): Promise<void> {
  const sender = mailer({ host: "127.0.0.1", port: 25 });
  for (const subject of subjects) {
    const messageId = `<${subject.replaceAll(" ", "-")}@remote.example>`;
    const { reply } = await sender.send(
      { from: "bea@remote.example", to: ADA },
      letter({ to: ADA, subject, messageId }),
    );
    expect(reply).toStartWith("250 ");
  }
  sender.close();
}

async function subjects(): Promise<string[]> {
  const found: string[] = [];
  for (let cursor: string | undefined; ; ) {
    const { status, body } = await api.get<{ messages: { subject: string }[]; nextCursor?: string }>(
      `/messages?limit=100${cursor === undefined ? "" : `&cursor=${cursor}`}`,
    );
    expect(status).toBe(200);
    found.push(...body.messages.map(({ subject }) => subject));
    cursor = body.nextCursor ?? undefined;
    if (cursor === undefined) return found.sort();
  }
}

const send = async (to: string, subject: string): Promise<void> => {
  const { status } = await api.post("/send", { from: ADA, to: [to], subject, text: "Hello" });
  expect(status).toBe(202);
};

const received = (subject: string): Promise<void> =>
  until(() => remote.messages.some(({ content }) => content.includes(`Subject: ${subject}\r\n`)));

const shownCertificate = (): Promise<string> =>
  new Promise((resolve, reject) => {
    const socket = connect({ host: "127.0.0.1", port: 993, servername: HOST, rejectUnauthorized: false }, () => {
      resolve(socket.getPeerCertificate().fingerprint256);
      socket.destroy();
    });
    socket.once("error", reject);
  });

/** Copy of the backups that was taken off the machine in time. */
const elsewhere = join(temporaryFolder(), "elsewhere");
let certificate: string;
let there: string[];

beforeAll(async () => {
  remote = await startRemoteMx();
  zone["remote.example"] = { mx: [[10, "mx.remote.example"]] };
  zone["mx.remote.example"] = { a: [remote.host] };
  resolver = (await startDnsServer(zone)).address;
  machine = await boot({ systemd: true });
}, 180_000);

test("a release becomes a server that takes mail and sends it, verified by its records", async () => {
  key = keyOf(await installed(machine, ...FIRST, ...OFFLINE));
  api = apiClient(HTTP, key);
  await restart(machine, `MAILROOM_DNS=${resolver}`);
  const records = await mailroom<{ type: string; name: string; value: string }[]>(
    machine,
    "domain",
    "dns",
    "example.test",
  );
  Object.assign(zone, zoneOf(records));
  await mailroom(machine, "domain", "verify", "example.test");
  for (const [name, value] of Object.entries(settingsFor(remote))) {
    await machine.bash(`mailroom settings set ${name} ${value}`);
  }
  await deliver("First");
  await send("bob@remote.example", "Out at first");
  await received("Out at first");
  expect(remote.messages[0]?.content).toContain("DKIM-Signature: ");
});

test("it is filled, and backed up for a private key that lies elsewhere", async () => {
  await deliver(...Array.from({ length: MESSAGES }, (_, i) => `Letter ${i}`));
  const sender = mailer({ host: "127.0.0.1", port: 25 });
  const file: [string, string, Uint8Array] = ["large.bin", "application/octet-stream", Buffer.alloc(300_000, 7)];
  await sender.send({ from: "bea@remote.example", to: ADA }, letterWith(ADA, [file]));
  sender.close();
  await send("bob@unknown.example", "Waits");
  await machine.bash(`
    cd /var/backups/mailroom
    mailroom backup key /var/backups/mailroom/backup-key.txt
    mailroom settings set backup.recipients "$(sed -n 's/^# public key: //p' backup-key.txt)"
    mailroom backup /var/backups/mailroom/backups`);
  cpSync(join(machine.root, "var/backups/mailroom"), elsewhere, { recursive: true });
  there = await subjects();
  expect(there).toHaveLength(MESSAGES + 4);
  certificate = await shownCertificate();
});

test("the machine burns; by the page alone, another one has mail again within ten minutes", async () => {
  await machine.burn();
  const startedAt = performance.now();
  machine = await boot({ systemd: true });
  for (const name of ["backups", "backup-key.txt"]) {
    cpSync(join(elsewhere, name), join(machine.root, "root", name), { recursive: true });
  }
  await machine.bash("chown -R root: /root; chmod -R go= /root");
  const [restore = "", queue = "", doctor = ""] = examplesOf("When the machine is gone");
  const said = await machine.bash(`cd /media/release; ${restore}`);
  expect(said).toContain(`Lead ${HOST} to this machine`);
  expect(said).toContain("mail to 1 recipients is held, since it may have been sent after the backup");
  expect(await subjects()).toEqual(there);
  expect(await shownCertificate()).toBe(certificate);
  expect(await mailroom<unknown>(machine, "queue", "list")).toMatchObject([{ state: "held" }]);
  zone["unknown.example"] = { mx: [[10, "mx.remote.example"]] };
  await machine.bash(queue);
  await received("Waits");
  // Reverse names and others are not there in this network, so that it exits with 1.
  expect(await machine.bash(`${doctor.trim()} || true`)).toContain("Outbound queue: 0 recipients wait");
  await deliver("After the fire");
  await send("bob@remote.example", "Out after the fire");
  await received("Out after the fire");
  const took = performance.now() - startedAt;
  console.log(`bare machine to mail: ${Math.round(took / 100) / 10} s`);
  expect(took).toBeLessThan(TEN_MINUTES_MS);
  expect(await machine.bash("find /var/lib/mailroom -not -user mailroom -o -perm /077")).toBe("");
  // Mail of before the backup went out once.
  expect(remote.messages.filter(({ content }) => content.includes("Subject: Out at first\r\n"))).toHaveLength(1);
});

test("a version that came up and is worse: back to the one before, with the mail that came since", async () => {
  await installed(machine, "--executable", "/media/release/next");
  await deliver("At the newer version");
  const before = await subjects();
  const inPlace = (code: string): string =>
    code
      .replaceAll("you@example.com", ADA)
      .replace("mailroom/upgrades", "mailroom/upgrades --identity /root/backup-key.txt")
      .replaceAll("$NEW/mailroom", "/media/release/next");
  for (const example of examplesOf("Back to the version before")) {
    await machine.bash(`cd /media/release; ${inPlace(example)}`);
  }
  expect(await machine.bash("mailroom version")).toStartWith("0.1.0");
  await untilWell();
  expect(await subjects()).toEqual(before);
  await deliver("At the older version");
});

test("another name: it greets by it, and its domain's records lead to it", async () => {
  const [change = ""] = examplesOf("Another address, another name");
  zone["post.example.test"] = { a: ["127.0.0.1"] };
  await machine.bash(
    change.replace(/mail\\\.example\\\.com/, "mail\\.example\\.test").replace("example.com/'", "example.test/'"),
  );
  await untilWell();
  const records = await mailroom<{ type: string; value: string }[]>(machine, "domain", "dns", "example.test");
  expect(records.find(({ type }) => type === "MX")?.value).toBe("10 post.example.test");
  expect(await machine.bash("exec 3<>/dev/tcp/127.0.0.1/25; head -n 1 <&3")).toStartWith("220 post.example.test ");
});

test.skipIf(noReplica !== undefined)(
  `a standby takes over when the machine burns${noReplica ? ` (skipped: ${noReplica})` : ""}`,
  async () => {
    const s3 = await startS3();
    const replica = [
      `MAILROOM_REPLICA=${s3.url}`,
      ...Object.entries(s3.credentials).map(([name, value]) => `${name}=${value}`),
    ];
    const litestream = (on: Machine): void =>
      copyFileSync(Bun.which("litestream") as string, join(on.root, "root/litestream"));
    litestream(machine);
    await installed(machine, "--litestream", "/root/litestream");
    // Both are in one network, so that the second is installed while the first has stopped.
    await machine.bash("systemctl stop mailroom");
    const second = await boot({ systemd: true });
    litestream(second);
    await installed(second, ...FIRST, ...OFFLINE, "--litestream", "/root/litestream");
    // How the second machine is made ready is on the page of the standby.
    const [, prepare = ""] =
      /^```sh no-run=machine\n(systemctl stop mailroom\n[\s\S]*?)^```$/m.exec(textOf("docs/standby.md")) ?? [];
    expect(prepare).toContain("-delete");
    await second.bash(`
      ${prepare}
      install -d /etc/systemd/system/mailroom.service.d
      printf '[Service]\\nExecStart=\\nExecStart=/usr/local/lib/mailroom/mailroom standby\\n' \\
        >/etc/systemd/system/mailroom.service.d/override.conf
      systemctl daemon-reload`);
    await restart(machine, ...replica);
    const environment = machine.read(ENVIRONMENT).replace("127.0.0.1:8025", "127.0.0.1:8026");
    second.write(ENVIRONMENT, environment, 0o640);
    await second.bash(`chown root:mailroom /${ENVIRONMENT}; systemctl start mailroom`);
    const { code } = await mailroom<{ code: string }>(machine, "standby", "invite");
    await second.bash(`mailroom standby join ${code}`);
    await deliver("Before the second fire");
    const before = await subjects();
    api = apiClient("http://127.0.0.1:8026", key);
    // It refuses connections, and then requests, until it has the database, and the last message in it.
    const follows = async (): Promise<boolean> => {
      await Bun.sleep(100);
      return (await subjects()).length === before.length;
    };
    await until(() => follows().catch(() => false));

    await machine.burn();
    const startedAt = performance.now();
    await second.bash("mailroom promote");
    await untilWell("http://127.0.0.1:8026");
    await deliver("After the second fire");
    console.log(`standby to mail: ${Math.round((performance.now() - startedAt) / 100) / 10} s`);
    expect(await subjects()).toEqual([...before, "After the second fire"].sort());
    await send("bob@remote.example", "Out after the second fire");
    await received("Out after the second fire");
    expect(await second.bash("systemctl is-active mailroom")).toBe("active\n");
    // Before the bucket ends with this process.
    await second.burn();
  },
  300_000,
);
