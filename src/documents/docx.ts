/**
 * The text of a Word document (ECMA-376-1 §17), as a reader of the final version sees it: deleted and hidden text is
 * left out and counted. Body first, then notes, comments, headers and footers.
 */
import type { XmlReader } from "../message/markup.ts";
import type { Archive, Relation } from "./archive.ts";
import type { Text } from "./extracted-text.ts";

const BREAK = "--- page break ---";
const DELETED = "characters of deleted text";
const HIDDEN = "characters of hidden text";

/** A property that is on or off (§17.17.4). */
const isOn = ({ ":val": value = "true" }: Record<string, string>): boolean => !["false", "0", "off"].includes(value);

export async function readDocx(archive: Archive, main: string, text: Text): Promise<void> {
  const relations = await archive.readPartRelations(main);
  const listRelationsByKind = (kind: string) =>
    [...relations.values()].filter((one) => one.kind === kind && !one.external);
  const hiding = new Set<string>();
  for (const { target } of listRelationsByKind("styles"))
    for (const id of await hidingStyles(archive, target)) hiding.add(id);
  await archive.read(main, createReader(text, hiding, relations));
  for (const [kind, title] of [
    ["footnotes", "Footnotes"],
    ["endnotes", "Endnotes"],
    ["comments", "Comments"],
    ["header", "Page headers"],
    ["footer", "Page footers"],
  ] as const) {
    let isFirst = true;
    for (const { target } of listRelationsByKind(kind)) {
      const links = await archive.readPartRelations(target);
      const begin = (): void => {
        if (isFirst) text.title(`# ${title}`);
        isFirst = false;
      };
      await archive.read(target, createReader(text, hiding, links, begin));
    }
  }
}

/** Ids of styles whose text is hidden, themselves or by a style that they are based on. */
async function hidingStyles(archive: Archive, part: string): Promise<Set<string>> {
  const styles = new Map<string, { hides?: boolean; basedOn?: string }>();
  let id: string | undefined;
  await archive.read(part, {
    open(name, attributes) {
      if (name === "style") {
        id = attributes[":styleId"];
        if (id !== undefined) styles.set(id, {});
      }
      const style = id === undefined ? undefined : styles.get(id);
      if (name === "vanish" && style) style.hides = isOn(attributes);
      if (name === "basedOn" && style && attributes[":val"] !== undefined) style.basedOn = attributes[":val"];
    },
    close(name) {
      if (name === "style") id = undefined;
    },
  });
  const hides = (from: string): boolean => {
    const seen = new Set<string>();
    for (let at: string | undefined = from; at !== undefined && !seen.has(at); at = styles.get(at)?.basedOn) {
      seen.add(at);
      const own = styles.get(at)?.hides;
      if (own !== undefined) return own;
    }
    return false;
  };
  return new Set(
    [...styles].filter(([id, { hides: own, basedOn }]) => (own ?? basedOn) && hides(id)).map(([id]) => id),
  );
}

/** The place where text goes. A text box has one of its own, since it stands inside a paragraph. */
interface Story {
  write(text: string): void;
  inRun: boolean;
  /** The run, and the paragraph, are hidden. */
  runHides: boolean;
  paragraphHides: boolean;
  /** Numbers of open tables and of the cells so far in the row. */
  tables: number;
  cells: number;
  /** Something stands before the next paragraph of the cell. */
  separates: boolean;
}

/** `begin` is called before the first text. */
function createReader(
  text: Text,
  hiding: ReadonlySet<string>,
  relations: ReadonlyMap<string, Relation>,
  begin = (): void => {},
): XmlReader {
  const openStory = (write: (text: string) => void): Story => ({
    write,
    inRun: false,
    runHides: false,
    paragraphHides: false,
    tables: 0,
    cells: 0,
    separates: false,
  });
  let story = openStory((piece) => {
    begin();
    text.add(piece);
  });
  const outer: Story[] = [];
  /** Text of the text boxes in the paragraph. */
  let boxes = "";
  /** Number of open elements that are left out, the outermost first, and why. */
  let leaving = 0;
  let why: string | undefined;
  let inText = false;
  const links: string[] = [];
  /** Characters to write before the next text: the number of a note or the author of a comment, and a bullet. */
  let prefix = "";
  let bullet = "";

  function put(piece: string): void {
    if (story.separates) story.write(" ");
    story.separates = false;
    if (prefix + bullet !== "") story.write(prefix + bullet);
    prefix = "";
    bullet = "";
    story.write(piece);
  }

  function putShown(piece: string): void {
    if (story.runHides || story.paragraphHides) text.leaveOut(HIDDEN, piece.length);
    else put(piece);
  }

  function leave(reason?: string): void {
    leaving = 1;
    why = reason;
  }

  function endParagraph(): void {
    if (story.tables > 0) story.separates = true;
    else story.write("\n");
    story.paragraphHides = false;
    if (outer.length > 0 || boxes === "") return;
    const boxed = boxes;
    boxes = "";
    story.write(boxed);
  }

  const inRun: Record<string, (attributes: Record<string, string>) => void> = {
    tab: () => putShown("\t"),
    br: ({ ":type": type }) => putShown(type === "page" ? `\n\n${BREAK}\n\n` : "\n"),
    cr: () => putShown("\n"),
    noBreakHyphen: () => putShown("-"),
    footnoteReference: ({ ":id": id = "" }) => putShown(`[${id}]`),
    endnoteReference: ({ ":id": id = "" }) => putShown(`[${id}]`),
    vanish(attributes) {
      story.runHides = isOn(attributes);
    },
    rStyle({ ":val": style = "" }) {
      story.runHides ||= hiding.has(style);
    },
  };

  const anywhere: Record<string, (attributes: Record<string, string>) => void> = {
    p() {
      bullet = "";
    },
    r() {
      story.inRun = true;
      story.runHides = false;
    },
    t() {
      inText = true;
    },
    del: () => leave(DELETED),
    // Stands in a moveTo, too.
    moveFrom: () => leave(),
    // The same as the Choice beside it, for older programs.
    Fallback: () => leave(),
    // Properties before a tracked change.
    rPrChange: () => leave(),
    pPrChange: () => leave(),
    pStyle({ ":val": style = "" }) {
      story.paragraphHides = hiding.has(style);
    },
    numPr() {
      bullet = "- ";
    },
    hyperlink({ ":id": id = "" }) {
      const { external, target } = relations.get(id) ?? {};
      links.push(external && target ? target : "");
    },
    tbl() {
      story.tables++;
      story.separates = false;
    },
    tr() {
      story.cells = 0;
    },
    tc() {
      if (story.cells++ > 0) story.write("\t");
      story.separates = false;
    },
    footnote: ({ ":type": type, ":id": id = "" }) => (type === undefined ? startNote(`[${id}] `) : leave()),
    endnote: ({ ":type": type, ":id": id = "" }) => (type === undefined ? startNote(`[${id}] `) : leave()),
    comment: ({ ":author": author = "" }) => startNote(`${author}: `),
    txbxContent() {
      outer.push(story);
      story = openStory((piece) => {
        text.look();
        boxes += piece;
      });
    },
  };
  function startNote(name: string): void {
    prefix = name;
  }

  return {
    open(name, attributes) {
      if (leaving > 0) leaving++;
      else if (story.inRun && Object.hasOwn(inRun, name)) inRun[name]?.(attributes);
      else if (Object.hasOwn(anywhere, name)) anywhere[name]?.(attributes);
    },
    text(piece) {
      if (leaving > 0) {
        if (why !== undefined) text.leaveOut(why, piece.trim().length);
      } else if (inText) putShown(piece);
    },
    close(name) {
      if (leaving > 0) {
        leaving--;
        return;
      }
      if (name === "t") inText = false;
      else if (name === "r") story.inRun = false;
      else if (name === "p") endParagraph();
      else if (name === "hyperlink") {
        const link = links.pop();
        if (link) putShown(` <${link}>`);
      } else if (name === "tr") {
        story.write(story.tables > 1 ? "; " : "\n");
        story.separates = false;
      } else if (name === "tbl") story.tables--;
      else if (name === "txbxContent") story = outer.pop() ?? story;
    },
  };
}
