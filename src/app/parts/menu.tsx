/** A menu under a button; it is loaded (menu-overlay.tsx) when the first one is opened. */
import { type ComponentType, createContext, type ReactNode, use } from "react";
import { lazyOverlay, type Overlay } from "../lib/lazy-part.tsx";

export interface MenuProps extends Overlay {
  children: ReactNode;
}

export const Menu = lazyOverlay<MenuProps>("menu", async () => (await import("./menu-overlay.tsx")).MenuOverlay);

export interface MenuItemProps {
  onSelect: () => void;
  children: ReactNode;
  hint?: string;
}

/** What items are in the menu around them. */
export const MenuItemContext = createContext<ComponentType<MenuItemProps> | undefined>(undefined);

export function MenuItem(props: MenuItemProps) {
  const Item = use(MenuItemContext);
  return Item && <Item {...props} />;
}
