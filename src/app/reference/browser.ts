/**
 * The script of the API reference: finds sections while the person types, copies code, marks the present section in the
 * contents, gets a key of the reader's, and sends what they try. The page can be read without it.
 */
import { appRequest } from "../../operations/manifest.macro.ts" with { type: "macro" };
import type { AppRequest } from "../../operations/manifest.macro.ts";
import { formatTimeFromNow } from "../lib/time-format.ts";
import "./reference.css";

/** A field for trying an operation, as api/reference/sections.tsx writes it. */
interface TrialField {
  name: string;
  in: "path" | "query";
  required: boolean;
  example: string;
  choices?: string[];
}

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

// A language is chosen for the whole page.
document.addEventListener("change", ({ target }) => {
  if (!(target instanceof HTMLInputElement) || target.type !== "radio") return;
  const { top } = target.getBoundingClientRect();
  for (const other of document.querySelectorAll<HTMLInputElement>(`.snippets input[value="${target.value}"]`)) {
    other.checked = true;
  }
  // What is above may have another height now.
  scrollBy(0, target.getBoundingClientRect().top - top);
});

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

const credentials = [...document.querySelectorAll<HTMLElement>("[data-filled]")].map((element) => ({
  element,
  written: element.textContent ?? "",
}));

/** Uses a key from now on, in the examples, too; without one, they take it from the environment. */
function takeKey(given: string): void {
  key = given;
  for (const { element, written } of credentials) {
    element.textContent = key === "" ? written : (element.dataset.filled?.replace("KEY", key) ?? written);
  }
  for (const field of document.querySelectorAll<HTMLInputElement>(".secret")) field.value = key;
}

/** Asks the app's API, which a session admits and no key. */
function askApp([method, path]: AppRequest, body?: object): Promise<Response> {
  const json = body && { headers: { "content-type": "application/json" }, body: JSON.stringify(body) };
  return fetch(path, { method, ...json });
}

/** Scopes that the reader may give the key beside reading. */
const CHOICES = [
  ["write", "Organise mail, and draft"],
  ["send", "Send mail"],
  ["admin", "Administer the workspace"],
] as const;

const SIGN_IN = "You are not signed in here. Sign in in another tab, then try again.";

/** The button in the head of the page, and the dialog in which it makes a key. */
function offerKey(): void {
  const place = required<HTMLElement>("#key");
  const state = make("span", { role: "status" });
  const button = make("button", { type: "button" }, "Use my key");
  const forget = make("button", { type: "button", hidden: true }, "Forget key");
  place.append(state, button, forget);
  place.hidden = false;

  const title = make("h2", { id: "key-title" }, "Use my key");
  const choices = CHOICES.map(([value, text]) => {
    const box = make("input", { type: "checkbox", value });
    return { box, label: make("label", {}, box, ` ${text}`) };
  });
  const password = make("input", { type: "password", autocomplete: "current-password", maxLength: 1024 });
  const code = make("input", { autocomplete: "one-time-code", inputMode: "numeric", maxLength: 64 });
  const proof = make("div", { hidden: true }, labelled("Your password", password));
  const codeLabel = labelled("Code of your second factor", code);
  const status = make("p", { role: "alert" });
  const signIn = make(
    "p",
    { hidden: true },
    make("a", { href: "/sign-in", target: "_blank", rel: "noopener" }, "Sign in"),
  );
  const submit = make("button", { type: "submit", className: "primary" }, "Make a key");
  const cancel = make("button", { type: "button" }, "Cancel");
  const form = make(
    "form",
    {},
    title,
    make(
      "p",
      {},
      "Makes an API key of yours for this page: it ends after an hour, or when you sign out. Only this page sees it, and it is in your list of keys.",
    ),
    make("fieldset", {}, make("legend", {}, "It reads mail. It may also:"), ...choices.map(({ label }) => label)),
    status,
    proof,
    signIn,
    make("div", { className: "buttons" }, submit, cancel),
  );
  const dialog = make("dialog", {}, form);
  dialog.setAttribute("aria-labelledby", title.id);
  document.body.append(dialog);

  let ending: ReturnType<typeof setTimeout> | undefined;
  function drop(said: string): void {
    clearTimeout(ending);
    takeKey("");
    state.textContent = said;
    button.hidden = false;
    forget.hidden = true;
  }

  async function makeKey(): Promise<void> {
    status.textContent = "";
    if (!proof.hidden) {
      const given = { password: password.value, ...(proof.contains(codeLabel) && { code: code.value }) };
      const confirmed = await askApp(appRequest("confirmIdentity"), given);
      password.value = code.value = "";
      if (!confirmed.ok) {
        status.textContent = (await confirmed.json()).error;
        password.focus();
        return;
      }
    }
    const scopes = choices.filter(({ box }) => box.checked).map(({ box }) => box.value);
    const response = await askApp(appRequest("createReferenceKey"), { scopes });
    const answer = await response.json();
    if (response.ok) {
      takeKey(answer.key);
      clearTimeout(ending);
      ending = setTimeout(() => drop("Your key has ended"), answer.seconds * 1_000);
      state.textContent = `Your key, until ${formatTimeFromNow(answer.seconds * 1_000)}`;
      button.hidden = true;
      forget.hidden = false;
      proof.hidden = true;
      dialog.close();
      forget.focus();
    } else if (answer.confirm) {
      status.textContent = "Show that it is you:";
      if (answer.confirm.code) proof.append(codeLabel);
      proof.hidden = false;
      password.focus();
    } else {
      signIn.hidden = response.status !== 401;
      status.textContent = response.status === 401 ? SIGN_IN : answer.error;
    }
  }

  button.addEventListener("click", () => {
    status.textContent = "";
    signIn.hidden = true;
    dialog.showModal();
  });
  cancel.addEventListener("click", () => dialog.close());
  forget.addEventListener("click", () => {
    drop("");
    button.focus();
    // What cannot be ended now ends within the hour.
    askApp(appRequest("endReferenceKey")).catch(() => {});
  });
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    submit.disabled = true;
    await makeKey().catch(() => {
      status.textContent = "The server did not answer. Try again.";
    });
    submit.disabled = false;
  });
}
offerKey();

/** Sends a request to this server's API. */
async function send(method: string, path: string, body: string | undefined): Promise<{ said: string; text: string }> {
  const headers = { authorization: `Bearer ${key}`, ...(body !== undefined && { "content-type": "application/json" }) };
  try {
    const response = await fetch(path, { method, headers, credentials: "omit", ...(body !== undefined && { body }) });
    const content = await response.blob();
    const said = `${response.status} ${response.statusText}`;
    const type = response.headers.get("content-type") ?? "";
    if (!/^(application\/json|text\/|message\/)/.test(type)) return { said, text: `${content.size} bytes of ${type}` };
    const whole = await content.text();
    const text = whole.slice(0, LONGEST_SHOWN);
    const isJson = type.startsWith("application/json") && text === whole;
    return { said, text: isJson ? JSON.stringify(JSON.parse(text), null, 2) : text };
  } catch {
    return { said: "The server did not answer", text: "" };
  }
}

/** A form that sends the request of an operation, with a key of the reader's. */
function trial({ dataset: { method = "GET", path = "", fields = "[]", body } }: HTMLElement): HTMLElement[] {
  const secret = make("input", {
    type: "password",
    className: "secret",
    autocomplete: "off",
    required: true,
    value: key,
    placeholder: "mr_…",
  });
  const given = (JSON.parse(fields) as TrialField[]).map((field) => {
    const { name, required: isRequired, example, choices } = field;
    const isInPath = field.in === "path";
    const input = choices
      ? make(
          "select",
          {},
          ...["", ...choices].map((value) => make("option", { value, selected: value === example }, value)),
        )
      : make("input", { value: isInPath ? "" : example, placeholder: isInPath ? example : "", spellcheck: false });
    input.required = isRequired;
    return { ...field, input, label: labelled(isRequired ? name : `${name} (optional)`, input) };
  });
  const content = body === undefined ? undefined : make("textarea", { value: body, rows: 8, spellcheck: false });
  const button = make("button", { type: "submit" }, method === "GET" ? "Send" : `Send ${method}: it takes effect`);
  const said = make("p", { role: "status" });
  const answer = make("pre", { tabIndex: 0, hidden: true, ariaLabel: "Response" });
  const form = make(
    "form",
    {},
    labelled("API key, which this page forgets", secret),
    ...given.map(({ label }) => label),
    ...(content ? [labelled("Body", content)] : []),
    button,
  );
  function address(): string {
    const query = given.filter(({ in: place, input }) => place === "query" && input.value !== "");
    const parameters = new URLSearchParams(query.map(({ name, input }) => [name, input.value]));
    const filled = given.reduce(
      (whole, { in: place, name, input }) =>
        place === "path" ? whole.replace(`{${name}}`, () => encodeURIComponent(input.value.trim())) : whole,
      path,
    );
    return query.length === 0 ? filled : `${filled}?${parameters}`;
  }
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    takeKey(secret.value.trim());
    button.disabled = true;
    said.textContent = "Sending…";
    const result = await send(method, address(), content?.value);
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
