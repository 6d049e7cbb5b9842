/**
 * The text of a workbook (ECMA-376-1 §18): sheets in order, each under its name, a row a line, cells separated by tabs,
 * values as they are shown as far as dates and percentages go. Hidden sheets, rows and columns are left out and counted.
 */
import type { Archive } from "./archive.ts";
import { Enough, type Text } from "./extracted-text.ts";

/** Rows of all sheets that are read. */
const MOST_ROWS = 100_000;
/** Most empty cells that a row shows before a cell. */
const MOST_EMPTY = 100;
const DAY_MS = 86_400_000;

type Format = "general" | "date" | "time" | "dateTime" | "duration" | "percent";

interface Sheet {
  name: string;
  hidden: boolean;
  part: string | undefined;
}

export async function readXlsx(archive: Archive, main: string, text: Text): Promise<void> {
  const relations = await archive.readPartRelations(main);
  const part = (kind: string) => [...relations.values()].find((one) => one.kind === kind)?.target;
  const sheets: Sheet[] = [];
  let epoch = Date.UTC(1899, 11, 30);
  await archive.read(main, {
    open(name, { name: called = "", state = "visible", date1904 = "0", ":id": id = "" }) {
      if (name === "workbookPr" && ["1", "true"].includes(date1904)) epoch = Date.UTC(1904, 0, 1);
      if (name !== "sheet") return;
      const relation = relations.get(id);
      const target = relation?.kind === "worksheet" ? relation.target : undefined;
      sheets.push({ name: called, hidden: state !== "visible", part: target });
    },
  });
  const strings = await readStrings(archive, part("sharedStrings"), text);
  const formats = await readFormats(archive, part("styles"));
  const rows = { left: MOST_ROWS };
  for (const sheet of sheets) {
    if (sheet.hidden) text.leaveOut("hidden sheets");
    else if (sheet.part !== undefined) await readSheet(archive, sheet as Sheet & { part: string });
  }

  async function readSheet(archive: Archive, { name: called, part }: Sheet & { part: string }): Promise<void> {
    text.title(`# Sheet: ${called}`);
    const hiddenColumns: { min: number; max: number }[] = [];
    const left = new Set<number>();
    let rowsHide = false;
    let row: { hidden: boolean; shown: number } | undefined;
    let cell: { column: number; type: string; style: string; value: string } | undefined;
    let next = 1;
    let inValue = false;
    let phonetic = 0;

    function endCell({ column, type, style, value }: NonNullable<typeof cell>): void {
      text.look();
      if (!row || row.hidden || value === "") return;
      if (hiddenColumns.some(({ min, max }) => column >= min && column <= max)) {
        left.add(column);
        return;
      }
      const tabs = column - Math.max(1, row.shown);
      if (tabs > 0) text.add("\t".repeat(Math.min(MOST_EMPTY, tabs)));
      row.shown = column;
      text.add(shownValue(type, value, formats[Number(style)] ?? "general"));
    }

    function shownValue(type: string, value: string, format: Format): string {
      if (type === "s") return oneLine(strings[Number(value)] ?? "");
      if (type === "b") return value === "1" ? "TRUE" : "FALSE";
      return type === "n" ? shownNumber(value, format, epoch) : oneLine(value);
    }

    await archive.read(part, {
      open(name, attributes) {
        if (name === "rPh") phonetic++;
        else if (name === "sheetFormatPr") rowsHide = isTrue(attributes.zeroHeight);
        else if (name === "col" && isTrue(attributes.hidden)) {
          hiddenColumns.push({ min: Number(attributes.min), max: Number(attributes.max) });
        } else if (name === "row") {
          if (rows.left-- === 0) throw new Enough(`what follows the first ${MOST_ROWS} rows`);
          next = 1;
          row = { hidden: attributes.hidden === undefined ? rowsHide : isTrue(attributes.hidden), shown: 0 };
          if (row.hidden) text.leaveOut("hidden rows");
        } else if (name === "c") {
          const column = readColumnNumber(attributes.r) ?? next;
          next = column + 1;
          cell = { column, type: attributes.t ?? "n", style: attributes.s ?? "0", value: "" };
        } else if (cell && (name === "v" || name === "t")) inValue = phonetic === 0;
      },
      text(piece) {
        if (cell && inValue) cell.value += piece;
      },
      close(name) {
        if (name === "v" || name === "t") inValue = false;
        else if (name === "rPh") phonetic--;
        else if (name === "c" && cell) {
          endCell(cell);
          cell = undefined;
        } else if (name === "row") {
          text.endLine();
          row = undefined;
        }
      },
    });
    text.leaveOut("hidden columns", left.size);
    await readComments(archive, part, text);
  }
}

async function readComments(archive: Archive, sheet: string, text: Text): Promise<void> {
  for (const { kind, target } of (await archive.readPartRelations(sheet)).values()) {
    if (kind !== "comments") continue;
    let isFirst = true;
    let inText = false;
    await archive.read(target, {
      open(name, { ref = "" }) {
        if (name === "comment") {
          if (isFirst) text.title("Comments:");
          isFirst = false;
          text.add(`${ref}: `);
        }
        inText = name === "t";
      },
      text(piece) {
        if (inText) text.add(oneLine(piece));
      },
      close(name) {
        inText = false;
        if (name === "comment") text.endLine();
      },
    });
  }
}

const isTrue = (value = "0"): boolean => ["1", "true"].includes(value);

const oneLine = (value: string): string => value.replace(/\s+/g, " ").trim();

/** `B3` → 2. */
function readColumnNumber(reference: string | undefined): number | undefined {
  const letters = /^[A-Z]{1,3}/.exec(reference ?? "")?.[0];
  return (letters && [...letters].reduce((sum, letter) => sum * 26 + letter.charCodeAt(0) - 64, 0)) || undefined;
}

/** Strings that cells name by number. */
async function readStrings(archive: Archive, part: string | undefined, text: Text): Promise<string[]> {
  const strings: string[] = [];
  let string = "";
  let inText = false;
  let phonetic = 0;
  if (part === undefined) return strings;
  await archive.read(part, {
    open(name) {
      if (name === "si") string = "";
      else if (name === "rPh") phonetic++;
      else if (name === "t") inText = phonetic === 0;
    },
    text(piece) {
      if (inText) string += piece;
    },
    close(name) {
      if (name === "t") inText = false;
      else if (name === "rPh") phonetic--;
      else if (name === "si") {
        text.look();
        strings.push(string);
      }
    },
  });
  return strings;
}

/** Formats by the number of a cell's style (§18.8.30). */
async function readFormats(archive: Archive, part: string | undefined): Promise<Format[]> {
  const codes = new Map<string, Format>();
  const formats: Format[] = [];
  let inCells = false;
  if (part === undefined) return formats;
  await archive.read(part, {
    open(name, { numFmtId = "0", formatCode = "" }) {
      if (name === "numFmt") codes.set(numFmtId, parseNumberFormat(formatCode));
      else if (name === "cellXfs") inCells = true;
      else if (name === "xf" && inCells) formats.push(codes.get(numFmtId) ?? BUILT_IN[Number(numFmtId)] ?? "general");
    },
    close(name) {
      if (name === "cellXfs") inCells = false;
    },
  });
  return formats;
}

/** Numbers of formats that files do not define, also those of East Asian editions. */
const BUILT_IN: Readonly<Record<number, Format>> = Object.fromEntries([
  ...[9, 10].map((id) => [id, "percent"]),
  ...[14, 15, 16, 17, 27, 28, 29, 30, 31, 36, 50, 51, 52, 53, 54, 57, 58].map((id) => [id, "date"]),
  ...[18, 19, 20, 21, 32, 33, 34, 35, 45, 47, 55, 56].map((id) => [id, "time"]),
  [22, "dateTime"],
  [46, "duration"],
]);

/** Characters of a format that Excel takes. */
const LONGEST_FORMAT = 255;

/** The kind of a format that a file defines, by its section for positive numbers. */
function parseNumberFormat(code: string): Format {
  const [first = ""] = code
    .slice(0, LONGEST_FORMAT)
    .replace(/"[^"]*"|\\.|[_*].|AM\/PM|A\/P/gi, "")
    .split(";");
  if (/\[[hms]+\]/i.test(first)) return "duration";
  const plain = first.replace(/\[[^\]]*\]|general/gi, "");
  const hasTime = /[hs]/i.test(plain);
  // Next to hours or seconds, m is minutes.
  const hasDate = /[ymd]/i.test(plain.replace(/h+[^ymdhs]*m+|m+[^ymdhs]*s+/gi, ""));
  if (hasDate) return hasTime ? "dateTime" : "date";
  if (hasTime) return "time";
  return plain.includes("%") ? "percent" : "general";
}

function shownNumber(value: string, format: Format, epoch: number): string {
  const number = Number(value);
  if (value.trim() === "" || !Number.isFinite(number)) return oneLine(value);
  if (format === "percent") return `${digits(number * 100)}%`;
  const date = new Date(epoch + Math.round(number * DAY_MS));
  if (format === "general" || number < 0 || Number.isNaN(date.getTime())) return digits(number);
  const [day = "", time = ""] = date
    .toISOString()
    .replace(/\.\d+Z$/, "")
    .split("T");
  if (format === "duration") return `${Math.floor(number) * 24 + date.getUTCHours()}${time.slice(2)}`;
  if (format === "time" && number < 1) return time;
  return format === "date" || time === "00:00:00" ? day : `${day} ${time}`;
}

/** Fifteen digits, as spreadsheets show them. */
const digits = (number: number): string => String(Number(number.toPrecision(15)));
