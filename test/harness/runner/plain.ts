/** Text for printing, without characters that a terminal obeys or that make `grep` treat output as binary. */

/** Writes control characters, invisible characters and lone surrogates as `\u` and their number. */
export const plain = (text: string): string =>
  text.replace(/[\p{C}\p{Zl}\p{Zp}]/gu, (char) => {
    const hex = (char.codePointAt(0) ?? 0).toString(16);
    return hex.length > 4 ? `\\u{${hex}}` : `\\u${hex.padStart(4, "0")}`;
  });
