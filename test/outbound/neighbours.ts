/**
 * Mail servers of other projects as neighbours of ours: they take mail for remote.example, which they pass on to a scripted
 * server, and send mail for example.test to us. Among the people of remote.example nobody@ is unknown, and busy@ has no time.
 */
import { chmodSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { KeyPair } from "../../src/tls/certificates.ts";
import { temporaryFolder } from "../harness/folder.ts";
import type { Daemon } from "../harness/peers/daemon.ts";
import { startEximWith, whyNoExim } from "../harness/peers/exim.ts";
import { startOpenSmtpd, whyNoOpenSmtpd } from "../harness/peers/opensmtpd.ts";
import { noPostfix, startPostfix } from "../harness/peers/postfix.ts";

export interface Surroundings {
  /** Port of our MX listener. */
  ours: number;
  /** Port of the server that gets all other mail. */
  beyond: number;
  /** Key and certificate of the neighbour. */
  pair: KeyPair;
  /** True if it offers neither 8BITMIME nor SMTPUTF8. */
  sevenBit?: boolean;
}

export interface Neighbour extends Daemon {
  port: number;
  /** Delivers what waits. */
  retry(): Promise<void>;
}

interface Kind {
  name: string;
  /** Why it cannot run here. */
  absent: string | undefined;
  /** True if it can be had without 8BITMIME. */
  canBeSevenBit: boolean;
  start(surroundings: Surroundings): Promise<Neighbour>;
}

/** Writes certificate and key into files that only their owner reads. */
function filesOf({ cert, key }: KeyPair): { cert: string; key: string; both: string; folder: string } {
  const folder = temporaryFolder();
  chmodSync(folder, 0o755);
  const write = (name: string, content: string): string => {
    const path = join(folder, name);
    writeFileSync(path, content, { mode: 0o600 });
    return path;
  };
  return {
    folder,
    cert: write("cert.pem", String(cert)),
    key: write("key.pem", String(key)),
    both: write("both.pem", `${key}\n${cert}\n`),
  };
}

/** Bytes. */
const LARGEST = 30_000_000;

export const KINDS: readonly Kind[] = [
  {
    name: "Postfix",
    absent: noPostfix,
    canBeSevenBit: true,
    start: ({ ours, beyond, pair, sevenBit }) =>
      startPostfix(`
myhostname = mx.remote.example
mynetworks = 127.0.0.0/8
relay_domains = remote.example, example.test
transport_maps = inline:{ example.test=smtp:[127.0.0.1]:${ours}, remote.example=smtp:[127.0.0.1]:${beyond} }
smtpd_relay_restrictions =
smtpd_recipient_restrictions =
  check_recipient_access inline:{
    { busy@remote.example = 450 4.2.1 Come back later }, { nobody@remote.example = 550 5.1.1 No such user } },
  permit_mynetworks, reject
smtpd_tls_security_level = may
smtpd_tls_chain_files = ${filesOf(pair).both}
smtp_tls_security_level = may
message_size_limit = ${LARGEST}
${sevenBit ? "smtpd_discard_ehlo_keywords = 8bitmime, smtputf8\nsmtputf8_enable = no" : ""}
`),
  },
  {
    name: "Exim",
    absent: await whyNoExim(),
    canBeSevenBit: true,
    async start({ ours, beyond, pair, sevenBit }) {
      const { cert, key, folder } = filesOf(pair);
      await Bun.$`chown -R Debian-exim ${folder}`;
      return startEximWith(`
tls_advertise_hosts = *
tls_certificate = ${cert}
tls_privatekey = ${key}
acl_smtp_rcpt = people
acl_smtp_data = accept
message_size_limit = ${LARGEST}
accept_8bitmime = ${!sevenBit}
${sevenBit ? "smtputf8_advertise_hosts =" : ""}
begin acl
people:
  deny recipients = nobody@remote.example
    message = 5.1.1 No such user
  defer recipients = busy@remote.example
    message = 4.2.1 Come back later
  accept
begin routers
ours:
  driver = manualroute
  domains = example.test
  transport = ours
  route_list = * 127.0.0.1
  self = send
beyond:
  driver = manualroute
  transport = beyond
  route_list = * 127.0.0.1
  self = send
begin transports
ours:
  driver = smtp
  port = ${ours}
beyond:
  driver = smtp
  port = ${beyond}
begin retry
* * F,1d,1m
`);
    },
  },
  {
    name: "OpenSMTPD",
    absent: await whyNoOpenSmtpd(),
    canBeSevenBit: false,
    start({ ours, beyond, pair }) {
      const { cert, key } = filesOf(pair);
      return startOpenSmtpd(
        (port) => `
pki remote.example cert "${cert}"
pki remote.example key "${key}"
smtp max-message-size "${LARGEST}"
table nobody { "nobody@remote.example" }
filter busy phase rcpt-to match rcpt-to { "busy@remote.example" } reject "450 4.2.1 Come back later"
listen on 127.0.0.1 port ${port} tls pki remote.example hostname mx.remote.example filter busy
action ours relay host smtp://127.0.0.1:${ours}
action beyond relay host smtp://127.0.0.1:${beyond}
match from any for rcpt-to <nobody> reject
match from any for domain "example.test" action ours
match from any for any action beyond
`,
      );
    },
  },
];
