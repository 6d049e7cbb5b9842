/** A menu under a button. Its code (menu-overlay.tsx) is loaded when the first menu is opened. */
import { lazyOverlay } from "../lib/lazy-part.tsx";
import type { MenuProps } from "./menu-overlay.tsx";

export const Menu = lazyOverlay<MenuProps>("menu", async () => (await import("./menu-overlay.tsx")).MenuOverlay);
