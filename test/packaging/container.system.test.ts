/**
 * The image of packaging/Dockerfile and packaging/compose.yaml, as docs/container.md has them: built from the executable and a
 * Debian root without a network, then run by a real engine (Podman, with runc) in a network namespace of its own, set up, given
 * mail, upgraded and stopped.
 */
import { describe, expect, test } from "bun:test";
import { chmodSync, copyFileSync, existsSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { EXAMPLES } from "../harness/doc-pages.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { buildExecutable, builtExecutable } from "../harness/servers/executable.ts";

const PROJECT = join(import.meta.dir, "../..");
const ROOT = process.env.MAILROOM_TEST_ROOT ?? "";

/** The reason why there is no engine here, or undefined. */
const missing =
  process.getuid?.() !== 0
    ? "needs root"
    : !existsSync(join(ROOT, "bin/bash"))
      ? "needs MAILROOM_TEST_ROOT (test/packaging/machine.ts)"
      : (["podman", "podman-compose", "runc", "iptables", "unshare"].find((name) => Bun.which(name) === null) ??
        (await refusal()));

/** Why a container does not run here; a sandbox may forbid it. */
async function refusal(): Promise<string | undefined> {
  const folder = temporaryFolder();
  const env = engine(folder);
  const script = `mkdir -p root/bin && cp /bin/true root/bin/ && cp --parents -L $(ldd /bin/true | grep -o '/[^ ]*') root/
    tar -C root -c . | podman import - localhost/true && podman run --rm --network none localhost/true /bin/true`;
  const child = Bun.spawn(["unshare", "--net", "--mount", "bash", "-ec", script], {
    cwd: folder,
    env,
    stdio: ["ignore", "ignore", "pipe"],
  });
  const said = await new Response(child.stderr).text();
  return (await child.exited) === 0 ? undefined : `no container runs here: ${said.trim().split("\n").at(-1)}`;
}

/** The environment of an engine that keeps everything below a folder, and asks of the machine what every sandbox has. */
function engine(folder: string): Record<string, string> {
  const [storage, containers] = [join(folder, "storage.conf"), join(folder, "containers.conf")];
  writeFileSync(
    storage,
    `[storage]\ndriver = "overlay"\ngraphroot = "${folder}/graph"\nrunroot = "${folder}/runroot"\n`,
  );
  writeFileSync(
    containers,
    `[containers]
default_ulimits = ["nofile=20000:20000", "nproc=4096:4096"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
static_dir = "${folder}/static"
tmp_dir = "${folder}/tmp"
volume_path = "${folder}/volumes"
[network]
network_config_dir = "${folder}/networks"
`,
  );
  const bin = join(folder, "bin");
  mkdirSync(bin);
  // Docker's command line, spoken by Podman's.
  writeFileSync(
    join(bin, "docker"),
    `#!/bin/bash
case $1 in
  compose) exec podman-compose --project-name journey "\${@:2:2}" --file "$TEST_COMPOSE" "\${@:4}" ;;
  build) exec podman build --format docker --network none --pull=never --layers=false --build-arg BASE=localhost/debian "\${@:2}" ;;
  *) exec podman "$@" ;;
esac
`,
    { mode: 0o755 },
  );
  return {
    PATH: `${bin}:/usr/local/sbin:/usr/sbin:/sbin:${process.env.PATH}`,
    HOME: folder,
    CONTAINERS_STORAGE_CONF: storage,
    CONTAINERS_CONF: containers,
    TEST_COMPOSE: join(folder, "journey.yaml"),
    ROOT,
  };
}

/** The commands of docs/container.md in the example that has a word. */
const documented = (word: string): string =>
  EXAMPLES.filter(({ page, code }) => page === "docs/container.md" && code.includes(word))
    .map(({ code }) => code)
    .join("");

const JOURNEY = `
ip link set lo up
tar -C "$ROOT" --exclude=./var/cache --exclude=./dev -c . | podman import - localhost/debian >/dev/null
name=journey_mailroom_1
until_it_answers() { until { exec 3<>/dev/tcp/127.0.0.1/25; } 2>/dev/null; do sleep 0.1; done; }
reply() { while IFS= read -r line <&3; do [[ $line == ???-* ]] || break; done; }
mail() {
  until_it_answers
  reply
  for command in "EHLO remote.example" "MAIL FROM:<bob@remote.example>" "RCPT TO:<you@example.com>" DATA "Subject: $1"$'\\r\\n\\r\\nHello\\r\\n.' QUIT; do
    printf '%s\\r\\n' "$command" >&3
    reply
    case $command in Subject*) echo "$line" ;; esac
  done
  exec 3>&-
}
subjects() { podman exec $name mailroom export --mailbox you@example.com --to /tmp/out.mbox >/dev/null; podman exec $name grep -h ^Subject: /tmp/out.mbox; }
inspect() { podman inspect --format "$1" $name; }
trap 'podman rm --all --force --time 0 >/dev/null 2>&1 || true' EXIT

echo "@ build"
${documented("docker build")}
echo "@ start"
${documented("up --detach")}
echo "@ commands"
until_it_answers
exec 3>&-
${documented("user list")}
echo "@ confined"
podman exec $name cat /proc/1/status
podman exec $name touch /usr/made 2>&1 || true
podman exec $name ls -ld /var/lib/mailroom /var/lib/mailroom/mailroom.db
podman healthcheck run $name && echo healthy
echo "@ mail"
mail First
echo "@ backup"
${documented("backup verify")}
echo "@ unhealthy"
podman run --rm --network container:$name --entrypoint bash -e MAILROOM_HTTP=127.0.0.1:1 mailroom -c "$(podman inspect --format '{{index .Config.Healthcheck.Test 3}}' $name)" 2>/dev/null || echo "refused"
echo "@ stop"
podman stop --time 20 $name >/dev/null
inspect '{{.State.ExitCode}}'
echo "@ upgrade"
podman tag mailroom localhost/former
echo newer >newer
printf 'FROM localhost/former\\nCOPY newer /newer\\n' >Dockerfile.newer
docker build --tag mailroom --file Dockerfile.newer . >/dev/null 2>&1
podman rm $name >/dev/null
docker compose --file packaging/compose.yaml up --detach >/dev/null 2>&1
mail Second
podman exec $name cat /newer
subjects
echo "@ end"
`;

async function travel(): Promise<Map<string, string>> {
  const folder = temporaryFolder();
  const env = engine(folder);
  const release = join(folder, "release");
  mkdirSync(join(release, "packaging"), { recursive: true });
  for (const file of ["Dockerfile", "compose.yaml"]) {
    copyFileSync(join(PROJECT, "packaging", file), join(release, "packaging", file));
  }
  const executable = builtExecutable ?? (await buildExecutable(join(folder, "mailroom")));
  copyFileSync(executable, join(release, "mailroom"));
  chmodSync(join(release, "mailroom"), 0o755);
  // No authority is asked here.
  writeFileSync(env.TEST_COMPOSE ?? "", "services:\n  mailroom:\n    environment:\n      MAILROOM_TLS: self-signed\n");
  const child = Bun.spawn(["unshare", "--net", "--mount", "bash", "-euo", "pipefail", "-c", JOURNEY], {
    cwd: release,
    env,
    stdio: ["ignore", "pipe", "pipe"],
  });
  const [stdout, stderr] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()]);
  await child.exited;
  // Two roots of Debian take longer to remove than the end of a file may.
  rmSync(join(folder, "graph"), { recursive: true });
  if (!stdout.includes("@ end")) throw new Error(`${stdout.slice(-1500)}\n${stderr.slice(-2500)}`);
  const parts = stdout.split(/^@ /m).slice(1);
  return new Map(parts.map((part) => [part.slice(0, part.indexOf("\n")), part.slice(part.indexOf("\n") + 1)]));
}

describe.skipIf(missing !== undefined)(`a container${missing ? ` (skipped: ${missing})` : ""}`, () => {
  test("is built, confined, given mail, backed up, upgraded and stopped", async () => {
    const said = await travel();
    expect(said.get("start")).toContain("mr_");
    expect(said.get("commands")).toContain("you@example.com");

    const confined = said.get("confined") ?? "";
    expect(confined).toContain("Uid:\t8025\t8025\t8025\t8025\n");
    for (const set of ["Inh", "Prm", "Eff", "Bnd", "Amb"]) expect(confined).toContain(`Cap${set}:\t0000000000000000\n`);
    expect(confined).toMatch(/^NoNewPrivs:\t1$/m);
    expect(confined).toContain("Read-only file system");
    expect(confined).toMatch(/^drwx------ .* mailroom mailroom /m);
    expect(confined).toMatch(/^-rw------- .*\/mailroom\.db$/m);
    expect(confined).toEndWith("healthy\n");

    expect(said.get("mail")).toStartWith("250 ");
    expect(said.get("backup")).toMatch(/whole|good|ok/i);
    expect(said.get("unhealthy")).toBe("refused\n");
    expect(said.get("stop")).toBe("0\n");
    expect(said.get("upgrade")).toMatch(/^250 .*\r\nnewer\n/);
    expect(said.get("upgrade")?.match(/^Subject: (First|Second)/gm)).toEqual(["Subject: First", "Subject: Second"]);
  }, 300_000);
});
