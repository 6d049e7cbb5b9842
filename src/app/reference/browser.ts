/**
 * The script of the API reference: finds sections while the person types, copies code, and marks the present section in
 * the contents. The page can be read without it.
 */
import "./reference.css";

function required<T extends Element>(selector: string, within: ParentNode = document): T {
  const found = within.querySelector<T>(selector);
  if (!found) throw new Error(`the page has no ${selector}`);
  return found;
}

const contents = required<HTMLElement>("#contents");
const linkTo = (id: string): HTMLAnchorElement => required(`a[href="#${CSS.escape(id)}"]`, contents);
const sections = [...document.querySelectorAll<HTMLElement>("main section")];

/** Shows only the sections that contain every word, and the links to them. */
function find(query: string): void {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  let found = 0;
  for (const section of sections) {
    const text = `${section.dataset.find} ${section.querySelector(".said")?.textContent}`.toLowerCase();
    const matches = words.every((word) => text.includes(word));
    section.hidden = !matches;
    const item = linkTo(section.id).closest("li");
    if (item) item.hidden = !matches;
    if (matches) found += 1;
  }
  for (const part of document.querySelectorAll<HTMLElement>(".part")) {
    part.hidden = !part.querySelector("section:not([hidden]), li:not([hidden])");
  }
  required<HTMLElement>("#nothing").hidden = found > 0;
  required("#found").textContent = words.length === 0 ? "" : found === 1 ? "1 section" : `${found} sections`;
}

required<HTMLElement>("#find").hidden = false;
const input = required<HTMLInputElement>("#find input");
input.addEventListener("input", () => find(input.value));
input.addEventListener("keydown", ({ key }) => {
  if (key !== "Escape" && key !== "Enter") return;
  const first = sections.find(({ hidden }) => !hidden);
  input.value = "";
  find("");
  if (key === "Enter" && first) linkTo(first.id).click();
});
document.addEventListener("keydown", (event) => {
  const isTyping = event.target instanceof HTMLInputElement;
  if (event.key !== "/" || isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  input.focus();
  input.select();
});

contents.addEventListener("click", ({ target }) => {
  if (target instanceof HTMLAnchorElement && contents.matches(":popover-open")) contents.hidePopover();
});

for (const figure of document.querySelectorAll("figure.code")) {
  const caption = required("figcaption", figure);
  const button = document.createElement("button");
  const title = caption.textContent;
  const say = (word: string): void => {
    button.textContent = word;
    button.setAttribute("aria-label", `${word}: ${title}`);
  };
  button.type = "button";
  say("Copy");
  button.addEventListener("click", async () => {
    const code = required("pre", figure);
    try {
      await navigator.clipboard.writeText(code.textContent ?? "");
      say("Copied");
    } catch {
      // Browsers give pages a clipboard only over https.
      getSelection()?.selectAllChildren(code);
      say("Marked");
    }
  });
  caption.append(button);
}

/** The key that requests of this page have. It is stored nowhere, and forgotten with the page. */
let key = "";
/** Characters of an answer that are shown. */
const LONGEST_SHOWN = 50_000;

function make<Tag extends keyof HTMLElementTagNameMap>(
  tag: Tag,
  properties: Partial<HTMLElementTagNameMap[Tag]> = {},
  ...children: (Node | string)[]
): HTMLElementTagNameMap[Tag] {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

const labelled = (text: string, field: HTMLElement): HTMLElement => make("label", {}, text, field);

/** Sends what the form says to this server's API. */
async function send(method: string, path: string, body: string | undefined): Promise<{ said: string; text: string }> {
  const url = new URL(path, location.origin);
  if (url.origin !== location.origin || !url.pathname.startsWith("/api/")) {
    return { said: "The path has to begin with /api/", text: "" };
  }
  const headers = { authorization: `Bearer ${key}`, ...(body !== undefined && { "content-type": "application/json" }) };
  try {
    const response = await fetch(url, { method, headers, credentials: "omit", ...(body !== undefined && { body }) });
    const text = (await response.text()).slice(0, LONGEST_SHOWN);
    const isJson = response.headers.get("content-type")?.startsWith("application/json");
    const shown = isJson && text.length < LONGEST_SHOWN ? JSON.stringify(JSON.parse(text), null, 2) : text;
    return { said: `${response.status} ${response.statusText}`, text: shown };
  } catch {
    return { said: "The server did not answer", text: "" };
  }
}

/** A form that sends the request of an operation, with a key of the reader's. */
function trial({ dataset: { method = "GET", path = "", body } }: HTMLElement): HTMLElement[] {
  const secret = make("input", {
    type: "password",
    autocomplete: "off",
    required: true,
    value: key,
    placeholder: "mr_…",
  });
  const place = make("input", { value: path, required: true, spellcheck: false });
  const content = body === undefined ? undefined : make("textarea", { value: body, rows: 8, spellcheck: false });
  const button = make("button", { type: "submit" }, method === "GET" ? "Send" : `Send ${method}: it acts on your mail`);
  const said = make("p", { role: "status" });
  const answer = make("pre", { tabIndex: 0, hidden: true, ariaLabel: "Answer" });
  const form = make(
    "form",
    {},
    labelled("API key, which this page forgets", secret),
    labelled("Path", place),
    ...(content ? [labelled("Body", content)] : []),
    button,
  );
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    key = secret.value.trim();
    button.disabled = true;
    said.textContent = "Sending…";
    const result = await send(method, place.value, content?.value);
    button.disabled = false;
    said.textContent = result.said;
    answer.textContent = result.text;
    answer.hidden = result.text === "";
  });
  return [form, said, answer];
}

for (const shown of document.querySelectorAll<HTMLElement>("[data-method]")) {
  const details = make("details", { className: "try" }, make("summary", {}, "Try it"));
  details.addEventListener("toggle", () => {
    if (details.open && details.childElementCount === 1) details.append(...trial(shown));
  });
  required(".snippets", shown).after(details);
}

const seen = new Set<Element>();
const observer = new IntersectionObserver(
  (entries) => {
    for (const { target, isIntersecting } of entries) {
      if (isIntersecting) seen.add(target);
      else seen.delete(target);
    }
    const current = sections.find((section) => seen.has(section));
    if (!current) return;
    contents.querySelector('[aria-current="true"]')?.removeAttribute("aria-current");
    const link = linkTo(current.id);
    link.setAttribute("aria-current", "true");
    if (document.activeElement !== input) link.scrollIntoView({ block: "nearest" });
  },
  { rootMargin: "-80px 0px -60% 0px" },
);
for (const section of sections) observer.observe(section);
