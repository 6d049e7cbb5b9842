/**
 * Whether a message says something that none of its parts holds, so that it would be neither shown nor attached.
 *
 * RFC 2046 §5.1.1 has readers ignore what stands before, between and behind the parts. Yet a reader that finds other
 * delimiters shows it, and what is lost here would be seen there. A note for readers without MIME is passed over.
 */
import { isDecodedWhole } from "./decode.ts";
import { boundaryOf, type Part } from "./structure.ts";

/** What a message says outside its parts, in words that tell none of it; undefined when that is nothing. Linear. */
export function leftOut(bytes: Buffer, root: Part): string | undefined {
  const boundaries = new Set<string>();
  const gaps: [start: number, end: number][] = [];
  let position = 0;
  let problem: string | undefined;
  const walk = (part: Part) => {
    gaps.push([position, part.header.start]);
    if (part.header.doubtful) problem ??= "where a header ends is doubtful";
    if (part !== root && part.header.fields.some(({ name }) => !isPartField(name)))
      problem ??= "text in a part's header";
    position = Math.max(position, part.header.bodyStart);
    boundaries.add(boundaryOf(part.header.fields));
    if (part.children.length === 0) position = Math.max(position, part.end);
    if (part.children.length === 0 && !isDecodedWhole(bytes, part)) problem ??= "more than the base64 it is said to be";
    for (const child of part.children) walk(child);
  };
  walk(root);
  gaps.push([position, bytes.length]);
  if (problem !== undefined) return problem;
  return gaps.some(([start, end]) => hasText(bytes, start, end, boundaries)) ? "text outside the parts" : undefined;
}

/** RFC 2046 §5.1: no other field has a meaning in the header of a part. */
const isPartField = (name: string): boolean => /^(?:content-|x-|mime-version$)/i.test(name);

/** Whether there is anything in a gap between parts but delimiters and a note. */
function hasText(bytes: Buffer, start: number, end: number, boundaries: ReadonlySet<string>): boolean {
  let note = "";
  for (let at = start; at < end; ) {
    const lineEnd = bytes.indexOf(0x0a, at);
    const next = lineEnd < 0 ? end : Math.min(end, lineEnd + 1);
    if (!isBlank(bytes, at, next) && !isDelimiter(bytes, at, next, boundaries)) {
      if (note.length + next - at > LONGEST_NOTE) return true;
      note += bytes.toString("latin1", at, next);
    }
    at = next;
  }
  return !isNote(note);
}

function isBlank(bytes: Buffer, start: number, end: number): boolean {
  let i = start;
  while (i < end && (bytes[i] as number) <= 0x20) i++;
  return i === end;
}

function isDelimiter(bytes: Buffer, start: number, end: number, boundaries: ReadonlySet<string>): boolean {
  if (end - start > 1_024 || bytes[start] !== 0x2d || bytes[start + 1] !== 0x2d) return false;
  const boundary = bytes.toString("latin1", start + 2, end).trimEnd();
  return boundaries.has(boundary) || (boundary.endsWith("--") && boundaries.has(boundary.slice(0, -2).trimEnd()));
}

const LONGEST_NOTE = 1_000;

/** The words of the notes that mailers write; with them little else can be said. */
const NOTE_WORDS = new Set(
  `a able agent all an and any apparently appear are ask be below by can cannot capable client compliant composed consider contain containing
  contains could cryptographically decoding delivery different digitally display does either email e-mail encapsulated encoded encrypted end
  ends epilogue for format formatted formats general handle if ignore ignored in information into is it know legible mail mailer may
  mean means message messages mime mime-capable mime-encapsulated mime-encoded mime-formatted mime-aware mime-compliant multi multi-part
  multipart multipart/alternative multipart/mixed multipart/related multipart/report multipart/signed need newer not notification
  of openpgp openpgp/mime or part parts pgp pgp/mime portions preamble probably program properly read reader readers reading
  require resend rfc s/mime see sender separate should signed since smime software some status structure support supported supports
  text than that the then this through to under understand unable unreadable upgrade use used user using utility version view viewer want was we
  which with without you your`.split(/\s+/),
);

/** Whether a text says no more than that a message is in MIME: RFC 2046 §5.1.1 foresees such notes. */
function isNote(text: string): boolean {
  const words = text.toLowerCase().match(/[^\s.,:;!?"'()[\]]+/g) ?? [];
  return words.every((word) => NOTE_WORDS.has(word) || /^[=_*-]+$/.test(word) || /^\d{4}$/.test(word));
}
