/**
 * Postfix that delivers over LMTP to Dovecot, in folders of their own, as an administrator sets them up who wants no mail
 * lost: docs/performance.md gives the reasons.
 */
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { noDovecot, PASSWORD, runDovecot } from "../harness/dovecot.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { takePort } from "../harness/port.ts";
import { noPostfix, startPostfix } from "../harness/postfix.ts";
import { ADDRESS } from "./figures.ts";
import { type ImapClient, imapClient } from "./imap-client.ts";

const MODULES = "/usr/lib/dovecot";

/** Reasons why they cannot run. */
export const absent: string[] = [
  noPostfix,
  noDovecot,
  existsSync(join(MODULES, "lmtp")) ? undefined : "dovecot-lmtpd is not installed",
].filter((reason) => reason !== undefined);
export const hasIndex = existsSync(join(MODULES, "modules/lib21_fts_xapian_plugin.so"));

export interface PostfixDovecot {
  /** Where Postfix takes mail. */
  port: number;
  /** Those that started all others. */
  processes: number[];
  /** Messages in the mailbox that a reader gets. */
  filed(): number;
  /** Logs in over IMAP and selects the inbox. */
  open(): Promise<ImapClient>;
}

const WITH_INDEX = `
mail_plugins = fts fts_xapian
plugin {
  fts = xapian
  fts_xapian = partial=3 full=20
  fts_autoindex = yes
  fts_enforced = yes
}
service indexer-worker {
  vsz_limit = 2G
}
`;

export async function startPostfixDovecot(index: boolean): Promise<PostfixDovecot> {
  const folder = temporaryFolder();
  const mail = join(folder, "mail");
  const [lmtpPort, imapPort] = [await takePort(), await takePort()];
  const dovecot = await runDovecot(
    { folder, mail, user: ADDRESS, port: imapPort },
    `
protocols = imap lmtp
listen = 127.0.0.1
ssl = no
disable_plaintext_auth = no
mail_fsync = optimized
service imap-login {
  inet_listener imap {
    port = ${imapPort}
  }
}
service lmtp {
  inet_listener lmtp {
    port = ${lmtpPort}
  }
}
${index ? WITH_INDEX : ""}`,
  );
  const postfix = await startPostfix(`
myhostname = mx.example.test
virtual_mailbox_domains = example.test
virtual_mailbox_maps = inline:{ ${ADDRESS}=ok }
virtual_transport = lmtp:inet:127.0.0.1:${lmtpPort}
smtpd_relay_restrictions = reject_unauth_destination
smtpd_peername_lookup = no
in_flow_delay = 0
`);
  const inbox = join(mail, "Maildir");
  const files = (name: string): number => {
    const path = join(inbox, name);
    return existsSync(path) ? readdirSync(path).length : 0;
  };
  return {
    port: postfix.port,
    processes: [postfix.pid, dovecot.pid],
    filed: () => files("new") + files("cur"),
    async open() {
      const client = await imapClient(imapPort, ADDRESS, PASSWORD);
      await client.command("SELECT INBOX");
      return client;
    },
  };
}
