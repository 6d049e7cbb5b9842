/** A field of recipients, separated by commas, which suggests correspondents (ARIA: combobox with a list). */
import { useQuery } from "@tanstack/react-query";
import { type KeyboardEvent, useId, useState } from "react";
import { problemIn } from "../lib/draft-content.ts";
import { fullNameOf, nameOf } from "../lib/format.ts";
import { correspondentsQuery } from "../lib/queries.ts";

/** The text after the last comma or semicolon outside quotation marks. */
const LAST = /(?:"(?:\\.|[^"\\])*"?|[^,;"])*$/;

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
  value: string;
  change: (value: string) => void;
  /** Called when the field loses the focus. */
  left: () => void;
  autoFocus?: boolean;
}) {
  const id = useId();
  const [focused, setFocused] = useState(false);
  const [chosen, setChosen] = useState(0);
  const [dismissed, setDismissed] = useState<string>();
  const typed = (LAST.exec(value)?.[0] ?? "").trim();
  const { data = [] } = useQuery({ ...correspondentsQuery(mailbox, typed), enabled: focused && typed !== "" });
  const people = focused && typed !== "" && dismissed !== value ? data : [];
  const problem = focused ? undefined : problemIn(value);

  function choose(index: number): void {
    const person = people[index];
    if (!person) return;
    const before = value.replace(LAST, "").trimEnd();
    change(`${before}${before === "" ? "" : " "}${fullNameOf(person)}, `);
    setChosen(0);
  }
  function pressed(event: KeyboardEvent): void {
    if (people.length === 0 || event.ctrlKey || event.metaKey) return;
    if (event.key === "ArrowDown") setChosen((chosen + 1) % people.length);
    else if (event.key === "ArrowUp") setChosen((chosen + people.length - 1) % people.length);
    else if (event.key === "Enter" || (event.key === "Tab" && !event.shiftKey)) choose(chosen);
    else if (event.key === "Escape") setDismissed(value);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  return (
    <div className="relative min-w-0 grow">
      <div className="flex min-w-0 items-center gap-2 py-0.5">
        <label htmlFor={id} className="w-14 shrink-0 text-sm text-muted">
          {label}
        </label>
        <input
          id={id}
          value={value}
          role="combobox"
          aria-expanded={people.length > 0}
          aria-autocomplete="list"
          aria-controls={`${id}-list`}
          aria-activedescendant={people.length > 0 ? `${id}-${chosen}` : undefined}
          aria-invalid={problem !== undefined}
          aria-describedby={problem === undefined ? undefined : `${id}-problem`}
          onChange={(event) => {
            setChosen(0);
            change(event.target.value);
          }}
          onKeyDown={pressed}
          onFocus={() => setFocused(true)}
          onBlur={() => {
            setFocused(false);
            left();
          }}
          // biome-ignore lint/a11y/noAutofocus: writing starts with the recipients
          autoFocus={autoFocus}
          autoComplete="off"
          spellCheck={false}
          className="h-8 min-w-0 grow rounded bg-transparent px-1.5 -outline-offset-1 focus-visible:outline-1"
        />
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
            onClick={() => choose(i)}
            className={`cursor-pointer truncate rounded-md px-2.5 py-1.5 ${i === chosen ? "bg-hover" : ""}`}
          >
            {nameOf(person)} <span className="text-muted">{person.email}</span>
          </div>
        ))}
      </div>
      {problem !== undefined && (
        <p id={`${id}-problem`} className="pb-1 pl-16 text-sm text-danger">
          {problem}
        </p>
      )}
    </div>
  );
}
