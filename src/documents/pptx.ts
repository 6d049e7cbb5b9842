/**
 * The text of a presentation (ECMA-376-1 §19): slides in order, each under its number and title, with its comments and
 * the speaker's notes. Hidden slides and hidden shapes are left out and counted.
 */
import type { XmlReader } from "../message/markup.ts";
import type { Archive } from "./archive.ts";
import { Enough, type Text } from "./extracted-text.ts";

const MOST_SLIDES = 1_000;
/** Elements that are a shape or a group of shapes. */
const SHAPES = new Set(["sp", "pic", "graphicFrame", "grpSp", "cxnSp"]);

export async function readPptx(archive: Archive, main: string, text: Text): Promise<void> {
  const relations = await archive.readPartRelations(main);
  const slides: string[] = [];
  await archive.read(main, {
    open(name, { ":id": id = "" }) {
      const slide = name === "sldId" ? relations.get(id) : undefined;
      if (slide?.kind === "slide") slides.push(slide.target);
    },
  });
  for (const [index, slide] of slides.entries()) {
    if (index === MOST_SLIDES) throw new Enough(`slides ${MOST_SLIDES + 1} to ${slides.length}`);
    await readSlide(index + 1, slide);
  }

  async function readSlide(number: number, part: string): Promise<void> {
    const { hidden, title, body } = await readSlideText(archive, part, text, () => true);
    if (hidden) {
      text.leaveOut("hidden slides");
      return;
    }
    text.title(title === "" ? `# Slide ${number}` : `# Slide ${number}: ${title}`);
    text.add(body);
    for (const { kind, target } of (await archive.readPartRelations(part)).values()) {
      if (kind === "notesSlide") {
        const notes = await readSlideText(archive, target, text, (placeholder) => placeholder === "body");
        if (notes.body.trim() !== "") {
          text.title("Notes:");
          text.add(notes.body);
        }
      } else if (kind === "comments") await readComments(archive, target, text);
    }
  }
}

interface Slide {
  hidden: boolean;
  title: string;
  body: string;
}

/** The text of the shapes of a slide that are not hidden. `wants`: by the name of their placeholder, "" without. */
async function readSlideText(
  archive: Archive,
  part: string,
  text: Text,
  wants: (placeholder: string) => boolean,
): Promise<Slide> {
  const slide: Slide = { hidden: false, title: "", body: "" };
  /** `gap`: what stands before its next text. */
  const path: { hidden: boolean; placeholder: string; text: string; gap: string }[] = [];
  let leaving = 0;
  let inText = false;
  let tables = 0;
  let cells = 0;

  const reader: Required<XmlReader> = {
    open(name, attributes) {
      text.look();
      const shape = path.at(-1);
      if (leaving > 0 || name === "Fallback") leaving++;
      else if (name === "sld") slide.hidden = ["0", "false"].includes(attributes.show ?? "1");
      else if (SHAPES.has(name)) {
        path.push({ hidden: shape?.hidden ?? false, placeholder: "", text: "", gap: "" });
      } else if (!shape) return;
      else if (name === "cNvPr") shape.hidden ||= ["1", "true"].includes(attributes.hidden ?? "0");
      else if (name === "ph") shape.placeholder = attributes.type ?? "body";
      else if (name === "t") inText = true;
      else if (name === "br") shape.gap += "\n";
      else if (name === "tbl") tables++;
      else if (name === "tr") cells = 0;
      else if (name === "tc" && cells++ > 0) shape.gap = /^\t+$/.test(shape.gap) ? `${shape.gap}\t` : "\t";
    },
    text(piece) {
      const shape = path.at(-1);
      if (!shape || !inText || leaving > 0) return;
      shape.text += shape.text === "" ? piece : shape.gap + piece;
      shape.gap = "";
    },
    close(name) {
      if (leaving > 0) {
        leaving--;
        return;
      }
      const shape = path.at(-1);
      if (name === "t") inText = false;
      else if (!shape) return;
      else if (name === "p") shape.gap = tables === 0 ? `${shape.gap}\n` : shape.gap || " ";
      else if (name === "tr") shape.gap = "\n";
      else if (name === "tbl") tables--;
      else if (SHAPES.has(name)) endShape();
    },
  };

  function endShape(): void {
    const { hidden, placeholder, text: shown } = path.pop() as (typeof path)[number];
    if (shown.trim() === "" || placeholder === "sldNum" || !wants(placeholder)) return;
    if (hidden) text.leaveOut("hidden shapes");
    else if (slide.title === "" && /^(title|ctrTitle)$/.test(placeholder))
      slide.title = shown.trim().replace(/\s+/g, " ");
    else slide.body += `${shown.trimEnd()}\n`;
  }

  await archive.read(part, reader);
  return slide;
}

async function readComments(archive: Archive, part: string, text: Text): Promise<void> {
  let isFirst = true;
  let inText = false;
  await archive.read(part, {
    open(name) {
      if (name === "cm") {
        if (isFirst) text.title("Comments:");
        isFirst = false;
      }
      // Older ones have `text`, those that are answered in threads a text body.
      inText = name === "text" || name === "t";
    },
    text(piece) {
      if (inText) text.add(piece);
    },
    close(name) {
      inText = false;
      if (name === "cm") text.endLine();
    },
  });
}
