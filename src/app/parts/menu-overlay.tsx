/** A menu by Radix, with the keys, focus and names of ARIA. It is not modal, so that it needs no inline styles. */
import { DropdownMenu } from "radix-ui";
import type { ReactNode } from "react";
import type { Overlay } from "../lib/lazy-part.tsx";
import { MenuItemContext, type MenuItemProps } from "./menu-item.tsx";

export interface MenuProps extends Overlay {
  children: ReactNode;
}

export function MenuOverlay({ trigger, children, open, onOpenChange }: MenuProps) {
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
          <MenuItemContext value={Item}>{children}</MenuItemContext>
        </DropdownMenu.Content>
      </DropdownMenu.Portal>
    </DropdownMenu.Root>
  );
}

function Item({ onSelect, children, hint }: MenuItemProps) {
  return (
    <DropdownMenu.Item
      onSelect={onSelect}
      className="flex cursor-pointer items-center justify-between gap-6 rounded-md px-2.5 py-1.5 outline-none data-highlighted:bg-hover"
    >
      <span className="flex items-center gap-2">{children}</span>
      {hint !== undefined && <span className="text-xs text-muted">{hint}</span>}
    </DropdownMenu.Item>
  );
}
