/**
 * `install.sh --restore` on a machine with nothing of Mailroom (machine.ts), with backups of another machine: what is brought
 * back, what is refused, and that a run that failed or was cut off harms nothing and is finished by running it again.
 */
import { Database } from "bun:sqlite";
import { beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { cpSync, readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { agree } from "../harness/data/backup-rig.ts";
import { temporaryFolder } from "../harness/folder.ts";
import {
  boot,
  everything,
  FIRST,
  install,
  installed,
  interruptAt,
  keyOf,
  mailIn,
  OFFLINE,
  subjects,
  versionOf,
} from "./installs.ts";
import { type Machine, machineMissing } from "./machine.ts";

setDefaultTimeout(300_000);

const ENVIRONMENT = "etc/mailroom/mailroom.env";
const DATA = "/var/lib/mailroom";
/** Where root keeps what came from the machine before; nobody else may look there. */
const PLACE = "/root/kept";
const RESTORE = ["--restore", `${PLACE}/plain`];

/** A folder with backups of the machine before: `plain`, `encrypted`, and `key.txt`, which opens the latter. */
let kept: string;
let apiKey: string;

async function makeKept(): Promise<void> {
  const machine = await boot();
  apiKey = keyOf(await installed(machine, ...FIRST, ...OFFLINE));
  await mailIn(machine, "Before");
  const settings = "MAILROOM_LOG=warn\nMAILROOM_ACME_CHALLENGE=dns-hook:/etc/mailroom/hook\n";
  machine.write(ENVIRONMENT, `${machine.read(ENVIRONMENT)}${settings}`, 0o640);
  await machine.bash(`
    systemctl stop mailroom; systemctl start mailroom
    until [ -s ${DATA}/environment.json ] && grep -q dns-hook ${DATA}/environment.json; do sleep 0.05; done
    install -d -m 700 -o mailroom -g mailroom ${DATA}/keys
    head -c 32 /dev/zero | tr '\\0' k >${DATA}/keys/second-factor.key
    chown mailroom: ${DATA}/keys/second-factor.key
    chmod 600 ${DATA}/keys/second-factor.key
    mailroom backup /var/backups/mailroom/plain
    mailroom backup key /var/backups/mailroom/key.txt
    mailroom settings set backup.recipients "$(sed -n 's/^# public key: //p' /var/backups/mailroom/key.txt)"
    mailroom backup /var/backups/mailroom/encrypted`);
  kept = join(temporaryFolder(), "kept");
  cpSync(join(machine.root, "var/backups/mailroom"), kept, { recursive: true });
}

const generationOf = (folder: string): string => {
  const parent = join(folder, "generations");
  return join(parent, readdirSync(parent)[0] ?? "");
};

/** Boots a machine that has the backups, and `plain` as somebody spoiled it. */
async function bare(spoil: (plain: string) => void = () => {}): Promise<Machine> {
  const machine = await boot();
  await bring(machine, spoil);
  return machine;
}

async function bring(machine: Machine, spoil: (plain: string) => void = () => {}): Promise<void> {
  const copy = join(temporaryFolder(), "kept");
  cpSync(kept, copy, { recursive: true });
  spoil(join(copy, "plain"));
  await machine.bash(`rm -rf ${PLACE}`);
  cpSync(copy, join(machine.root, PLACE), { recursive: true });
  await machine.bash(`chown -R root: ${PLACE}; chmod -R u=rwX,go= ${PLACE}`);
}

/** Nothing of the backup is in the data folder. */
const expectEmpty = async (machine: Machine): Promise<void> =>
  expect(await machine.bash(`ls -A ${DATA} | grep -v '^serving.lock' || true`)).toBe("");

async function expectAllBack(machine: Machine): Promise<void> {
  expect(await subjects(machine, apiKey)).toEqual(["Before"]);
  expect(await machine.bash(`find ${DATA} -not -user mailroom -o -perm /077`)).toBe("");
  expect(await machine.bash("ls /var/lib/mailroom-install; stat -c '%U %a' /etc/mailroom/mailroom.env")).toBe(
    "root 640\n",
  );
  expect(await mailIn(machine, "After")).toStartWith("250 ");
  expect(await subjects(machine, apiKey)).toEqual(["After", "Before"]);
}

describe.skipIf(machineMissing !== undefined)(
  `install.sh --restore${machineMissing ? ` (skipped: ${machineMissing})` : ""}`,
  () => {
    beforeAll(makeKept, 300_000);

    test("brings all back, asks nothing, says what is left to do, and leaves alone what is there then", async () => {
      const machine = await bare();
      const said = await installed(machine, ...RESTORE);
      const environment = machine.read(ENVIRONMENT);
      for (const line of [
        "MAILROOM_BASE_URL=https://mail.example.test",
        "MAILROOM_TLS=self-signed",
        "MAILROOM_LOG=warn",
      ]) {
        expect(environment).toMatch(new RegExp(`^${line}$`, "m"));
      }
      expect(environment).toMatch(/^MAILROOM_HTTP=127\.0\.0\.1:8025$/m);
      expect(said).toContain("Lead mail.example.test to this machine");
      expect(said).toContain("mailroom queue release sends the rest");
      expect(said).toContain("MAILROOM_ACME_CHALLENGE=dns-hook:/etc/mailroom/hook was not taken over: a program");
      expect(environment).not.toMatch(/^MAILROOM_ACME_CHALLENGE/m);
      await expectAllBack(machine);
      const before = await everything(machine);
      const again = await install(machine, ...RESTORE);
      expect([again.exitCode, again.stderr]).toEqual([
        1,
        expect.stringContaining("there is mail in /var/lib/mailroom"),
      ]);
      expect((await everything(machine)).split("\n").filter((line) => !/mailroom\.db|\/log\//.test(line))).toEqual(
        before.split("\n").filter((line) => !/mailroom\.db|\/log\//.test(line)),
      );
      // An upgrade goes on from there.
      await installed(machine, "--executable", "/media/release/next");
      expect([await versionOf(machine), await subjects(machine, apiKey)]).toEqual(["0.2.0", ["After", "Before"]]);
    });

    test("an encrypted one, with the key of second factors, by the private key alone", async () => {
      const machine = await bare();
      await machine.bash(`mailroom() { /media/release/mailroom "$@"; }; mailroom backup key ${PLACE}/other.txt`);
      const before = await everything(machine);
      const encrypted = ["--restore", `${PLACE}/encrypted`];
      for (const [options, words] of [
        [[], /is encrypted: give --identity FILE, with the private key of age1/],
        [["--identity", `${PLACE}/other.txt`], /is encrypted: give --identity FILE, with the private key of age1/],
        [["--identity", `${PLACE}/nowhere.txt`], /nowhere\.txt cannot be read/],
        [["--identity", "/etc/hostname"], /has no identity of age/],
      ] as const) {
        const { exitCode, stderr } = await install(machine, ...encrypted, ...options);
        expect([exitCode, stderr]).toEqual([1, expect.stringMatching(words)]);
      }
      expect(await everything(machine)).toBe(before);
      await installed(machine, ...encrypted, "--identity", `${PLACE}/key.txt`);
      expect(machine.read("var/lib/mailroom/keys/second-factor.key")).toBe("k".repeat(32));
      await expectAllBack(machine);
    });

    test.each<[string, (plain: string) => void, RegExp]>([
      ["no backup", (plain) => rmSync(join(plain, "mailroom-backup.json")), /is no Mailroom backup/],
      [
        "a newer format",
        (plain) => writeFileSync(join(plain, "mailroom-backup.json"), '{"format":9}\n'),
        /newer Mailroom/,
      ],
      [
        "a newer version",
        (plain) => {
          const manifest = join(generationOf(plain), "manifest.json");
          const known = JSON.parse(readFileSync(manifest, "utf8"));
          writeFileSync(manifest, JSON.stringify({ ...known, version: "9.0.0", schema: 9_999 }));
          agree(generationOf(plain));
        },
        /made by a newer Mailroom \(9\.0\.0, schema 9999; this one knows \d+\): restore it with that version/,
      ],
      ["a cut list of checksums", (plain) => truncateSync(join(generationOf(plain), "SHA256SUMS"), 100), /is damaged/],
    ])("refused before anything is changed: %s", async (_, spoil, words) => {
      const machine = await bare(spoil);
      const before = await everything(machine);
      const { exitCode, stderr } = await install(machine, ...RESTORE);
      expect([exitCode, stderr]).toEqual([1, expect.stringMatching(words)]);
      expect(await everything(machine)).toBe(before);
    });

    test("what turns out to be damaged, edited, or too large for the disk leaves nothing, and the whole one comes back then", async () => {
      const machine = await bare((plain) => truncateSync(join(generationOf(plain), "mailroom.db"), 100_000));
      const refused = async (words: RegExp): Promise<void> => {
        const { exitCode, stderr } = await install(machine, ...RESTORE);
        expect([exitCode, stderr]).toEqual([1, expect.stringMatching(words)]);
        expect(stderr).toContain("nothing was restored, and /var/lib/mailroom is as empty as it was");
        await expectEmpty(machine);
        expect([machine.has("usr/local/lib/mailroom/mailroom"), machine.has(ENVIRONMENT)]).toEqual([false, false]);
      };
      await refused(/mailroom\.db is damaged/);
      await bring(machine, (plain) => {
        const db = new Database(join(generationOf(plain), "mailroom.db"));
        db.exec("CREATE TRIGGER x AFTER INSERT ON messages BEGIN DELETE FROM users; END");
        db.close();
        agree(generationOf(plain));
      });
      await refused(/is damaged/);
      await bring(machine, (plain) => {
        const db = new Database(join(generationOf(plain), "mailroom.db"));
        db.exec("UPDATE threads SET participants = '7'");
        db.close();
        agree(generationOf(plain));
      });
      await refused(/has what no server writes \(a row of threads\)/);
      await bring(machine);
      await machine.bash(
        `mount -t tmpfs -o size=400k,mode=700,uid=$(id -u mailroom),gid=$(id -g mailroom) tmpfs ${DATA}`,
      );
      await refused(/the disk of \/var\/lib\/mailroom is full: nothing was restored/);
      await machine.bash(`umount ${DATA}`);
      await installed(machine, ...RESTORE);
      await expectAllBack(machine);
    });

    test("nothing that a backup names is run, and no file of the machine is replaced", async () => {
      const evil = `${PLACE}/plain/evil`;
      const machine = await bare((plain) => {
        const script = "#!/bin/sh\ntouch /tmp/evil-ran /var/lib/mailroom/evil-ran\n";
        writeFileSync(join(plain, "evil"), script, { mode: 0o755 });
        writeFileSync(join(plain, "meilisearch"), script, { mode: 0o755 });
        const generation = generationOf(plain);
        const db = new Database(join(generation, "mailroom.db"));
        db.exec(`INSERT OR REPLACE INTO options (name, value) VALUES ('search.engine', 'meilisearch'),
          ('search.meilisearchPath', '${PLACE}/plain/meilisearch'), ('replica.litestreamPath', '/bin/sh')`);
        db.close();
        const lines = ["warn", "LD_PRELOAD=/tmp/evil.so", `ExecStartPre=${evil}`].join("\n");
        writeFileSync(
          join(generation, "files/environment.json"),
          JSON.stringify({
            MAILROOM_BASE_URL: "https://mail.example.test",
            MAILROOM_MX: "127.0.0.1:25",
            MAILROOM_SUBMISSION: "off",
            MAILROOM_SUBMISSIONS: "off",
            MAILROOM_HTTP: "127.0.0.1:8025",
            MAILROOM_TLS: "acme",
            MAILROOM_ACME_CHALLENGE: `dns-hook:${evil}`,
            MAILROOM_ACME_DIRECTORY: "https://127.0.0.1:1/directory",
            MAILROOM_LOG: lines,
            MAILROOM_DATA: "/etc",
            LD_PRELOAD: "/tmp/evil.so",
          }),
        );
        agree(generation);
      });
      const said = await install(machine, ...RESTORE);
      expect([said.exitCode, said.stderr]).toEqual([
        0,
        expect.stringContaining("search.meilisearchPath has its default"),
      ]);
      const environment = machine.read(ENVIRONMENT);
      expect(environment).not.toMatch(/^(?!MAILROOM_|#|$)/m);
      expect(environment).not.toMatch(/LD_PRELOAD|ExecStart|^MAILROOM_ACME_CHALLENGE/m);
      expect(environment.match(/^MAILROOM_DATA=.*$/gm)).toEqual(["MAILROOM_DATA=/var/lib/mailroom"]);
      expect(await subjects(machine, apiKey)).toEqual(["Before"]);
      expect(await machine.bash("ls /tmp/evil-ran /var/lib/mailroom/evil-ran 2>/dev/null || true")).toBe("");
    });

    test.each([
      ["while it restores", "KILL-RESTORE"],
      ["before the program is in place", "daemon-reload 1 INT"],
      ["while the server starts", "start 1 KILL"],
    ])("cut off %s, it is finished by running it again, and by nothing else", async (_, at) => {
      const machine = await bare();
      if (at === "KILL-RESTORE") {
        // As a power cut leaves it.
        await machine.bash(`
          useradd --system --user-group --no-create-home mailroom
          install -d -m 700 -o mailroom -g mailroom ${DATA}
          install -d -m 700 /var/lib/mailroom-install
          touch /var/lib/mailroom-install/restore ${DATA}/restoring
          echo half >${DATA}/mailroom.db`);
      } else {
        interruptAt(machine, at);
        expect((await install(machine, ...RESTORE)).exitCode).toBeGreaterThan(128);
      }
      const other = await install(machine, ...FIRST, ...OFFLINE);
      expect([other.exitCode, other.stderr]).toEqual([1, expect.stringContaining("a restore was cut off here")]);
      await installed(machine, ...RESTORE);
      await expectAllBack(machine);
    });

    test("a port in use is named, and nothing is changed", async () => {
      const machine = await bare();
      const perl =
        'use IO::Socket::INET; $s = IO::Socket::INET->new(Listen => 1, LocalAddr => "0.0.0.0:8025") or die; $| = 1; print "up\\n"; sleep';
      const taken = machine.start(["perl", "-e", perl]);
      await (taken.stdout as ReadableStream<Uint8Array>).getReader().read();
      const before = await everything(machine);
      const { exitCode, stderr } = await install(machine, ...RESTORE);
      expect([exitCode, stderr]).toEqual([1, expect.stringContaining("port 8025 is taken by perl")]);
      expect(await everything(machine)).toBe(before);
    });

    test("of an earlier version, which knows the name alone; another name by --hostname", async () => {
      const older = (plain: string): void => {
        rmSync(join(generationOf(plain), "files/environment.json"));
        agree(generationOf(plain));
      };
      const machine = await bare(older);
      await installed(machine, ...RESTORE, ...OFFLINE);
      expect(machine.read(ENVIRONMENT)).toMatch(/^MAILROOM_HOSTNAME=mail\.example\.test$/m);
      await expectAllBack(machine);
      const renamed = await bare();
      const said = await installed(renamed, ...RESTORE, "--hostname", "post.example.test", "--acme-challenge", "http");
      expect(said).not.toContain("could not be taken over");
      expect(renamed.read(ENVIRONMENT).match(/^MAILROOM_(BASE_URL|HOSTNAME)=.*$/gm)).toEqual([
        "MAILROOM_BASE_URL=https://post.example.test",
        "MAILROOM_HOSTNAME=post.example.test",
      ]);
      expect(renamed.read(ENVIRONMENT).match(/MAILROOM_ACME_CHALLENGE.*/g)).toEqual(["MAILROOM_ACME_CHALLENGE=http"]);
      await expectAllBack(renamed);
    });

    test("backups that lie where the server makes them are its own, but no file of others that is linked there", async () => {
      const machine = await bare();
      await machine.bash(`
        install -d /var/backups/mailroom
        mv ${PLACE}/plain /var/backups/mailroom/daily
        cp /etc/hostname /etc/others
        ln /etc/others /var/backups/mailroom/daily/hard
        ln -s /etc/others /var/backups/mailroom/daily/soft`);
      const said = await installed(machine, "--restore", "/var/backups/mailroom/daily");
      expect(said).toContain("The web was behind a proxy, and is at 127.0.0.1:8025 here");
      expect(await machine.bash("stat -c '%U' /etc/others /var/backups/mailroom")).toBe("root\nmailroom\n");
      expect(await machine.bash("mailroom backup /var/backups/mailroom/daily --json")).toContain('"lacking":[]');
      await expectAllBack(machine);
    });

    test("by hand, as root, on an installation: `mailroom restore` makes the folder and gives it to the server", async () => {
      const machine = await boot();
      await installed(machine, ...FIRST, ...OFFLINE);
      await bring(machine);
      await machine.bash(`
        systemctl stop mailroom
        mv ${DATA} ${DATA}.old
        mailroom restore ${PLACE}/encrypted --identity ${PLACE}/key.txt
        systemctl start mailroom`);
      expect(await subjects(machine, apiKey)).toEqual(["Before"]);
      expect(await machine.bash(`find ${DATA} -not -user mailroom -o -perm /077`)).toBe("");
      expect(await mailIn(machine, "After")).toStartWith("250 ");
    });

    test.each([
      ["a first installation's options", [...RESTORE, ...FIRST], "leave out --domain"],
      ["a name that is none", [...RESTORE, "--hostname", "post example"], "is no host name"],
      ["a private key alone", ["--identity", `${PLACE}/key.txt`], "go with --restore"],
    ])("misuse: %s", async (_, options, words) => {
      const machine = await bare();
      expect(await install(machine, ...options)).toMatchObject({ exitCode: 2, stderr: expect.stringContaining(words) });
    });
  },
);
