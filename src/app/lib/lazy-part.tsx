/**
 * Parts of the app that are not there at first: each is a file of its own, loaded when it is first shown, or earlier, once
 * the page has nothing else to do.
 *
 * A server that was upgraded meanwhile has other files: the page is loaded anew then, after what is being written was
 * saved. That happens once, since the new page asks for the new files.
 */
import { type ComponentType, cloneElement, type ReactElement, useEffect, useState } from "react";
import { Failed, Skeleton } from "../parts/notice.tsx";
import { saveEverything } from "./leaving.ts";
import { toast } from "./toast.ts";

interface Lazy<Part> {
  /** Undefined until it is loaded. */
  get(): Part | undefined;
  /** @throws Error in words for people */
  load(): Promise<void>;
  /** Never rejects, nor loads the page anew. */
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
    load: () => begin().catch(() => renewPage(false)),
    preload: () => begin().catch(() => {}),
  };
  all.push(lazy);
  return lazy;
}

/** Loads every part, one after the other, once the browser has nothing else to do. */
export function preloadWhenIdle(): void {
  const begin = async () => {
    for (const { preload } of all) await preload();
  };
  // Safari has no such callback.
  if ("requestIdleCallback" in window) requestIdleCallback(() => void begin());
  else setTimeout(() => void begin(), IDLE_AFTER_MS);
}

const IDLE_AFTER_MS = 2_000;

const ownScript = () => document.querySelector("script[src]")?.getAttribute("src") ?? "";

/**
 * Loads the page anew where the server has another one, or `anyway` if it answers; never resolves then.
 * @throws Error where that is not why a part failed, or where something could not be saved
 */
async function renewPage(anyway: boolean): Promise<void> {
  const answer = await fetch("/", { cache: "no-cache" }).catch(() => undefined);
  // As text: the policy lets no page read markup (require-trusted-types-for).
  if (!answer?.ok || (!anyway && (await answer.text()).includes(ownScript()))) {
    throw new Error("This part of the page could not be loaded. Check your connection, then try again.");
  }
  await saveEverything();
  window.location.reload();
  await new Promise(() => {});
}

/** The part once it is `wanted` and loaded; or why it could not be, until `forget` is called. */
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
 * A component that is loaded when it is shown. `what` is told to screen readers meanwhile. The router waits for `preload`
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
  // Some browsers ask no second time for a script that failed: only another page does.
  if (failure) return <Failed error={failure} retry={() => void renewPage(true).catch(() => {})} />;
  return part ? <part.Shown {...given.shown} /> : <Skeleton what={given.what} />;
}

/** What opens over the page from a button. */
export interface Overlay {
  trigger: ReactElement<Partial<Record<string, unknown>>>;
  /** Given, with the next one, where something else opens it too. */
  open?: boolean;
  onOpenChange?: (open: boolean) => void;
}

/** Until it is first opened there is but its button. What is loaded has to open as soon as it is there. */
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
  // It stays once it was opened: it gives the focus back to its own button.
  useEffect(() => {
    if (open) setBegun(true);
  }, [open]);
  useEffect(() => {
    if (!failure) return;
    toast({ text: failure.message, tone: "danger" });
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
