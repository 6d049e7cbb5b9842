/** Edits the text of a message. The quotation is folded at first. */
import { Button } from "./button.tsx";

export function TextEditor({
  text,
  change,
  left,
  quote,
  unfold,
  autoFocus,
}: {
  text: string;
  change: (text: string) => void;
  left: () => void;
  /** Quotation below the text. */
  quote: string | undefined;
  /** Lets the quotation be edited. */
  unfold: () => void;
  autoFocus: boolean;
}) {
  return (
    <>
      <textarea
        aria-label="Message"
        value={text}
        onChange={(event) => change(event.target.value)}
        onBlur={left}
        // biome-ignore lint/a11y/noAutofocus: a reply starts with its text
        autoFocus={autoFocus}
        className="min-h-44 w-full grow resize-none bg-transparent px-4 py-3 text-base leading-relaxed -outline-offset-1 focus-visible:outline-1"
      />
      {quote !== undefined && (
        <p className="px-1 pb-3">
          <Button kind="quiet" onClick={unfold}>
            Show quoted text
          </Button>
        </p>
      )}
    </>
  );
}
