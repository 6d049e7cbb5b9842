/**
 * Edits the HTML of a draft in its sandboxed frame (src/http/frame-responses.ts). It uses the browser's own editing, which keeps
 * everything that is not changed, tables and colours included; an editor with a document model would drop what its
 * model lacks. The frame runs no script: the code runs in the page around it.
 */
import { Bold, Italic, Link2, List, ListOrdered, RemoveFormatting, Underline } from "lucide-react";
import { type Ref, useEffect, useImperativeHandle, useRef, useState } from "react";
import { FRAME_SANDBOX, SOURCE_ATTRIBUTE } from "../../../base/frames.ts";
import { IconButton } from "../ui/button.tsx";

export interface RichEditorHandle {
  /** The content, with the images' URLs as in the mail. */
  html(): string | undefined;
  text(): string;
  /** Puts plain text in the place of the selection. */
  insert(text: string): void;
}

const COMMANDS = [
  [Bold, "Bold", "bold"],
  [Italic, "Italic", "italic"],
  [Underline, "Underline", "underline"],
  [List, "Bulleted list", "insertUnorderedList"],
  [ListOrdered, "Numbered list", "insertOrderedList"],
  [RemoveFormatting, "Remove formatting", "removeFormat"],
] as const;

export function RichEditor({
  src,
  initial,
  handle,
  changed,
  left,
  send,
  close,
  attach,
  autoFocus,
}: {
  /** URL of the document to edit. */
  src: string;
  /** Unsaved content from before; absent: the content of the document. */
  initial: string | undefined;
  handle: Ref<RichEditorHandle>;
  changed: () => void;
  left: () => void;
  /** Called for a press with Ctrl or Meta. */
  send: (event: KeyboardEvent) => void;
  /** Called for Escape. */
  close: () => void;
  attach: (files: File[]) => void;
  autoFocus: boolean;
}) {
  const frame = useRef<HTMLIFrameElement>(null);
  const [loads, setLoads] = useState(0);
  const findEditorMain = () => frame.current?.contentDocument?.querySelector("main") ?? undefined;
  useImperativeHandle(handle, () => ({
    html() {
      const main = findEditorMain();
      return main && htmlIn(main);
    },
    // biome-ignore lint/performance/useDomNodeTextContent: lines as they are shown
    text: () => findEditorMain()?.innerText ?? "",
    insert(text) {
      findEditorMain()?.focus();
      run("insertText", text);
    },
  }));

  const latest = useRef({ changed, left, send, close, attach });
  latest.current = { changed, left, send, close, attach };
  // biome-ignore lint/correctness/useExhaustiveDependencies: each load gives another document
  useEffect(() => {
    const inner = frame.current?.contentDocument;
    const main = findEditorMain();
    if (!inner || !main) return;
    // It comes from such a frame. The sandbox keeps it from running, and the frame's policy limits its loads.
    if (initial !== undefined) main.innerHTML = initial;
    const ended = new AbortController();
    const { signal } = ended;
    inner.addEventListener("input", () => latest.current.changed(), { signal });
    inner.addEventListener("focusout", () => latest.current.left(), { signal });
    inner.addEventListener(
      "keydown",
      (event) => {
        if (event.key === "Escape") return latest.current.close();
        if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
        event.preventDefault();
        latest.current.send(event);
      },
      { signal },
    );
    const take = (event: Event, data: DataTransfer | null) => {
      const files = [...(data?.files ?? [])];
      if (files.length === 0) return;
      event.preventDefault();
      latest.current.attach(files);
    };
    inner.addEventListener("paste", (event) => take(event, event.clipboardData), { signal });
    inner.addEventListener("drop", (event) => take(event, event.dataTransfer), { signal });
    // The document may load late: a person who types in another field by then stays there.
    if (autoFocus && !document.activeElement?.matches("input, textarea")) main.focus();
    return () => ended.abort();
  }, [loads]);

  // execCommand is deprecated, but is the only way to edit without a document model.
  function run(command: string, value?: string): void {
    frame.current?.contentDocument?.execCommand(command, false, value);
    findEditorMain()?.focus();
    changed();
  }
  function link(): void {
    const url = prompt("Address of the link");
    if (url === null || url.trim() === "") return;
    run("createLink", /^(?:https?:\/\/|mailto:)/i.test(url.trim()) ? url.trim() : `https://${url.trim()}`);
  }

  return (
    <div className="flex min-h-56 grow flex-col">
      <div role="toolbar" aria-label="Formatting" className="flex flex-wrap gap-0.5 border-b border-line px-2 py-1">
        {COMMANDS.map(([icon, label, command]) => (
          <IconButton
            key={command}
            icon={icon}
            label={label}
            onPointerDown={(event) => event.preventDefault()}
            onClick={() => run(command)}
          />
        ))}
        <IconButton icon={Link2} label="Link" onPointerDown={(event) => event.preventDefault()} onClick={link} />
      </div>
      <iframe
        ref={frame}
        title="Message"
        src={src}
        sandbox={FRAME_SANDBOX}
        referrerPolicy="no-referrer"
        onLoad={() => setLoads((count) => count + 1)}
        className="min-h-44 w-full grow"
      />
    </div>
  );
}

/** Reads the HTML from a copy, in a document that loads nothing. */
function htmlIn(main: HTMLElement): string {
  const copy = document.implementation.createHTMLDocument("").importNode(main, true);
  for (const image of copy.querySelectorAll("img")) {
    const source = image.getAttribute(SOURCE_ATTRIBUTE);
    image.removeAttribute(SOURCE_ATTRIBUTE);
    if (source !== null) image.setAttribute("src", source);
  }
  return copy.innerHTML;
}
