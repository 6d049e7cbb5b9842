/** What stands in a menu (menu.tsx), drawn as the menu around it has it. */
import { type ComponentType, createContext, type ReactNode, use } from "react";

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
