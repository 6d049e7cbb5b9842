/**
 * install.sh, really run as root on a fresh Debian machine (machine.ts): installing, running it again, cutting it off,
 * taking it off.
 */
import { describe, expect, test } from "bun:test";
import { join } from "node:path";
import {
  asked,
  boot,
  connect,
  everything,
  FIRST,
  freshlyInstalled,
  INSTALL,
  install,
  installed,
  interruptAt,
  keyOf,
  mailIn,
  OFFLINE,
  subjects,
  upgrade,
  versionOf,
} from "./installs.ts";
import { machineMissing } from "./machine.ts";

test.each<string[]>([
  ["--acme-challenge", "dns"],
  ["--acme-challenge", "dns-hook:hook"],
  ["--acme-challenge", "dns-update:ns.example.test,/etc/key"],
  ["--acme-challenge", "tls-alpn", "--behind-proxy"],
])("%s %s is refused before anything is looked at", async (...options) => {
  const script = join(import.meta.dir, "../../install.sh");
  const child = Bun.spawn(["bash", script, ...options], { stdio: ["ignore", "ignore", "pipe"] });
  expect([await child.exited, await new Response(child.stderr).text()]).toEqual([
    2,
    expect.stringContaining("install.sh: --acme-challenge "),
  ]);
});

describe.skipIf(machineMissing !== undefined)(
  `install.sh${machineMissing ? ` (skipped: ${machineMissing})` : ""}`,
  () => {
    test("a fresh machine: one command, and mail comes in", async () => {
      const machine = await boot();
      const said = await installed(machine, ...FIRST, "--acme-challenge", "tls-alpn");
      const key = keyOf(said);
      expect(said).toMatch(/^password: \S{20}$/m);
      for (const record of ["MX", "v=spf1", "v=DKIM1", "v=DMARC1", "mailroom-verify="]) expect(said).toContain(record);
      // Without a network it has something to say, which is no failure of the installation.
      expect(said).toMatch(/^==> What mailroom doctor finds.*\n.+\n/m);

      expect(await mailIn(machine, "First")).toStartWith("250 ");
      // There is no authority to be reached here: the web is there all the same, and its plain port says that it works.
      expect(await machine.bash(`${connect(80)}; printf 'GET /healthz HTTP/1.0\\r\\n\\r\\n' >&3; cat <&3`)).toContain(
        '"status":"ok"',
      );
      await machine.bash(`${connect(443)}; [ -e /proc/self/fd/3 ]`);
      expect(machine.read("etc/mailroom/mailroom.env")).toContain(
        "MAILROOM_TLS=acme\nMAILROOM_ACME_EMAIL=ada@example.test\nMAILROOM_ACME_CHALLENGE=tls-alpn\n",
      );

      // The server and the commands are the same user's; what they keep is nobody else's.
      const status = await machine.bash("cat /proc/$(cat /run/stand-in/pid)/status");
      const uid = (await machine.bash("id -u mailroom")).trim();
      expect(status).toContain(`Uid:\t${uid}\t${uid}\t${uid}\t${uid}`);
      expect(JSON.parse(await machine.bash("mailroom user list --json"))).toMatchObject([
        { address: "ada@example.test" },
      ]);
      const folders = "/var/lib/mailroom /var/backups/mailroom /etc/mailroom /var/lib/mailroom-install";
      expect(await machine.bash(`find ${folders} -perm /007`)).toBe("");
      expect(await machine.bash("find /var/lib/mailroom -not -user mailroom")).toBe("");
      expect(await machine.bash("stat -c '%A %U:%G' /etc/mailroom/mailroom.env /usr/local/lib/mailroom/mailroom")).toBe(
        "-rw-r----- root:mailroom\n-rwxr-xr-x root:root\n",
      );
      const { exitCode, stderr } = await machine.run([
        "setpriv",
        "--reuid",
        "nobody",
        "--clear-groups",
        "mailroom",
        "version",
      ]);
      expect([exitCode, stderr]).toEqual([1, "mailroom: run this as root (sudo mailroom …)\n"]);

      // What is shown once is nowhere else.
      const secrets = [key, /^password: (\S+)$/m.exec(said)?.[1] ?? ""];
      for (const secret of secrets) {
        expect(await machine.bash(`grep -rlF -- '${secret}' /etc /root /run /tmp /usr/local /var || true`)).toBe("");
      }
      expect(await machine.bash("ls /usr/local/lib /tmp")).toBe("/tmp:\n\n/usr/local/lib:\nmailroom\n");
    });

    test("run again: no questions, no new keys, no output of secrets", async () => {
      const { machine, key } = await freshlyInstalled();
      await mailIn(machine, "Before");
      const environment = `${machine.read("etc/mailroom/mailroom.env")}MAILROOM_LOG="warn"\n`;
      machine.write("etc/mailroom/mailroom.env", environment, 0o640);
      const said = await installed(machine);
      expect(said).toMatch(/Version 0\.1\.0\+[0-9a-f]{12} is in place already/);
      expect(keyOf(said)).toBe("");
      expect(machine.read("etc/mailroom/mailroom.env")).toBe(environment);
      expect(asked(machine).filter((call) => call.startsWith("stop"))).toEqual([]);
      expect(await machine.bash("ls /var/backups/mailroom")).toBe("");
      expect(await subjects(machine, key)).toEqual(["Before"]);
    });

    test("removal keeps the data and says where; a new installation continues with it", async () => {
      const { machine, key } = await freshlyInstalled();
      await mailIn(machine, "Kept");
      const said = await installed(machine, "--uninstall");
      for (const place of ["/var/lib/mailroom", "/etc/mailroom/mailroom.env", "/var/backups/mailroom"]) {
        expect(said).toContain(place);
      }
      for (const gone of ["usr/local/lib/mailroom", "usr/local/bin/mailroom", "etc/systemd/system/mailroom.service"]) {
        expect([gone, machine.has(gone)]).toEqual([gone, false]);
      }
      expect(machine.has("run/stand-in/pid")).toBe(false);
      expect(await installed(machine, "--uninstall")).toContain("not installed here");

      expect(keyOf(await installed(machine, "--executable", "/media/release/next"))).toBe("");
      expect(await subjects(machine, key)).toEqual(["Kept"]);
      expect(
        JSON.parse(await machine.bash("mailroom backup verify /var/backups/mailroom/upgrades --json")),
      ).toMatchObject({
        ok: true,
      });
    });

    test("an interrupted installation is finished by running it again", async () => {
      const machine = await boot();
      interruptAt(machine, "daemon-reload 1 INT");
      const first = await install(machine, ...FIRST, ...OFFLINE, "--workspace", "Office");
      expect([first.exitCode, first.stderr]).toEqual([130, "install.sh: cut off; run it again to finish\n"]);
      interruptAt(machine, "start 1 KILL");
      expect((await install(machine)).exitCode).toBe(137);
      // Nothing need be said again, and the key, which nobody has seen yet, is shown now.
      const key = keyOf(await installed(machine));
      await mailIn(machine, "In spite of all");
      expect(await subjects(machine, key)).toEqual(["In spite of all"]);
      expect(JSON.parse(await machine.bash("mailroom workspace list --json"))).toMatchObject([{ name: "Office" }]);
      expect(await machine.bash("ls /var/lib/mailroom-install")).toBe("");
    });

    test("a port in use is reported, and nothing is changed", async () => {
      const machine = await boot();
      const perl =
        'use IO::Socket::INET; $s = IO::Socket::INET->new(Listen => 1, LocalAddr => "0.0.0.0:$ARGV[0]") or die; $| = 1; print "up\\n"; sleep';
      for (const port of ["25", "443"]) {
        const taken = machine.start(["perl", "-e", perl, port]);
        await (taken.stdout as ReadableStream<Uint8Array>).getReader().read();
      }
      const before = await everything(machine);
      const { exitCode, stderr } = await install(machine, ...FIRST, "--tls", "self-signed");
      expect(exitCode).toBe(1);
      expect(stderr).toMatch(/port 25 is taken by perl \(process \d+\)/);
      expect(stderr).toMatch(/port 443 is taken by perl \(process \d+\)\n.*give --behind-proxy/);
      expect(stderr).toContain("nothing was changed: free the ports");
      expect(await everything(machine)).toBe(before);
      expect((await machine.run(["id", "mailroom"])).exitCode).toBe(1);
    });

    test("a release archive is run only when its checksum is right", async () => {
      const machine = await boot();
      await machine.bash(
        "cd /media && mkdir v && cp -a release/next v/mailroom && cp -a release/{install.sh,packaging} v && tar -czf /root/release.tar.gz v",
      );
      const sum = (await machine.bash("sha256sum /root/release.tar.gz")).slice(0, 64);
      const before = await everything(machine);
      const archive = ["--archive", "/root/release.tar.gz"];
      expect(await install(machine, ...FIRST, ...OFFLINE, ...archive)).toMatchObject({ exitCode: 2 });
      expect(
        await install(machine, ...FIRST, ...OFFLINE, ...archive, "--sha256", sum.replace(/^./, "g")),
      ).toMatchObject({
        exitCode: 2,
      });
      const wrong = await install(machine, ...FIRST, ...OFFLINE, ...archive, "--sha256", "0".repeat(64));
      expect([wrong.exitCode, wrong.stderr]).toEqual([1, expect.stringContaining("nothing of it was run")]);
      expect(await everything(machine)).toBe(before);

      const password = "correct horse battery";
      const options = [...FIRST, ...OFFLINE, ...archive, "--sha256", sum, "--password-stdin"];
      const { exitCode, stdout, stderr } = await machine.run([...INSTALL, ...options], `${password}\n`);
      expect([exitCode, stderr]).toEqual([0, expect.not.stringContaining("install.sh:")]);
      expect(stdout).toContain("Keep these");
      expect(stdout).not.toContain(password);
      expect(await versionOf(machine)).toBe("0.2.0");
    });

    test("Meilisearch: installed after checking its checksum, turned on, and kept", async () => {
      const machine = await boot();
      const server = (version: string) =>
        `#!/bin/sh\nif [ "$1" = --version ]; then echo meilisearch ${version}; else exec sleep 1234567; fi\n`;
      machine.write("root/server", server("1.21.0"), 0o755);
      machine.write("root/newer", server("1.22.0"), 0o755);
      machine.write("root/another", "#!/bin/sh\necho hello\n", 0o755);
      const before = await everything(machine);
      const given = (file: string, sum?: string): string[] => [
        "--meilisearch",
        `/root/${file}`,
        ...(sum === undefined ? [] : ["--meilisearch-sha256", sum]),
      ];
      const wrong = await install(machine, ...FIRST, ...OFFLINE, ...given("server", "0".repeat(64)));
      expect([wrong.exitCode, wrong.stderr]).toEqual([1, expect.stringContaining("nothing of it was run")]);
      const another = await install(machine, ...FIRST, ...OFFLINE, ...given("another"));
      expect([another.exitCode, another.stderr]).toEqual([1, expect.stringContaining("is no Meilisearch")]);
      expect(await everything(machine)).toBe(before);

      const sum = (await machine.bash("sha256sum /root/server")).slice(0, 64);
      await installed(machine, ...FIRST, ...OFFLINE, ...given("server", sum));
      const place = "/usr/local/lib/mailroom/meilisearch";
      const settings = async () => {
        const rows = JSON.parse(await machine.bash("mailroom settings list --json")) as {
          name: string;
          value: string;
        }[];
        return ["search.engine", "search.meilisearchPath"].map((name) => rows.find((row) => row.name === name)?.value);
      };
      expect(await settings()).toEqual(["meilisearch", place]);
      expect(await machine.bash(`stat -c '%A %U:%G' ${place}`)).toBe("-rwxr-xr-x root:root\n");
      // Its process, which is that of `sleep` by then.
      const runs = "until grep -ls '123456[7]' /proc/[0-9]*/cmdline; do sleep 0.05; done";
      const first = await machine.bash(runs);

      // Kept by an upgrade that says nothing of it; another takes its place, and runs.
      expect((await upgrade(machine, "next")).exitCode).toBe(0);
      expect([await settings(), await machine.bash(`${place} --version`)]).toEqual([
        ["meilisearch", place],
        "meilisearch 1.21.0\n",
      ]);
      await installed(machine, "--executable", "/media/release/next", ...given("newer"));
      expect(await machine.bash(`${place} --version`)).toBe("meilisearch 1.22.0\n");
      expect(await machine.bash(runs)).not.toBe(first);
      expect(await machine.bash("find /var/lib/mailroom -not -user mailroom; find /var/lib/mailroom -perm /077")).toBe(
        "",
      );
    });

    test("Litestream: installed after a look at its version, and kept", async () => {
      const machine = await boot();
      const program = (version: string) => `#!/bin/sh\n[ "$1" = version ] && echo v${version}\n`;
      machine.write("root/litestream", program("0.5.18"), 0o755);
      machine.write("root/older", program("0.5.9"), 0o755);
      const before = await everything(machine);
      const older = await install(machine, ...FIRST, ...OFFLINE, "--litestream", "/root/older");
      expect([older.exitCode, older.stderr]).toEqual([1, expect.stringContaining("is no Litestream 0.5.18")]);
      expect(await everything(machine)).toBe(before);
      const said = await installed(machine, ...FIRST, ...OFFLINE, "--litestream", "/root/litestream");
      expect(said).toContain("Litestream runs once /etc/mailroom/mailroom.env has MAILROOM_REPLICA");
      const place = "/usr/local/lib/mailroom/litestream";
      expect(await machine.bash("mailroom settings get replica.litestreamPath")).toContain(place);
      expect((await upgrade(machine, "next")).exitCode).toBe(0);
      expect(await machine.bash(`${place} version; stat -c '%A %U:%G' ${place}`)).toBe(
        "v0.5.18\n-rwxr-xr-x root:root\n",
      );
    });

    test.each([
      ["no domain", [], "--domain is missing"],
      ["Meilisearch from elsewhere without its checksum", ["--with-meilisearch"], "needs --meilisearch-sha256"],
      [
        "an address elsewhere",
        [...FIRST.slice(0, 2), "--email", "ada@other.test", "--name", "Ada"],
        "not at example.test",
      ],
      ["a domain that is none", ["--domain", "exa mple", "--email", "a@exa mple", "--name", "A"], "is no domain"],
      ["an unknown option", ["--domian", "example.test"], "there is no option --domian"],
    ])("refused before anything is changed: %s", async (_, options, reason) => {
      const machine = await boot();
      const before = await everything(machine);
      const { exitCode, stderr } = await install(machine, ...options);
      expect([exitCode, stderr]).toEqual([2, expect.stringContaining(reason)]);
      expect(await everything(machine)).toBe(before);
    });
  },
);
