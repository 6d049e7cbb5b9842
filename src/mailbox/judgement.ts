/**
 * Whether mail that arrives is spam (rules: Spam). The first that knows decides: what people said of the sender,
 * what the arrival said (DMARC), and, unless the sender is trusted, the mailbox's junk filter.
 */
import type { EmailAddress } from "../message/address.ts";
import type { Options } from "../store/settings.ts";
import type { Tx } from "../store/store.ts";
import type { Filing } from "./filing.ts";
import { scoreIn } from "./junk/filter.ts";
import { senderTokens } from "./junk/tokens.ts";
import type { Judgement } from "./junk/training.ts";
import { isTrusted, senderOf, verdictOn } from "./senders.ts";

export function judge(
  tx: Tx,
  { mailboxId, message, auth, spam }: Pick<Filing, "mailboxId" | "message" | "auth" | "spam">,
  from: EmailAddress,
  options: Pick<Options, "get">,
): Judgement {
  const sender = senderOf(from, auth);
  const verdict = verdictOn(tx, mailboxId, sender);
  const threshold = options.get("spam.junkThreshold");
  const tokens = () => [...(message.junkTokens?.split(" ") ?? []), ...senderTokens(sender, auth)];
  const scored = threshold === "off" ? undefined : scoreIn(tx, mailboxId, tokens);
  const isJunk = scored !== undefined && threshold !== "off" && scored.score >= threshold;
  if (verdict === "spam") return { filedFor: "sender", scored };
  if (spam === true) return { filedFor: "arrival", scored };
  return { filedFor: isJunk && !isTrusted(sender, verdict) ? "junk" : undefined, scored };
}
