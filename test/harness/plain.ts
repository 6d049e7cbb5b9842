/** Text as it is printed: nothing in it that a terminal obeys or that makes `grep` take the output for binary. */

/** Writes control characters, invisible ones and lone surrogates as `\u` and their number. */
export const plain = (text: string): string =>
  text.replace(/[\p{C}\p{Zl}\p{Zp}]/gu, (char) => {
    const hex = (char.codePointAt(0) ?? 0).toString(16);
    return hex.length > 4 ? `\\u{${hex}}` : `\\u${hex.padStart(4, "0")}`;
  });
