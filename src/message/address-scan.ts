/**
 * The pieces of an address list (RFC 5322 §3.2): where a comment, a quoted string, an angle-addr or an atom that begins
 * at an offset ends. An unclosed one ends with the text.
 */

/** Past its closing parenthesis; past the end of the text, by one, when it is open. */
export function endOfComment(text: string, start: number): number {
  let depth = 0;
  for (let i = start; i < text.length; i++) {
    const character = text[i];
    if (character === "\\") i++;
    else if (character === "(") depth++;
    else if (character === ")" && --depth === 0) return i + 1;
  }
  return text.length + 1;
}

/** The content of a quoted string, its escapes undone; `end` is past the end of the text, by one, when it is open. */
export function quotedAt(text: string, start: number): { content: string; end: number } {
  let content = "";
  let i = start + 1;
  for (; i < text.length && text[i] !== '"'; i++) {
    if (text[i] === "\\" && i + 1 < text.length) i++;
    content += text[i];
  }
  return { content, end: i + 1 };
}

/** The content of `<…>`; a quoted local part may hold a `>`. An unclosed one ends at the comma. */
export function angleAt(text: string, start: number): { content: string; end: number } {
  let comma = -1;
  for (let i = start + 1; i < text.length; i++) {
    const character = text[i];
    if (character === '"' && text[i - 1] === "<") i = Math.max(i, quotedAt(text, i).end - 1);
    else if (character === ">") return { content: text.slice(start + 1, i), end: i + 1 };
    else if (character === "<") return { content: text.slice(start + 1, i), end: i };
    else if (character === "," && comma < 0 && !text.slice(start + 1, start + 3).includes("@")) comma = i;
  }
  const end = comma < 0 ? text.length : comma;
  return { content: text.slice(start + 1, end), end };
}

/** Past the run of characters that no delimiter of a list ends; at least one. */
export function endOfAtom(text: string, start: number): number {
  // An encoded word may hold commas and brackets that a careless mailer left unencoded.
  if (text.startsWith("=?", start)) {
    const match = /^=\?[^?\s]{1,60}\?[bq]\?[^?]{0,1000}\?=/i.exec(text.slice(start, start + 1_100));
    if (match !== null) return start + match[0].length;
  }
  let i = start;
  while (i < text.length && !/[\s,;:<>("]/.test(text[i] as string)) {
    if (text[i] === "[") {
      // A domain literal holds colons (IPv6).
      const close = text.slice(i, i + 60).indexOf("]");
      if (close > 0) i += close;
    }
    i++;
  }
  return Math.max(i, start + 1);
}
