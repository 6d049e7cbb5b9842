/** The API of html-to-text that text.ts uses; the package ships no types. */
declare module "html-to-text" {
  interface Element {
    name: string;
    attribs?: Record<string, string>;
    children?: Element[];
  }
  interface TextBuilder {
    addInline(text: string): void;
    options: { formatters: Record<"blockquote" | "unorderedList" | "orderedList", Formatter> };
  }
  export type Formatter = (
    element: Element,
    walk: unknown,
    builder: TextBuilder,
    options: Record<string, unknown>,
  ) => void;
  interface Options {
    wordwrap?: number | false;
    baseElements?: { selectors: string[] };
    limits?: { maxDepth?: number; maxInputLength?: number; ellipsis?: string };
    formatters?: Record<string, Formatter>;
    selectors?: { selector: string; format?: string; options?: Record<string, unknown> }[];
  }
  export function compile(options: Options): (html: string) => string;
}
