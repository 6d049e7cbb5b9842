/**
 * Postfix that delivers over LMTP to Dovecot, in folders of their own, configured as an administrator does who must not lose
 * mail. docs/performance.md gives the reasons for each setting.
 */
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { temporaryFolder } from "../harness/folder.ts";
import { noDovecot, PASSWORD, runDovecot } from "../harness/peers/dovecot.ts";
import { noPostfix, startPostfix } from "../harness/peers/postfix.ts";
import { takePort } from "../harness/port.ts";
import { ADDRESS } from "./figures.ts";
import { type ImapClient, imapClient } from "./imap-client.ts";

const MODULES = "/usr/lib/dovecot";

/** The reasons why they cannot run. */
export const absent: string[] = [
  noPostfix,
  noDovecot,
  existsSync(join(MODULES, "lmtp")) ? undefined : "dovecot-lmtpd is not installed",
].filter((reason) => reason !== undefined);
export const noIndex = existsSync(join(MODULES, "modules/lib21_fts_xapian_plugin.so"))
  ? undefined
  : "dovecot-fts-xapian is not installed";

export interface PostfixDovecot {
  /** Postfix's listener. */
  port: number;
  /** The two processes that are parents of all others. */
  processes: number[];
  /** Counts the messages that a reader finds in the inbox. */
  filed(): number;
  /** Logs in over IMAP and selects the inbox. */
  openInbox(): Promise<ImapClient>;
  end(): Promise<void>;
}

/** With `indexed`, the text index takes each message when it is delivered; without, all at the first search. */
const textIndex = (indexed: boolean): string => `
plugin {
  fts = xapian
  fts_xapian = partial=3 full=20
  fts_enforced = yes
  fts_autoindex = ${indexed ? "yes" : "no"}
}
${["imap", "indexer-worker", ...(indexed ? ["lmtp"] : [])]
  .map((protocol) => `protocol ${protocol} {\n  mail_plugins = fts fts_xapian\n}`)
  .join("\n")}
service indexer-worker {
  vsz_limit = 2G
}
`;

/** With `indexed` and dovecot-fts-xapian, Dovecot indexes each message when it is delivered. */
export async function startPostfixDovecot(indexed: boolean): Promise<PostfixDovecot> {
  const folder = temporaryFolder();
  const [mail, lmtp] = [join(folder, "mail"), join(folder, "lmtp")];
  const port = await takePort();
  const dovecot = await runDovecot(
    { folder, mail, user: ADDRESS, port },
    `
protocols = imap lmtp
ssl = no
disable_plaintext_auth = no
mail_fsync = optimized
service imap-login {
  inet_listener imap {
    address = 127.0.0.1
    port = ${port}
  }
}
service lmtp {
  unix_listener ${lmtp} {
    user = postfix
    mode = 0600
  }
}
${noIndex === undefined ? textIndex(indexed) : ""}`,
  );
  const postfix = await startPostfix(`
myhostname = mx.example.test
virtual_mailbox_domains = example.test
virtual_mailbox_maps = inline:{ ${ADDRESS}=ok }
virtual_transport = lmtp:unix:${lmtp}
smtpd_relay_restrictions = reject_unauth_destination
smtpd_peername_lookup = no
in_flow_delay = 0
`);
  const filesIn = (name: string): number => {
    const path = join(mail, "Maildir", name);
    return existsSync(path) ? readdirSync(path).length : 0;
  };
  return {
    port: postfix.port,
    processes: [postfix.pid, dovecot.pid],
    filed: () => filesIn("new") + filesIn("cur"),
    async openInbox() {
      const client = await imapClient(port, ADDRESS, PASSWORD);
      await client.command("SELECT INBOX");
      return client;
    },
    async end() {
      await postfix.end();
      await dovecot.end();
    },
  };
}
