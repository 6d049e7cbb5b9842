/** Names of IMAP folders on disk: modified UTF-7 (RFC 3501 §5.1.3). */

/** What is no modified UTF-7 stays as it is. */
export const decodeFolderName = (name: string): string =>
  name.replace(/&([A-Za-z0-9+,]*)-/g, (_, encoded: string) => {
    if (encoded === "") return "&";
    const bytes = Buffer.from(encoded.replaceAll(",", "/"), "base64");
    return bytes
      .subarray(0, bytes.length & ~1)
      .swap16()
      .toString("utf16le");
  });
