/**
 * A field of recipients: a chip for each that was entered, which is checked then, and the one being typed, for which it
 * suggests correspondents (ARIA: combobox with a list).
 */
import { useQuery } from "@tanstack/react-query";
import { X } from "lucide-react";
import { type ClipboardEvent, type KeyboardEvent, useId, useRef, useState } from "react";
import { isAddress, joinRecipients, parseRecipientList, shownName, splitRecipients } from "../../lib/draft-content.ts";
import { addressDisplayName, formatHeaderAddress } from "../../lib/format.ts";
import { correspondentsQuery } from "../../lib/queries.ts";

export function RecipientField({
  label,
  mailbox,
  value,
  change,
  left,
  autoFocus = false,
}: {
  label: string;
  /** Address of the mailbox whose people are suggested. */
  mailbox: string;
  /** The entries, each with a comma behind it, and what is being typed. */
  value: string;
  change: (value: string) => void;
  /** Called when the field loses the focus. */
  left: () => void;
  autoFocus?: boolean;
}) {
  const id = useId();
  const field = useRef<HTMLDivElement>(null);
  const input = useRef<HTMLInputElement>(null);
  const [focused, setFocused] = useState(false);
  const [chosen, setChosen] = useState(0);
  const [dismissed, setDismissed] = useState<string>();
  const { entries, typed } = splitRecipients(value);
  const wanted = typed.trim();
  const { data = [] } = useQuery({ ...correspondentsQuery(mailbox, wanted), enabled: focused && wanted !== "" });
  const people = focused && wanted !== "" && dismissed !== typed ? data : [];
  const wrong = entries.find((entry) => !isAddress(entry));

  /** Makes chips of what is typed, or of `text` instead. */
  function enter(text = typed): void {
    setChosen(0);
    change(joinRecipients([...entries, ...parseRecipientList(text)], ""));
  }
  /** `then`: which chip gets the focus; none: the input. */
  function remove(index: number, then?: number): void {
    change(joinRecipients(entries.toSpliced(index, 1), typed));
    focusChip(then);
  }
  /** Turns a chip into text again. Text that was typed becomes a chip. */
  function edit(index: number): void {
    change(joinRecipients([...entries.toSpliced(index, 1), ...parseRecipientList(typed)], entries[index] ?? ""));
    input.current?.focus();
  }
  const chips = () => [...(field.current?.querySelectorAll<HTMLElement>("[data-chip]") ?? [])];
  function focusChip(index: number | undefined): void {
    const chip = index === undefined ? undefined : chips().at(index);
    (chip ?? input.current)?.focus();
  }

  function pressed(event: KeyboardEvent<HTMLInputElement>): void {
    const { key, shiftKey } = event;
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const { selectionStart, selectionEnd } = event.currentTarget;
    const isAtStart = selectionStart === 0 && selectionEnd === 0;
    const person = people[chosen];
    const enters = key === "Enter" || key === "," || key === ";";
    if (key === "ArrowDown" && people.length > 0) setChosen((chosen + 1) % people.length);
    else if (key === "ArrowUp" && people.length > 0) setChosen((chosen + people.length - 1) % people.length);
    else if (key === "Escape" && people.length > 0) setDismissed(typed);
    else if ((key === "Enter" || (key === "Tab" && !shiftKey)) && person) enter(formatHeaderAddress(person));
    // A comma within quotation marks belongs to a name.
    else if (enters && wanted !== "" && !/^[^"]*"[^"]*$/.test(wanted)) enter();
    else if (key === " " && isAddress(wanted)) enter();
    else if ((key === "Backspace" || key === "ArrowLeft") && isAtStart && entries.length > 0) focusChip(-1);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }
  function pressedOnChip(event: KeyboardEvent, index: number): void {
    const { key } = event;
    if (key === "ArrowLeft") focusChip(Math.max(0, index - 1));
    else if (key === "ArrowRight") focusChip(index + 1 < entries.length ? index + 1 : undefined);
    else if (key === "Backspace") remove(index, index > 0 ? index - 1 : undefined);
    else if (key === "Delete") remove(index, index + 1 < entries.length ? index + 1 : undefined);
    else return;
    event.preventDefault();
  }
  function paste(event: ClipboardEvent): void {
    const text = event.clipboardData.getData("text/plain");
    if (!/[,;\n]/.test(text.trim())) return;
    event.preventDefault();
    enter(`${typed}${text.replaceAll(/[\r\n\t]+/g, ", ")}`);
  }

  return (
    <div ref={field} className="relative min-w-0 grow">
      <div className="flex min-w-0 items-baseline gap-2 py-0.5">
        <label htmlFor={id} className="w-14 shrink-0 text-sm text-muted">
          {label}
        </label>
        <div className="flex max-h-32 min-w-0 grow flex-wrap items-center gap-1 overflow-y-auto">
          {entries.length > 0 && (
            <ul aria-label={`${label}: recipients`} className="contents">
              {entries.map((entry, i) => (
                <li
                  key={entry}
                  className={`flex h-6 max-w-full items-center rounded-full text-sm max-md:h-8 ${isAddress(entry) ? "bg-hover" : "bg-alarm text-danger"}`}
                >
                  <button
                    type="button"
                    data-chip
                    title={entry}
                    aria-describedby={isAddress(entry) ? undefined : `${id}-problem`}
                    onClick={() => edit(i)}
                    onKeyDown={(event) => pressedOnChip(event, i)}
                    className="min-w-0 truncate rounded-full py-0.5 pl-2.5"
                  >
                    <bdi>{shownName(entry)}</bdi>
                  </button>
                  <button
                    type="button"
                    tabIndex={-1}
                    aria-label={`Remove ${entry}`}
                    onClick={() => remove(i)}
                    className="grid size-6 shrink-0 place-items-center rounded-full text-muted hover:text-ink max-md:size-8"
                  >
                    <X size={12} aria-hidden />
                  </button>
                </li>
              ))}
            </ul>
          )}
          <input
            ref={input}
            id={id}
            value={typed}
            role="combobox"
            aria-expanded={people.length > 0}
            aria-autocomplete="list"
            aria-controls={`${id}-list`}
            aria-activedescendant={people.length > 0 ? `${id}-${chosen}` : undefined}
            aria-invalid={wrong !== undefined}
            aria-describedby={wrong === undefined ? undefined : `${id}-problem`}
            onChange={(event) => {
              setChosen(0);
              change(joinRecipients(entries, event.target.value));
            }}
            onKeyDown={pressed}
            onPaste={paste}
            onFocus={() => setFocused(true)}
            onBlur={() => {
              setFocused(false);
              if (wanted !== "") enter();
              left();
            }}
            // biome-ignore lint/a11y/noAutofocus: writing starts with the recipients
            autoFocus={autoFocus}
            autoComplete="off"
            spellCheck={false}
            dir="auto"
            className="h-8 min-w-32 grow rounded bg-transparent px-1.5 -outline-offset-1 focus-visible:outline-1"
          />
        </div>
      </div>
      <div
        id={`${id}-list`}
        role="listbox"
        aria-label={`People for ${label}`}
        hidden={people.length === 0}
        className="absolute top-full left-14 z-40 max-w-full rounded-lg border border-line bg-raised p-1 text-sm shadow-lg"
      >
        {people.map((person, i) => (
          // biome-ignore lint/a11y/useKeyWithClickEvents: the field keeps the focus and handles the keys
          // biome-ignore lint/a11y/useFocusableInteractive: as above
          <div
            key={person.email}
            id={`${id}-${i}`}
            role="option"
            aria-selected={i === chosen}
            onPointerDown={(event) => event.preventDefault()}
            onClick={() => enter(formatHeaderAddress(person))}
            className={`cursor-pointer truncate rounded-md px-2.5 py-1.5 ${i === chosen ? "bg-hover" : ""}`}
          >
            <bdi>{addressDisplayName(person)}</bdi> <span className="text-muted">{person.email}</span>
          </div>
        ))}
      </div>
      {wrong !== undefined && (
        <p id={`${id}-problem`} className="pb-1 pl-16 text-sm text-danger">
          “{wrong}” is not an email address
        </p>
      )}
    </div>
  );
}
