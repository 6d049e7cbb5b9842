/** A secret that is shown once, with a button to copy it. */
import type { ReactNode } from "react";
import { CopyValue } from "./settings-blocks.tsx";

export function ShownOnce({
  title,
  label,
  value,
  children,
}: {
  /** Says what to do with it now. */
  title: string;
  /** Accessible name of the value. */
  label: string;
  value: string;
  /** More about it. */
  children?: ReactNode;
}) {
  return (
    <div className="space-y-2 rounded-lg bg-notice p-4">
      <p className="font-medium">{title}</p>
      {children && <p className="text-sm">{children}</p>}
      <CopyValue label={label} value={value} />
    </div>
  );
}
