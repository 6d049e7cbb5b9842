/**
 * What install.sh puts in place, under the real systemd: a machine is booted (systemd-nspawn), Mailroom is installed on
 * it, and everything its unit forbids is forbidden while it takes mail, is killed, fails to be upgraded and is taken off.
 */
import { describe, expect, test } from "bun:test";
import { copyFileSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { buildExecutable, builtExecutable } from "../harness/executable.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { machineMissing } from "../harness/machine.ts";

const PROJECT = join(import.meta.dir, "../..");
const ROOT = process.env.MAILROOM_TEST_ROOT ?? "";
const MEILISEARCH = process.env.MEILISEARCH_BIN;
const missing =
  machineMissing ??
  (Bun.which("systemd-nspawn") === null
    ? "needs systemd-nspawn"
    : existsSync(join(ROOT, "lib/systemd/systemd"))
      ? undefined
      : "needs systemd in MAILROOM_TEST_ROOT");

/** Runs at the end of the boot. What it says goes to /media/said, in parts that begin with a line `@ NAME`. */
const JOURNEY = `
install() { echo "@ $1"; shift; bash /media/release/install.sh --yes "$@" 2>&1; echo "exit $?"; }
main_pid() { systemctl show --property MainPID --value mailroom; }
until_it_answers() { until { exec 3<>/dev/tcp/127.0.0.1/25; } 2>/dev/null; do sleep 0.1; done; }

install installing --domain example.test --email ada@example.test --name Ada

echo "@ process"
cat /proc/$(main_pid)/status
systemctl is-enabled mailroom

echo "@ mail"
mailroom domain verify example.test --skip-dns >/dev/null
until_it_answers
reply() { while IFS= read -r line <&3; do [[ $line == ???-* ]] || break; done; }
reply
for command in "EHLO remote.example" "MAIL FROM:<bob@remote.example>" "RCPT TO:<ada@example.test>" DATA $'Subject: Hello\\r\\n\\r\\nHello\\r\\n.'; do
  printf '%s\\r\\n' "$command" >&3
  reply
done
echo "$line"
mailroom backup /var/backups/mailroom/mine --json
mailroom backup verify /var/backups/mailroom/mine --json

if [ -e /media/meilisearch ]; then
  install searching --meilisearch /media/meilisearch
  echo "@ sidecar"
  until mailroom doctor --json | grep -o '"id":"search-engine","name":"Meilisearch","state":"ok","detail":"[^"]*"'; do sleep 0.1; done
  sidecar=$(pidof meilisearch)
  cat /proc/$sidecar/status
  stat -c '%U %a' /usr/local/lib/mailroom/meilisearch
fi

echo "@ killed"
before=$(main_pid)
kill -KILL "$before"
while [ "$(main_pid)" = "$before" ] || [ "$(main_pid)" = 0 ]; do sleep 0.1; done
until_it_answers && systemctl is-active mailroom
if [ -n "$sidecar" ]; then
  until [ -n "$(pidof meilisearch)" ] && ! pidof meilisearch | grep -qw "$sidecar"; do sleep 0.1; done
  pidof meilisearch | wc -w
fi

printf '#!/bin/bash\\nif [ "$1" = version ]; then echo 0.3.0; else exit 1; fi\\n' >/root/broken
install upgrading --executable /root/broken
systemctl is-active mailroom
mailroom version

echo "@ wrong"
echo MAILROOM_LOG=nonsense >>/etc/mailroom/mailroom.env
systemctl restart mailroom
until systemctl is-failed mailroom; do sleep 0.1; done
systemctl show --property NRestarts mailroom

install uninstalling --uninstall
systemctl is-active mailroom
echo "@ end"
`;

const UNIT = `[Service]
Type=oneshot
ExecStart=/bin/bash /media/journey
StandardOutput=append:/media/said
StandardError=inherit
ExecStopPost=/bin/systemctl poweroff --no-block
`;

const BOOT = `
set -e
mount --make-rprivate /
mount -t tmpfs none "$PLACE/over"
mkdir "$PLACE/over/changes" "$PLACE/over/work"
mount -t overlay overlay -o "lowerdir=$ROOT,upperdir=$PLACE/over/changes,workdir=$PLACE/over/work" "$PLACE/root"
cp "$PLACE/media/unit" "$PLACE/root/etc/systemd/system/journey.service"
mkdir -p "$PLACE/root/etc/systemd/system/multi-user.target.wants"
ln -s ../journey.service "$PLACE/root/etc/systemd/system/multi-user.target.wants/journey.service"
exec systemd-nspawn --quiet --directory="$PLACE/root" --bind="$PLACE/media:/media" --private-network --register=no \
  --keep-unit --machine="mailroom-$$" --boot
`;

/** What the journey said, by its parts. */
async function travel(): Promise<Map<string, string>> {
  const place = temporaryFolder();
  const release = join(place, "media/release");
  for (const folder of ["over", "root", "media/release/packaging"]) mkdirSync(join(place, folder), { recursive: true });
  for (const file of ["install.sh", "packaging/mailroom", "packaging/mailroom.service"]) {
    copyFileSync(join(PROJECT, file), join(release, file));
  }
  copyFileSync(
    builtExecutable ?? (await buildExecutable(join(temporaryFolder(), "mailroom"))),
    join(release, "mailroom"),
  );
  if (MEILISEARCH !== undefined) copyFileSync(MEILISEARCH, join(place, "media/meilisearch"));
  writeFileSync(join(place, "media/journey"), JOURNEY);
  writeFileSync(join(place, "media/unit"), UNIT);
  const child = Bun.spawn(["unshare", "--mount", "bash", "-c", BOOT], {
    env: { PATH: process.env.PATH ?? "", PLACE: place, ROOT },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const [stdout, stderr] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()]);
  await child.exited;
  const said = join(place, "media/said");
  if (!existsSync(said)) throw new Error(`the machine did not boot: ${stderr}${stdout.slice(-2000)}`);
  const parts = readFileSync(said, "utf8").split(/^@ /m).slice(1);
  return new Map(parts.map((part) => [part.slice(0, part.indexOf("\n")), part.slice(part.indexOf("\n") + 1)]));
}

const alone = MEILISEARCH === undefined ? ", without Meilisearch (MEILISEARCH_BIN names no server)" : "";

describe.skipIf(missing !== undefined)(`under systemd${missing ? ` (skipped: ${missing})` : alone}`, () => {
  test("installed, confined, killed, not upgraded, and removed", async () => {
    const said = await travel();
    expect(said.get("installing")).toContain("Keep these; they are not shown again");
    expect(said.get("installing")).toEndWith("exit 0\n");

    const status = said.get("process") ?? "";
    const [, uid] = /^Uid:\t(\d+)\t\1\t\1\t\1$/m.exec(status) ?? [];
    expect(Number(uid)).toBeGreaterThan(0);
    // CAP_NET_BIND_SERVICE is the tenth bit; 2 is a filter of system calls.
    for (const set of ["Prm", "Eff", "Bnd", "Amb"]) expect(status).toContain(`Cap${set}:\t0000000000000400\n`);
    expect(status).toMatch(/^NoNewPrivs:\t1$/m);
    expect(status).toMatch(/^Seccomp:\t2$/m);
    expect(status).toEndWith("\nenabled\n");

    const [answer, backup, verified] = (said.get("mail") ?? "").split("\n");
    expect(answer).toStartWith("250 ");
    expect(JSON.parse(backup ?? "")).toMatchObject({ lacking: [] });
    expect(JSON.parse(verified ?? "")).toMatchObject({ ok: true });

    if (MEILISEARCH !== undefined) {
      expect(said.get("searching")).toEndWith("exit 0\n");
      const sidecar = said.get("sidecar") ?? "";
      expect(sidecar).toMatch(/"detail":"version \d+\.\d+\.\d+ answers/);
      expect(sidecar).toContain(`Uid:\t${uid}\t${uid}\t${uid}\t${uid}\n`);
      expect(sidecar).toMatch(/^NoNewPrivs:\t1$/m);
      expect(sidecar).toMatch(/^Seccomp:\t2$/m);
      // What is killed with the server, and by whom, leaves one.
      expect(sidecar).toEndWith("\nroot 755\n");
    }
    expect(said.get("killed")).toBe(MEILISEARCH === undefined ? "active\n" : "active\n1\n");
    expect(said.get("upgrading")).toContain("version 0.3.0 did not come up, and the upgrade was undone");
    expect(said.get("upgrading")).toMatch(/\nexit 1\nactive\n\d+\.\d+\.\d+\n$/);
    // A wrong environment stays wrong however often it is tried.
    expect(said.get("wrong")).toEndWith("failed\nNRestarts=0\n");
    expect(said.get("uninstalling")).toContain("Kept: the data in /var/lib/mailroom");
    expect(said.get("uninstalling")).toEndWith("\nexit 0\ninactive\n");
  }, 300_000);
});
