/** The menus of menus.tsx once they are open, by Radix, with the keys, focus and names of ARIA. */
import { useQuery } from "@tanstack/react-query";
import { Check, type LucideIcon, Minus, Plus } from "lucide-react";
import { DropdownMenu, Popover } from "radix-ui";
import { type KeyboardEvent, useId, useState } from "react";
import type { Overlay } from "../../lib/lazy-part.tsx";
import type { ThreadView } from "../../lib/mail-views.ts";
import { labelsQuery } from "../../lib/queries.ts";
import { threadActions } from "../../lib/thread-actions.ts";

export interface MenuProps extends Overlay {
  items: readonly {
    label: string;
    icon?: LucideIcon;
    /** Colour of a label, which the icon has. */
    colour?: string;
    /** Shown at the end: a shortcut, or a time. */
    hint?: string;
    run: () => void;
  }[];
}

/** An open menu. It is not modal, so that it needs no inline styles. */
export function MenuOverlay({ trigger, items, open, onOpenChange }: MenuProps) {
  return (
    <DropdownMenu.Root
      modal={false}
      {...(open === undefined ? { defaultOpen: true } : { open })}
      {...(onOpenChange && { onOpenChange })}
    >
      <DropdownMenu.Trigger asChild>{trigger}</DropdownMenu.Trigger>
      <DropdownMenu.Portal>
        <DropdownMenu.Content
          align="end"
          sideOffset={4}
          collisionPadding={8}
          className="z-40 min-w-48 rounded-lg border border-line bg-raised p-1 text-sm shadow-lg"
        >
          {items.map(({ label, icon: Icon, colour, hint, run }) => (
            <DropdownMenu.Item
              key={label}
              onSelect={run}
              className="flex cursor-pointer items-center justify-between gap-6 rounded-md px-2.5 py-1.5 outline-none data-highlighted:bg-hover"
            >
              <span className="flex items-center gap-2">
                {Icon && (
                  <Icon
                    size={15}
                    aria-hidden
                    data-colour={colour}
                    fill={colour ? "currentColor" : "none"}
                    className={colour && "label-dot"}
                  />
                )}{" "}
                {label}
              </span>
              {hint !== undefined && <span className="text-xs text-muted">{hint}</span>}
            </DropdownMenu.Item>
          ))}
        </DropdownMenu.Content>
      </DropdownMenu.Portal>
    </DropdownMenu.Root>
  );
}

export interface LabelOverlayProps extends Pick<Overlay, "trigger"> {
  threads: readonly ThreadView[];
  open: boolean;
  onOpenChange: (open: boolean) => void;
}

interface Option {
  label: string;
  /** How many of the conversations have it. */
  on: "all" | "some" | "none";
  isNew: boolean;
}

/** Characters. */
const LONGEST_LABEL = 60;

const labelMatchKey = (label: string): string => label.trim().normalize("NFC").toUpperCase();

function optionsFor(threads: readonly ThreadView[], known: readonly string[], text: string): Option[] {
  const counts = new Map<string, number>();
  const labels = new Map(known.map((label) => [labelMatchKey(label), label]));
  for (const thread of threads) {
    for (const label of thread.labels) {
      counts.set(labelMatchKey(label), (counts.get(labelMatchKey(label)) ?? 0) + 1);
      if (!labels.has(labelMatchKey(label))) labels.set(labelMatchKey(label), label);
    }
  }
  const wanted = labelMatchKey(text);
  const options = [...labels]
    .filter(([key]) => key.includes(wanted))
    .map(([key, label]): Option => {
      const count = counts.get(key) ?? 0;
      return { label, on: count === 0 ? "none" : count === threads.length ? "all" : "some", isNew: false };
    })
    .sort((a, b) => Number(a.on === "none") - Number(b.on === "none") || a.label.localeCompare(b.label));
  return wanted === "" || labels.has(wanted) ? options : [...options, { label: text.trim(), on: "none", isNew: true }];
}

/**
 * The labels of one or many conversations. Typing finds labels of the mailbox, and makes new ones. Each choice acts at
 * once, and the list stays open.
 */
export function LabelOverlay({ threads, trigger, open, onOpenChange }: LabelOverlayProps) {
  return (
    <Popover.Root open={open} onOpenChange={onOpenChange}>
      <Popover.Trigger asChild>{trigger}</Popover.Trigger>
      <Popover.Portal>
        <Popover.Content
          align="end"
          sideOffset={4}
          collisionPadding={8}
          aria-label="Labels"
          className="z-40 w-64 rounded-lg border border-line bg-raised p-2 text-sm shadow-lg"
        >
          <Labels threads={threads} close={() => onOpenChange(false)} />
        </Popover.Content>
      </Popover.Portal>
    </Popover.Root>
  );
}

function Labels({ threads, close }: { threads: readonly ThreadView[]; close: () => void }) {
  const { data: known = [], isSuccess } = useQuery(labelsQuery(threads[0]?.mailboxId));
  const [text, setText] = useState("");
  const [at, setAt] = useState(0);
  const list = useId();
  const options = optionsFor(
    threads,
    known.map(({ label }) => label),
    text,
  );
  const active = Math.min(at, options.length - 1);

  function choose(option: Option | undefined): void {
    if (!option) return;
    if (option.on === "all") void threadActions.removeLabel(threads, option.label);
    else void threadActions.addLabel(threads, option.label);
    setText("");
    setAt(0);
  }
  function pressed(event: KeyboardEvent): void {
    const { key } = event;
    if (key === "ArrowDown") setAt(Math.min(active + 1, options.length - 1));
    else if (key === "ArrowUp") setAt(Math.max(active - 1, 0));
    else if (key === "Enter") choose(options[active]);
    else {
      if (key === "Tab") close();
      return;
    }
    event.preventDefault();
  }

  return (
    <>
      <input
        type="text"
        role="combobox"
        aria-label="Find or create a label"
        aria-expanded="true"
        aria-controls={list}
        aria-autocomplete="list"
        aria-activedescendant={options[active] && `${list}-${active}`}
        placeholder="Find or create a label"
        maxLength={LONGEST_LABEL}
        value={text}
        onChange={(event) => {
          setText(event.target.value);
          setAt(0);
        }}
        onKeyDown={pressed}
        className="mb-1 h-8 w-full rounded-md border border-line bg-ground px-2 placeholder:text-muted"
      />
      <div
        id={list}
        role="listbox"
        aria-label="Labels"
        aria-multiselectable="true"
        className="max-h-64 overflow-y-auto"
      >
        {options.map((option, index) => (
          <button
            type="button"
            tabIndex={-1}
            key={option.isNew ? "new" : option.label}
            id={`${list}-${index}`}
            role="option"
            aria-selected={option.on === "all"}
            onPointerMove={() => setAt(index)}
            onPointerDown={(event) => event.preventDefault()}
            onClick={() => choose(option)}
            className={`flex w-full items-center gap-2 rounded-md px-2 py-1.5 ${index === active ? "bg-hover" : ""}`}
          >
            <span className="grid size-4 shrink-0 place-items-center text-accent">
              {option.isNew ? (
                <Plus size={14} aria-hidden />
              ) : option.on === "all" ? (
                <Check size={14} aria-hidden />
              ) : option.on === "some" ? (
                <Minus size={14} aria-hidden />
              ) : null}
            </span>
            <span className="min-w-0 truncate">{option.isNew ? `Create “${option.label}”` : option.label}</span>
            {option.on === "some" && <span className="sr-only">, on some of the conversations</span>}
          </button>
        ))}
      </div>
      {isSuccess && options.length === 0 && (
        <p className="px-2 py-1.5 text-muted">No labels yet. Type to create one.</p>
      )}
      {text.length === LONGEST_LABEL && (
        <p role="status" className="px-2 py-1 text-xs text-muted">
          A label has at most {LONGEST_LABEL} characters.
        </p>
      )}
    </>
  );
}
