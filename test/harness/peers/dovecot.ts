/** Debian's Dovecot: an IMAP server as a child process on a free port, with accounts that take any mail. */
import { chmodSync, chownSync, existsSync, mkdirSync, writeFileSync } from "node:fs";
import { connect, createServer, type Socket } from "node:net";
import { dirname, join } from "node:path";
import { selfSign } from "../../../src/tls/pair.ts";
import { atEndOfFile } from "../end.ts";
import { temporaryFolder } from "../folder.ts";
import { takePort } from "../port.ts";
import { type Daemon, startDaemon } from "./daemon.ts";

const program = Bun.which("dovecot") ?? (existsSync("/usr/sbin/dovecot") ? "/usr/sbin/dovecot" : null);

/** The reason why its tests are skipped, or undefined. */
export const noDovecot =
  program === null || !existsSync("/usr/lib/dovecot/imap")
    ? "dovecot-imapd is not installed (.ci/run does)"
    : process.getuid?.() === 0
      ? undefined
      : "dovecot starts as root only";

export interface Dovecot {
  port: number;
  /** The certificate authority to trust. */
  authority: string;
  user: string;
  password: string;
  /** Puts messages into a folder of the account, octets as they are. Names are those of a Maildir's `cur`, such as `1:2,S`. */
  put(folder: string, messages: Record<string, string | Uint8Array>): void;
  /** Cuts every connection, as a broken network does. New ones are accepted. */
  cut(): void;
  /** Counts the open connections. */
  connections(): number;
}

/** The user that owns the mail: `nobody`. */
const ID = 65_534;
export const PASSWORD = "secret";
/** Creates a folder below `folder` for the user that owns the mail. */
function own(folder: string, path: string): void {
  mkdirSync(path, { recursive: true });
  for (let at = path; at !== folder; at = dirname(at)) chownSync(at, ID, ID);
}

/**
 * Runs Dovecot with one account, of which `mail` is the home, until the test file ends. Resolves when it listens on `port`.
 * `settings` are those beside files, accounts and the inbox.
 */
export async function runDovecot(
  { folder, mail, user, port }: { folder: string; mail: string; user: string; port: number },
  settings: string,
): Promise<Daemon> {
  const [config, users] = [join(folder, "dovecot.conf"), join(folder, "users")];
  writeFileSync(users, `${user}:{PLAIN}${PASSWORD}:${ID}:${ID}::${mail}\n`);
  own(folder, mail);
  writeFileSync(
    config,
    `
base_dir = ${join(folder, "run")}
state_dir = ${join(folder, "run")}
log_path = ${join(folder, "log")}
mail_location = maildir:~/Maildir
first_valid_uid = ${ID}
first_valid_gid = ${ID}
passdb {
  driver = passwd-file
  args = ${users}
}
userdb {
  driver = passwd-file
  args = ${users}
}
namespace inbox {
  inbox = yes
  separator = /
  mailbox Sent {
    special_use = \\Sent
  }
  mailbox Rubbish {
    special_use = \\Trash
  }
}
${settings}`,
  );
  // Other users pass through this folder to their own files.
  chmodSync(folder, 0o755);

  return await startDaemon([program as string, "-F", "-c", config], port);
}

export async function startDovecot(): Promise<Dovecot> {
  const folder = temporaryFolder();
  const mail = join(folder, "mail");
  const port = await takePort();
  const { cert, key } = await selfSign(
    "localhost",
    Date.now() - 86_400_000,
    Date.now() + 86_400_000,
    new Uint8Array(8),
  );
  writeFileSync(join(folder, "cert.pem"), cert);
  writeFileSync(join(folder, "key.pem"), key);
  await runDovecot(
    { folder, mail, user: "ada", port },
    `
protocols = imap
ssl = required
ssl_cert = <${join(folder, "cert.pem")}
ssl_key = <${join(folder, "key.pem")}
service imap-login {
  inet_listener imap {
    port = 0
  }
  inet_listener imaps {
    address = 127.0.0.1
    port = ${port}
  }
}
`,
  );
  const way = await openWay(port);
  return {
    ...way,
    authority: cert,
    user: "ada",
    password: PASSWORD,
    put(name, messages) {
      const path = join(mail, "Maildir", name === "INBOX" ? "" : `.${name}`);
      for (const part of ["cur", "new", "tmp"]) own(folder, join(path, part));
      for (const [file, text] of Object.entries(messages)) {
        writeFileSync(join(path, "cur", file), typeof text === "string" ? text.replaceAll(/\r?\n/g, "\r\n") : text);
        chownSync(join(path, "cur", file), ID, ID);
      }
    },
  };
}

/** Opens a port that forwards to another one, until it is cut. */
async function openWay(to: number): Promise<Pick<Dovecot, "port" | "cut" | "connections">> {
  const open = new Set<Socket>();
  let connections = 0;
  const server = createServer((near) => {
    const far = connect({ host: "127.0.0.1", port: to });
    for (const socket of [near, far]) {
      open.add(socket);
      socket.on("error", () => {});
      socket.on("close", () => open.delete(socket));
    }
    connections++;
    near.on("close", () => connections--);
    near.pipe(far).pipe(near);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const cut = () => {
    for (const socket of open) socket.destroy();
  };
  atEndOfFile(() => {
    cut();
    server.close();
  });
  return { port: (server.address() as { port: number }).port, cut, connections: () => connections };
}
