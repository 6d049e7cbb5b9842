/** An item of a menu (menu.tsx). The lazily loaded menu around it provides the component that draws it. */
import { type ComponentType, createContext, type ReactNode, use } from "react";

export interface MenuItemProps {
  onSelect: () => void;
  children: ReactNode;
  hint?: string;
}

/** The component that draws items. */
export const MenuItemContext = createContext<ComponentType<MenuItemProps> | undefined>(undefined);

export function MenuItem(props: MenuItemProps) {
  const Item = use(MenuItemContext);
  return Item && <Item {...props} />;
}
