/**
 * Parts of the app in files of their own, loaded when they are first shown, or earlier when the browser is idle.
 *
 * A server that was upgraded meanwhile has other files. The app then saves all open drafts and reloads the page. That
 * happens once, since the new page asks for the new files.
 */
import { type ComponentType, cloneElement, type ReactElement, useEffect, useState } from "react";
import { Failed, Skeleton } from "../parts/ui/notice.tsx";
import { saveAllDrafts } from "./autosave.ts";
import { waitUntilServerAnswers } from "./server-away.ts";
import { toastFailure } from "./toast.ts";

interface Lazy<Part> {
  /** Undefined until it is loaded. */
  get(): Part | undefined;
  /** @throws Error in words for people */
  load(): Promise<void>;
  /** Loads ahead of time: ignores failures, and never reloads the page. */
  preload(): Promise<void>;
}

const all: Lazy<unknown>[] = [];

function createLazy<Part>(ask: () => Promise<Part>): Lazy<Part> {
  let loaded: Part | undefined;
  async function begin(): Promise<void> {
    loaded ??= await ask();
  }
  const lazy = {
    get: () => loaded,
    load: () =>
      begin().catch(async () =>
        (await waitUntilServerAnswers()) ? begin().catch(() => renewPage(true)) : renewPage(false),
      ),
    preload: () => begin().catch(() => {}),
  };
  all.push(lazy);
  return lazy;
}

/** Loads every part, one after the other, once the browser is idle. */
export function preloadWhenIdle(): void {
  const begin = async () => {
    for (const { preload } of all) await preload();
  };
  // Safari has no requestIdleCallback.
  if ("requestIdleCallback" in window) requestIdleCallback(() => void begin());
  else setTimeout(() => void begin(), IDLE_AFTER_MS);
}

const IDLE_AFTER_MS = 2_000;

const ownScript = () => document.querySelector("script[src]")?.getAttribute("src") ?? "";

/**
 * Reloads the page if the server has another version of it, or with `anyway` if the server responds. It never resolves.
 * @throws Error if the server has the same page or does not respond, or if a draft could not be saved
 */
async function renewPage(anyway: boolean): Promise<void> {
  const response = await fetch("/", { cache: "no-cache" }).catch(() => undefined);
  // As text: the policy lets no page read markup (require-trusted-types-for).
  if (!response?.ok || (!anyway && (await response.text()).includes(ownScript()))) {
    throw new Error("This part of the page could not be loaded. Check your connection, then try again.");
  }
  await saveAllDrafts();
  window.location.reload();
  await new Promise(() => {});
}

/** Loads the part once it is `wanted`. A failure stays until `forget` is called. */
function useLazy<Part>(lazy: Lazy<Part>, wanted: boolean) {
  const [part, setPart] = useState(lazy.get);
  const [failure, setFailure] = useState<Error>();
  const due = wanted && !part && !failure;
  useEffect(() => {
    if (due) lazy.load().then(() => setPart(lazy.get), setFailure);
  }, [due, lazy]);
  return { part, failure, forget: () => setFailure(undefined) };
}

/**
 * A component that is loaded when it is shown. Meanwhile screen readers hear `what`. The router waits for `preload`
 * before it shows a page.
 */
export function lazyPart<Props extends object>(what: string, load: () => Promise<ComponentType<Props>>) {
  const lazy = createLazy(async () => ({ Shown: await load() }));
  const part = (props: Props) => <LazyPart lazy={lazy} what={what} shown={props} />;
  return Object.assign(part, { preload: lazy.preload });
}

type LazyComponent<Props> = Lazy<{ Shown: ComponentType<Props> }>;

function LazyPart<Props extends object>(given: { lazy: LazyComponent<Props>; what: string; shown: Props }) {
  const { part, failure } = useLazy(given.lazy, true);
  // Some browsers never request a failed script again in the same page, so the retry reloads the page.
  if (failure) return <Failed error={failure} retry={() => void renewPage(true).catch(() => {})} />;
  return part ? <part.Shown {...given.shown} /> : <Skeleton what={given.what} />;
}

/** A menu or dialog that a button opens over the page. */
export interface Overlay {
  trigger: ReactElement<Partial<Record<string, unknown>>>;
  /** Given together with `onOpenChange` if something else opens it, too. */
  open?: boolean;
  onOpenChange?: (open: boolean) => void;
}

/** Shows only the button until it is first opened. The loaded component has to open when it mounts. */
export function lazyOverlay<Props extends Overlay>(
  popup: "menu" | "dialog",
  load: () => Promise<ComponentType<Props>>,
): ComponentType<Props> {
  const lazy = createLazy(async () => ({ Shown: await load() }));
  return (props) => <LazyOverlay lazy={lazy} popup={popup} shown={props} />;
}

function LazyOverlay<Props extends Overlay>(given: { lazy: LazyComponent<Props>; popup: string; shown: Props }) {
  const { lazy, popup, shown } = given;
  const { trigger, open = false, onOpenChange } = shown;
  const [begun, setBegun] = useState(false);
  const { part, failure, forget } = useLazy(lazy, begun || open);
  // It stays mounted once it was opened, since it returns the focus to its own button.
  useEffect(() => {
    if (open) setBegun(true);
  }, [open]);
  useEffect(() => {
    if (!failure) return;
    toastFailure(failure);
    setBegun(false);
    onOpenChange?.(false);
    forget();
  });

  if (part && (begun || open)) return <part.Shown {...shown} />;
  function begin(): void {
    setBegun(true);
    onOpenChange?.(true);
  }
  return cloneElement(trigger, {
    "aria-haspopup": popup,
    "aria-expanded": false,
    onPointerEnter: () => void lazy.preload(),
    onClick: begin,
    onKeyDown: ({ key }: KeyboardEvent) => key === "ArrowDown" && begin(),
  });
}
