/** SEARCH and UID SEARCH (RFC 9051 §6.4.4, with ESEARCH). */

import { type Found, findMessagesBySearchKey } from "../found-messages.ts";
import { formatSequenceSet, Malformed, type Parser, type SearchKey } from "../grammar.ts";
import { type ImapSession, Refused } from "../session.ts";

const RETURNS = ["MIN", "MAX", "ALL", "COUNT", "SAVE"] as const;

export async function runImapSearch(
  session: ImapSession,
  parser: Parser,
  byUid: boolean,
  tag: string,
): Promise<string> {
  let returns: string[] | undefined;
  if (parser.take(" RETURN ")) {
    returns = parser.list(() => parser.atom().toUpperCase(), { empty: true });
    const unknown = returns.find((one) => !RETURNS.some((known) => known === one));
    if (unknown !== undefined) throw new Malformed(`unknown result ${unknown}`);
    if (returns.length === 0) returns = ["ALL"];
  }
  const saves = returns?.includes("SAVE") === true;
  parser.space();
  if (parser.take("CHARSET ")) {
    if (session.enabled.has("UTF8=ACCEPT")) throw new Malformed("all is UTF-8");
    if (!/^(?:utf-8|us-ascii)$/i.test(parser.astring())) {
      if (saves && session.view) session.view.saved = new Set();
      throw new Refused("Only UTF-8", "BADCHARSET (UTF-8)");
    }
    parser.space();
  }
  const key = parser.searchKeys();
  const view = session.selected();
  const caller = session.caller("search");
  session.reads.note(caller, []);
  // Of a search that is refused, nothing is saved.
  const found = await findMessagesBySearchKey(session, key, caller).catch((error) => {
    if (saves) view.saved = new Set();
    throw error;
  });
  if (saves) view.saved = new Set(chooseResultMessages(found, returns ?? []).map(({ uid }) => uid));
  if (saves && returns?.length === 1) return "SEARCH completed";
  if (session.isRev2) returns ??= ["ALL"];
  const numbers = found.map(({ uid, sequence }) => (byUid ? uid : sequence));
  const tellsModseq = asksModseq(key) && found.length > 0;
  if (asksModseq(key)) await session.enableCondstore();
  if (!returns) {
    const modseq = tellsModseq ? ` (MODSEQ ${highest(found)})` : "";
    await session.send(`* SEARCH${numbers.map((number) => ` ${number}`).join("")}${modseq}`);
  } else {
    const results = [
      ...(returns.includes("MIN") && numbers.length > 0 ? [`MIN ${numbers[0]}`] : []),
      ...(returns.includes("MAX") && numbers.length > 0 ? [`MAX ${numbers.at(-1)}`] : []),
      ...(returns.includes("ALL") && numbers.length > 0 ? [`ALL ${formatSequenceSet(numbers)}`] : []),
      ...(returns.includes("COUNT") ? [`COUNT ${numbers.length}`] : []),
      ...(tellsModseq ? [`MODSEQ ${highest(chooseResultMessages(found, returns))}`] : []),
    ];
    await session.send(["* ESEARCH", `(TAG "${tag}")`, ...(byUid ? ["UID"] : []), ...results].join(" "));
  }
  return "SEARCH completed";
}

/** The messages that a result is of: of MIN and MAX alone, these (RFC 9051 §6.4.4.3, RFC 7162 §3.1.10). */
function chooseResultMessages<T>(found: readonly T[], returns: readonly string[]): readonly T[] {
  const [min, max] = [returns.includes("MIN"), returns.includes("MAX")];
  if (returns.includes("ALL") || returns.includes("COUNT") || (!min && !max)) return found;
  return [...(min ? found.slice(0, 1) : []), ...(max ? found.slice(-1) : [])];
}

const asksModseq = (key: SearchKey): boolean =>
  key.key === "modseq" ||
  (key.key === "not" ? asksModseq(key.of) : (key.key === "or" || key.key === "and") && key.of.some(asksModseq));

const highest = (found: readonly Found[]): number => found.reduce((most, { modseq }) => Math.max(most, modseq), 0);
