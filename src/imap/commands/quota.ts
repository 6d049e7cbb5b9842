/** GETQUOTA and GETQUOTAROOT (RFC 9208): a mailbox has one quota root, named by its address. */
import { readMailboxUsage } from "../../mailbox/state/mailboxes.ts";
import { type Parser, quoteImapText } from "../grammar.ts";
import { findImapMailboxByName, listVisibleMailboxes } from "../mailbox-names.ts";
import { type ImapSession, Refused } from "../session.ts";

/** STORAGE is told in units of 1024 octets. */
const UNIT = 1_024;

function writeQuotaResponse({ core }: ImapSession, { id, address }: { id: string; address: string }): string {
  const { bytes, quotaBytes } = readMailboxUsage(core, id);
  return `* QUOTA ${quoteImapText(address)} (STORAGE ${Math.ceil(bytes / UNIT)} ${Math.floor(quotaBytes / UNIT)})`;
}

export async function runImapGetQuota(session: ImapSession, parser: Parser): Promise<string> {
  parser.space();
  const root = parser.astring();
  parser.end();
  const reached = listVisibleMailboxes(session.core.db, session.caller("quota"));
  const found = reached.find(({ reach }) => reach.mailbox.address === root);
  if (!found) throw new Refused("No such quota root", "NONEXISTENT");
  await session.send(writeQuotaResponse(session, found.reach.mailbox));
  return "GETQUOTA completed";
}

export async function runImapGetQuotaRoot(session: ImapSession, parser: Parser): Promise<string> {
  parser.space();
  const name = session.nameIn(parser.astring());
  parser.end();
  const found = findImapMailboxByName(session.core.db, session.caller("quota"), name);
  if (!found) throw new Refused("No such mailbox", "NONEXISTENT");
  const { mailbox } = found.reach;
  await session.send(`* QUOTAROOT ${session.formatMailboxName(found.name)} ${quoteImapText(mailbox.address)}`);
  await session.send(writeQuotaResponse(session, mailbox));
  return "GETQUOTAROOT completed";
}
