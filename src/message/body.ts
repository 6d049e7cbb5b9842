/**
 * Which parts of a message are shown and which are attached: the algorithm of RFC 8621 §4.1.4, without its inline
 * media, which are attachments here.
 *
 * Every leaf ends in at least one of the lists.
 */
import type { Part } from "./structure.ts";

export interface BodyParts {
  /** What makes up the plain text, in order; HTML where an alternative has no text. */
  text: Part[];
  /** What makes up the HTML, in order; texts where an alternative has no HTML. */
  html: Part[];
  attachments: Part[];
}

export function chooseBody(root: Part): BodyParts {
  const body: BodyParts = { text: [], html: [], attachments: [] };
  sortParts([root], "mixed", body.text, body.html, body.attachments);
  return body;
}

/** `text` or `html` undefined: inside an alternative that already is of the other kind. */
function sortParts(
  parts: readonly Part[],
  multipart: string,
  text: Part[] | undefined,
  html: Part[] | undefined,
  attachments: Part[],
  inAlternative = false,
): void {
  const textsBefore = text?.length ?? -1;
  const htmlsBefore = html?.length ?? -1;
  for (const [index, part] of parts.entries()) {
    if (part.children.length > 0) {
      const subtype = part.type.slice("multipart/".length);
      sortParts(part.children, subtype, text, html, attachments, inAlternative || subtype === "alternative");
    } else if (!isShown(part, index, multipart)) {
      attachments.push(part);
    } else if (multipart === "alternative") {
      (part.type === "text/html" ? html : text)?.push(part);
      if ((part.type === "text/html" ? html : text) === undefined) attachments.push(part);
    } else {
      if (inAlternative) {
        if (part.type === "text/html") text = undefined;
        else html = undefined;
      }
      text?.push(part);
      html?.push(part);
      if (text === undefined && html === undefined) attachments.push(part);
    }
  }
  if (multipart === "alternative" && text !== undefined && html !== undefined) {
    // Only one kind came: it stands for both.
    if (text.length === textsBefore) text.push(...html.slice(htmlsBefore));
    else if (html.length === htmlsBefore) html.push(...text.slice(textsBefore));
  }
}

/** A text that is not meant as a file: of several beside each other, only the first may have a name. */
function isShown(part: Part, index: number, multipart: string): boolean {
  if (part.type !== "text/plain" && part.type !== "text/html") return false;
  const { value, parameters } = part.disposition;
  // RFC 2183 §2.8: an unknown disposition means attachment; what is not even a token means nothing.
  if (value !== "inline" && /^[a-z0-9-]+$/.test(value)) return false;
  return index === 0 || (multipart !== "related" && !isNamed(parameters) && !isNamed(part.contentType.parameters));
}

function isNamed(parameters: Map<string, string>): boolean {
  for (const name of parameters.keys()) if (/^(?:file)?name(?:\*|$)/.test(name)) return true;
  return false;
}
