/** Finds dangerous parts of HTML with Bun's HTMLRewriter, a second parser that shares no code with the sanitiser. */

const FORBIDDEN = new Set(
  (
    "script style iframe frame frameset object embed applet base meta link form input button select option textarea " +
    "svg math template noscript noembed noframes xmp plaintext title video audio source track canvas portal dialog marquee"
  ).split(" "),
);
const URL_ATTRIBUTES = new Set(
  "href src action formaction data background poster cite longdesc lowsrc dynsrc srcset ping".split(" "),
);
const LOADS = /url\s*\(|@import|expression|behavior|-moz-binding|image-set|\\/i;
const OVERLAYS = /position|z-index|opacity|transform|(?:^|[\s:,])-\d|\d(?:vw|vh)/i;

/** Returns a line for each element, attribute or URL that must not be in the HTML. */
export function dangersIn(html: string): string[] {
  const dangers: string[] = [];
  new HTMLRewriter()
    .on("*", {
      element(element) {
        const tag = element.tagName.toLowerCase();
        if (FORBIDDEN.has(tag)) dangers.push(`element ${tag}`);
        for (const [name, value] of element.attributes) dangers.push(...dangersOf(tag, name.toLowerCase(), value));
      },
    })
    .onDocument({
      comments(comment) {
        dangers.push(`comment ${comment.text}`);
      },
    })
    .transform(html);
  return dangers;
}

function dangersOf(tag: string, name: string, raw: string): string[] {
  const value = decodeEntities(raw);
  if (name.startsWith("on")) return [`handler ${name}`];
  if (["id", "name", "class", "srcdoc", "formaction", "ping", "is"].includes(name)) return [`attribute ${name}`];
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
