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
