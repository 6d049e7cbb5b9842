/**
 * Reads the prefixes that mail programs put before the subject of a reply, or of mail that they forward, in their languages
 * (rules: Subject prefixes). Pure. Looks at no more than LONGEST_READ characters, in linear time.
 */

/** Prefixes in lower case, by language. Mail programs also write the English ones in every language. */
export const PREFIXES: readonly (readonly [language: string, reply: string, forward: string])[] = [
  ["English", "re", "fw, fwd"],
  ["Arabic", "رد", "إعادة توجيه"],
  ["Basque", "er, erantz", "birb"],
  ["Bosnian", "odg", "prosl"],
  ["Bulgarian", "отг, отговор", "препр"],
  ["Catalan", "resp", "reenv"],
  ["Chinese", "回复, 回覆, 答复, 答覆, 回應", "转发, 轉寄, 轉發"],
  ["Croatian", "odg", "prosl, proslj"],
  ["Czech", "odp", "přep"],
  ["Danish", "sv, svar, ang", "vs, videresend"],
  ["Dutch", "antw, antwoord", "doorst"],
  ["Estonian", "vast, vs", "edasi"],
  ["Finnish", "vs, vast", "vl"],
  ["French", "ref, rép", "tr"],
  ["Galician", "resp", "rv, reenv"],
  ["German", "aw, antw, antwort", "wg"],
  ["Greek", "απ, σχετ", "πρθ"],
  ["Hebrew", "תשובה, תגובה, השב", "הועבר"],
  ["Hindi", "उत्तर", "अग्रेषित"],
  ["Hungarian", "vá", "továbbítás, tov"],
  ["Icelandic", "sv", "fs"],
  ["Indonesian", "bls, balas", "trs"],
  ["Italian", "r, rif", "i, inoltro"],
  ["Japanese", "返信", "転送"],
  ["Korean", "답장, 회신", "전달"],
  ["Latvian", "atb", "pārsūt"],
  ["Lithuanian", "ats, ha", "persiųsta"],
  ["Macedonian", "одг", "препр"],
  ["Malay", "bls, balas", "majukan"],
  ["Norwegian", "sv, svar", "vs, vb, videresend"],
  ["Persian", "پاسخ", "ارسال, هدایت"],
  ["Polish", "odp, odpowiedź", "pd"],
  ["Portuguese", "res, resp", "enc"],
  ["Romanian", "răsp", "redir"],
  ["Russian", "отв, ответ, на", "пересл"],
  ["Serbian", "одг, odg", "просл, prosl"],
  ["Slovak", "odp", "posl"],
  ["Slovenian", "odg", "posr"],
  ["Spanish", "resp, respuesta", "rv, reenv"],
  ["Swedish", "sv, svar, ang", "vb"],
  ["Thai", "ตอบ, ตอบกลับ", "ส่งต่อ"],
  ["Turkish", "ynt, yan", "ilt, İlt"],
  ["Ukrainian", "відп, відповідь, на", "пер, перенапр"],
  ["Vietnamese", "tl, trả lời", "ct, chuyển tiếp"],
  ["Welsh", "atb", "yml"],
];
const LONGEST_READ = 1_000;

/** A count may follow: `Re[2]:`, `Re(3):`, `Re^4:`, `Re2:`. */
function prefixesIn(column: 1 | 2): RegExp {
  const words = new Set(PREFIXES.flatMap((row) => row[column].split(", ")));
  return new RegExp(`^(?:${[...words].join("|")}) ?(?:[[(]\\d{1,4}[\\])]|[\\^*]\\d{1,4}|\\d{1,3})? ?: ?`, "iu");
}
const REPLY = prefixesIn(1);
const FORWARD = prefixesIn(2);
/** The tag of a mailing list. One with a digit is more likely a ticket number, which distinguishes subjects. */
const LIST_TAG = /^\[[^\]\d]{1,60}\]\s*/u;
const UNSEEN = /\p{Default_Ignorable_Code_Point}+/gu;

/** Full-width characters, such as the colon of `Re：`, become usual ones, and marks of direction disappear. */
const normalised = (subject: string): string =>
  subject.slice(0, LONGEST_READ).normalize("NFKC").replace(UNSEEN, "").replace(/\s+/gu, " ").trim();

/**
 * A subject without reply and forward prefixes and list tags, with case and spaces folded; and whether it had a reply
 * prefix.
 */
export function parseSubjectKey(subject: string): { key: string; isReply: boolean } {
  let rest = normalised(subject);
  let isReply = false;
  for (;;) {
    const reply = REPLY.exec(rest);
    const match = reply ?? FORWARD.exec(rest) ?? LIST_TAG.exec(rest);
    if (reply !== null) isReply = true;
    const shorter = match === null ? rest : rest.slice(match[0].length);
    if (match === null || (shorter === "" && reply === null)) break;
    rest = shorter;
  }
  return { key: rest.replace(/\s*\(fwd\)$/i, "").toLowerCase(), isReply };
}

/** True if a subject begins with a reply prefix. */
export const isReplySubject = (subject: string): boolean => REPLY.test(normalised(subject));

/** True if a subject begins with a forward prefix. */
export const isForwardSubject = (subject: string): boolean => FORWARD.test(normalised(subject));
