/** Finds dangerous parts of HTML with Bun's HTMLRewriter, a second parser that shares no code with the sanitiser. */

const FORBIDDEN = new Set(
  (
    "script iframe frame frameset object embed applet base meta link form input button select option textarea " +
    "svg math template noscript noembed noframes xmp plaintext title video audio source track canvas portal dialog marquee"
  ).split(" "),
);
const URL_ATTRIBUTES = new Set(
  "href src action formaction data background poster cite longdesc lowsrc dynsrc srcset ping".split(" "),
);
const LOADS = /url\s*\(|@import|expression|behavior|-moz-binding|image-set|\\/i;
const OVERLAYS = /position\s*:|z-index|transform\s*:|\d(?:vw|vh)/i;
/** The classes of one mail, as it is shown. */
const SCOPE = /^m[a-p]{16}(?:[-_][\w-]+)?$/;

/** Returns a line for each element, attribute or URL that must not be in the HTML. */
export function dangersIn(html: string): string[] {
  const dangers: string[] = [];
  let inStyle = false;
  let sheet = "";
  new HTMLRewriter()
    .on("*", {
      element(element) {
        const tag = element.tagName.toLowerCase();
        if (FORBIDDEN.has(tag)) dangers.push(`element ${tag}`);
        inStyle = tag === "style";
        for (const [name, value] of element.attributes) dangers.push(...dangersOf(tag, name.toLowerCase(), value));
      },
    })
    .onDocument({
      comments(comment) {
        dangers.push(`comment ${comment.text}`);
      },
      text(chunk) {
        if (inStyle) sheet += chunk.text;
        if (!chunk.lastInTextNode || !inStyle) return;
        dangers.push(...dangersOfSheet(sheet));
        sheet = "";
        inStyle = false;
      },
    })
    .transform(html);
  return dangers;
}

/** Sheets that load, overlay, or reach beyond the mail. */
function dangersOfSheet(sheet: string): string[] {
  const selectors = [...sheet.matchAll(/([^{}]+)\{/g)].map(([, prelude = ""]) => prelude.trim());
  const loose = selectors
    .filter((prelude) => !/^@(?:media|supports) /.test(prelude))
    .flatMap((prelude) => selectorsOf(prelude).filter((one) => !/^\.m[a-p]{16}(?![\w-])/.test(one)));
  return [
    ...loose.map((one) => `selector ${one}`),
    ...(LOADS.test(sheet) || OVERLAYS.test(sheet) || sheet.includes("<") ? [`sheet ${sheet}`] : []),
  ];
}

/** Splits at the commas outside of parentheses. */
function selectorsOf(prelude: string): string[] {
  let depth = 0;
  return prelude
    .split(/([(),])/)
    .reduce<string[]>(
      (all, piece) => {
        if (piece === "(") depth++;
        if (piece === ")") depth--;
        if (piece === "," && depth === 0) all.push("");
        else all.push((all.pop() ?? "") + piece);
        return all;
      },
      [""],
    )
    .map((one) => one.trim());
}

function dangersOf(tag: string, name: string, raw: string): string[] {
  const value = decodeEntities(raw);
  if (name.startsWith("on")) return [`handler ${name}`];
  if (name === "class")
    return value
      .split(" ")
      .filter((one) => !SCOPE.test(one))
      .map((one) => `class ${one}`);
  if (["id", "name", "srcdoc", "formaction", "ping", "is"].includes(name)) return [`attribute ${name}`];
  if (name === "style" && (LOADS.test(value) || OVERLAYS.test(value))) return [`style ${value}`];
  if (!URL_ATTRIBUTES.has(name)) return [];
  const url = [...value].filter((character) => character > " ").join("");
  const isImage =
    tag === "img" && name === "src" && /^(?:https?:\/\/|cid:|data:image\/(?:png|gif|jpe?g|webp|bmp|avif);)/i.test(url);
  const isLink = tag === "a" && name === "href" && /^(?:https?:\/\/|mailto:|tel:)/i.test(url);
  return isImage || isLink ? [] : [`${tag} ${name}=${url}`];
}

function decodeEntities(text: string): string {
  return text
    .replace(/&#x([0-9a-f]+);?/gi, (_, hex: string) => String.fromCodePoint(Number.parseInt(hex, 16)))
    .replace(/&#(\d+);?/g, (_, number: string) => String.fromCodePoint(Number(number)))
    .replaceAll("&lt;", "<")
    .replaceAll("&gt;", ">")
    .replaceAll("&quot;", '"')
    .replaceAll("&amp;", "&");
}
