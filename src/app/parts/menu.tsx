/** A menu under a button; it is loaded (menu-overlay.tsx) when the first one is opened. */
import { lazyOverlay } from "../lib/lazy-part.tsx";
import type { MenuProps } from "./menu-overlay.tsx";

export const Menu = lazyOverlay<MenuProps>("menu", async () => (await import("./menu-overlay.tsx")).MenuOverlay);
