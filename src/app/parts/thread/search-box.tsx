/**
 * The search field with suggestions: a combobox with a list (WAI-ARIA 1.2). Arrow keys choose, Enter takes the chosen
 * suggestion or searches, Escape closes the list, then leaves the field.
 */
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { History, type LucideIcon, Search, Tag, UserRound, X } from "lucide-react";
import { type FormEvent, type KeyboardEvent, type RefObject, useId, useState } from "react";
import { correspondentsQuery, labelsQuery, meQuery } from "../../lib/queries.ts";
import {
  findPersonToComplete,
  recentSearches,
  rememberSearch,
  type Suggestion,
  suggestionsFor,
} from "../../lib/search-completions.ts";
import { IconButton } from "../ui/button.tsx";

const ICONS: Record<Suggestion["kind"], LucideIcon> = {
  recent: History,
  operator: Search,
  person: UserRound,
  label: Tag,
};

export function SearchBox({
  box,
  q,
  mailboxId,
  submit,
}: {
  box: RefObject<HTMLInputElement | null>;
  q: string;
  mailboxId: string | undefined;
  submit: (q: string) => void;
}) {
  const { data: me } = useQuery(meQuery);
  const [text, setText] = useState(q);
  const [open, setOpen] = useState(false);
  const [at, setAt] = useState(-1);
  const list = useId();
  const wantedPerson = open ? findPersonToComplete(text) : undefined;
  const { data: people = [] } = useQuery({
    ...correspondentsQuery(mailboxId ?? "", wantedPerson ?? ""),
    enabled: mailboxId !== undefined && wantedPerson !== undefined,
    placeholderData: keepPreviousData,
  });
  const { data: labels = [] } = useQuery(labelsQuery(open ? mailboxId : undefined));
  const suggestions = open
    ? suggestionsFor(text, {
        people: wantedPerson === undefined ? [] : people,
        labels: labels.map(({ label }) => label),
        recent: me ? recentSearches(me.id) : [],
      })
    : [];
  const shows = suggestions.length > 0;
  const active = Math.min(at, suggestions.length - 1);

  function type(typed: string): void {
    setText(typed);
    setAt(-1);
    setOpen(true);
  }
  function search(wanted: string): void {
    const trimmed = wanted.trim();
    setText(wanted);
    setOpen(false);
    setAt(-1);
    if (me && trimmed !== "") rememberSearch(me.id, trimmed);
    submit(trimmed);
  }
  function take({ text: completed, kind }: Suggestion): void {
    if (kind === "recent") search(completed);
    else type(completed);
    box.current?.focus();
  }
  function pressed(event: KeyboardEvent<HTMLInputElement>): void {
    const chosen = suggestions[active];
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      if (!open) setOpen(true);
      else if (shows) {
        const count = suggestions.length + 1;
        const by = event.key === "ArrowDown" ? 1 : -1;
        setAt(((active + 1 + by + count) % count) - 1);
      }
    } else if (event.key === "Enter" && shows && chosen) take(chosen);
    else if (event.key === "Escape") {
      if (shows) setOpen(false);
      else event.currentTarget.blur();
    } else return;
    event.preventDefault();
  }
  function submitted(event: FormEvent): void {
    event.preventDefault();
    search(text);
  }

  return (
    // biome-ignore lint/a11y/useSemanticElements: <search> is not in every browser yet
    <form onSubmit={submitted} role="search" className="relative">
      <input
        ref={box}
        type="text"
        role="combobox"
        aria-expanded={shows}
        aria-controls={list}
        aria-autocomplete="list"
        aria-activedescendant={active >= 0 ? `${list}-${active}` : undefined}
        enterKeyHint="search"
        autoComplete="off"
        spellCheck={false}
        aria-label="Search mail"
        placeholder="Search mail"
        maxLength={500}
        value={text}
        onChange={(event) => type(event.target.value)}
        onFocus={() => setOpen(true)}
        onBlur={() => setOpen(false)}
        onKeyDown={pressed}
        className="control w-full pr-9"
      />
      {(text !== "" || q !== "") && (
        <IconButton
          icon={X}
          label="Clear search"
          onClick={() => {
            setText("");
            setOpen(false);
            if (q !== "") submit("");
          }}
          className="absolute top-0.5 right-0.5 max-md:size-8"
        />
      )}
      <div
        id={list}
        role="listbox"
        aria-label="Suggestions"
        hidden={!shows}
        className="absolute inset-x-0 top-10 z-30 max-h-96 overflow-y-auto rounded-lg border border-line bg-raised p-1 text-sm shadow-lg"
      >
        {suggestions.map((suggestion, index) => {
          const Icon = ICONS[suggestion.kind];
          return (
            <button
              type="button"
              tabIndex={-1}
              key={`${suggestion.kind} ${suggestion.text}`}
              id={`${list}-${index}`}
              role="option"
              aria-selected={index === active}
              onPointerMove={() => setAt(index)}
              // The field keeps the focus.
              onPointerDown={(event) => event.preventDefault()}
              onClick={() => take(suggestion)}
              className={`flex w-full items-center gap-2 rounded-md px-2 py-1.5 max-md:py-2.5 ${index === active ? "bg-hover" : ""}`}
            >
              <Icon size={14} className="shrink-0 text-muted" aria-hidden />
              <span className="min-w-0 truncate">{suggestion.shown}</span>
              <span className="ml-auto max-w-1/2 shrink-0 truncate pl-2 text-xs text-muted">{suggestion.hint}</span>
            </button>
          );
        })}
      </div>
    </form>
  );
}
