/**
 * Finds any action, folder, label, mailbox, setting and person by name: a combobox with a list (WAI-ARIA 1.2), in a
 * modal dialog.
 */
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import {
  AtSign,
  CalendarClock,
  FolderOpen,
  Hourglass,
  type LucideIcon,
  Settings,
  Tag,
  UserRound,
  Zap,
} from "lucide-react";
import { type KeyboardEvent, useEffect, useId, useRef, useState } from "react";
import { type Command, closePalette, commandsFor, offeredCommands } from "../../lib/commands.ts";
import { chosenMailbox, FOLDERS } from "../../lib/folders.ts";
import { addressDisplayName, formatHeaderAddress } from "../../lib/format.ts";
import { openNewMessage } from "../../lib/open-composers.ts";
import { correspondentsQuery, labelsQuery, mailboxesQuery } from "../../lib/queries.ts";
import { shortcutActions } from "../../lib/shortcuts.ts";
import { useSettingsSections } from "../../pages/settings/settings-sections.ts";
import { serverQuery } from "../../pages/settings/settings-workspace.ts";

const ICONS: Record<Command["group"], LucideIcon> = {
  Actions: Zap,
  Folders: FolderOpen,
  Labels: Tag,
  Mailboxes: AtSign,
  Settings,
  People: UserRound,
};
const MOST = 12;

/** Commands of the app as a whole. The page's own are read once, since the dialog over it changes nothing there. */
function useAllCommands(typed: string): Command[] {
  const navigate = useNavigate();
  const { mailbox: asked } = useSearch({ strict: false });
  const { data: mailboxes = [] } = useQuery(mailboxesQuery);
  const mailbox = chosenMailbox(mailboxes, asked);
  const { data: labels = [] } = useQuery(labelsQuery(mailbox?.id));
  const sections = useSettingsSections().flatMap(({ shown }) => shown);
  const operates = sections.some(({ to }) => to === "/settings/server");
  const { data: server } = useQuery({ ...serverQuery, enabled: operates });
  // The words before a name in the commands below.
  const wanted = typed.trim().replace(/^(?:mail(?: with)?|write(?: to)?)\s+/i, "");
  const { data: people = [] } = useQuery({
    ...correspondentsQuery(mailbox?.id ?? "", wanted),
    enabled: mailbox !== undefined && wanted !== "",
    placeholderData: keepPreviousData,
  });
  const [ofPage] = useState((): Command[] => [
    ...shortcutActions().map(({ keys, ...action }): Command => ({ ...action, group: "Actions", hint: keys })),
    ...offeredCommands(),
  ]);
  const search = asked === undefined ? {} : { mailbox: asked };
  const folder = (name: string, id: string): Command => ({
    name,
    group: "Folders",
    words: "go to",
    run: () => void navigate({ to: "/mail/$folder", params: { folder: id }, search }),
  });
  return [
    ...ofPage,
    ...FOLDERS.map(({ id, name }) => folder(name, id)),
    {
      name: "Scheduled",
      group: "Folders",
      words: "later",
      run: () => void navigate({ to: "/mail/scheduled", search }),
    },
    { name: "To approve", group: "Folders", words: "waiting", run: () => void navigate({ to: "/approve" }) },
    ...labels.map(
      ({ label }): Command => ({
        name: label,
        group: "Labels",
        words: "label",
        run: () => void navigate({ to: "/mail/$folder", params: { folder: "all" }, search: { ...search, label } }),
      }),
    ),
    ...(mailboxes.length > 1 ? mailboxes : []).map(
      ({ id, displayName, address }): Command => ({
        name: displayName,
        group: "Mailboxes",
        hint: address,
        words: address,
        run: () => void navigate({ to: "/mail/$folder", params: { folder: "inbox" }, search: { mailbox: id } }),
      }),
    ),
    ...sections.map(
      ({ to, name }): Command => ({ name, group: "Settings", words: "settings", run: () => void navigate({ to }) }),
    ),
    ...(server?.settings ?? []).map(
      ({ name, description }): Command => ({
        name,
        group: "Settings",
        hint: description,
        words: description,
        run: () => void navigate({ to: "/settings/server", hash: name }),
      }),
    ),
    ...people.flatMap((person): Command[] => [
      {
        name: `Mail with ${addressDisplayName(person)}`,
        group: "People",
        hint: person.email,
        words: person.email,
        run: () =>
          void navigate({ to: "/mail/$folder", params: { folder: "all" }, search: { ...search, q: person.email } }),
      },
      {
        name: `Write to ${addressDisplayName(person)}`,
        group: "People",
        hint: person.email,
        words: person.email,
        run: () => openNewMessage(mailbox?.address, formatHeaderAddress(person)),
      },
    ]),
  ];
}

/** `number`: see `usePalette`. */
export function Palette({ number }: { number: number }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [typed, setTyped] = useState("");
  const [at, setAt] = useState(0);
  const list = useId();
  const found = commandsFor(useAllCommands(typed), typed, MOST);
  const active = Math.min(at, found.length - 1);
  useEffect(() => dialog.current?.showModal(), []);

  function run(command: Command | undefined): void {
    if (!command) return;
    dialog.current?.close();
    // After the dialog has given the focus back.
    requestAnimationFrame(() => command.run());
  }
  function pressed(event: KeyboardEvent): void {
    if (event.key === "ArrowDown") setAt((active + 1) % Math.max(1, found.length));
    else if (event.key === "ArrowUp") setAt((active + found.length - 1) % Math.max(1, found.length));
    else if (event.key === "Enter") run(found[active]);
    else return;
    event.preventDefault();
  }

  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: Escape closes it, as a click beside it does
    <dialog
      ref={dialog}
      onClose={() => closePalette(number)}
      onClick={(event) => event.target === dialog.current && dialog.current.close()}
      aria-label="Find anything"
      className="mx-auto mt-[12vh] w-160 max-w-[94vw] rounded-xl border border-line bg-raised p-2 text-ink shadow-xl backdrop:bg-black/40"
    >
      <input
        type="text"
        role="combobox"
        aria-label="Find an action, folder, label, person or setting"
        aria-expanded={found.length > 0}
        aria-controls={list}
        aria-autocomplete="list"
        aria-activedescendant={found.length > 0 ? `${list}-${active}` : undefined}
        placeholder="Find an action, folder, label, person or setting"
        autoComplete="off"
        spellCheck={false}
        maxLength={100}
        value={typed}
        onChange={(event) => {
          setTyped(event.target.value);
          setAt(0);
        }}
        onKeyDown={pressed}
        className="control w-full"
      />
      <div id={list} role="listbox" aria-label="Found" className="mt-1 max-h-[60vh] overflow-y-auto text-sm">
        {found.map(({ name, group, hint, run: runs, ...rest }, index) => {
          const Icon =
            group === "Folders" && name === "To approve"
              ? Hourglass
              : name === "Scheduled"
                ? CalendarClock
                : ICONS[group];
          return (
            <button
              type="button"
              tabIndex={-1}
              key={`${group} ${name} ${hint ?? ""}`}
              id={`${list}-${index}`}
              role="option"
              aria-selected={index === active}
              onPointerMove={() => setAt(index)}
              onClick={() => run({ name, group, run: runs, ...rest })}
              className={`flex w-full items-center gap-2.5 rounded-md px-2.5 py-2 text-left ${index === active ? "bg-hover" : ""}`}
            >
              <Icon size={15} className="shrink-0 text-muted" aria-hidden />
              <span dir="auto" className="min-w-0 truncate">
                {name}
              </span>
              <span className="ml-auto max-w-1/2 min-w-0 shrink truncate pl-2 text-xs text-muted">{hint ?? group}</span>
            </button>
          );
        })}
      </div>
      {found.length === 0 && <p className="px-2.5 py-2 text-sm text-muted">Nothing found.</p>}
    </dialog>
  );
}
