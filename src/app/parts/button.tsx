/** Buttons with text, and buttons with only an icon. */
import type { LucideIcon } from "lucide-react";
import type { ButtonHTMLAttributes } from "react";

const KINDS = {
  primary: "bg-accent text-on-accent hover:brightness-110 font-medium",
  plain: "border border-line bg-raised text-ink hover:bg-hover",
  quiet: "text-soft hover:bg-hover hover:text-ink",
  danger: "border border-line bg-raised text-danger hover:bg-alarm",
  destroy: "bg-danger text-on-danger hover:brightness-110 font-medium",
} as const;

export function Button({
  kind = "plain",
  className = "",
  ...rest
}: ButtonHTMLAttributes<HTMLButtonElement> & { kind?: keyof typeof KINDS }) {
  return (
    <button
      type="button"
      className={`inline-flex h-8 items-center justify-center gap-1.5 rounded-md px-3 text-sm whitespace-nowrap disabled:opacity-55 max-md:h-10 ${KINDS[kind]} ${className}`}
      {...rest}
    />
  );
}

/** `label` is the accessible name and, with `shortcut`, the tooltip. */
export function IconButton({
  icon: Icon,
  label,
  shortcut,
  filled = false,
  className = "",
  ...rest
}: Omit<ButtonHTMLAttributes<HTMLButtonElement>, "aria-label"> & {
  icon: LucideIcon;
  label: string;
  shortcut?: string;
  filled?: boolean;
}) {
  return (
    <button
      type="button"
      aria-label={label}
      title={shortcut === undefined ? label : `${label} (${shortcut})`}
      className={`inline-flex size-8 shrink-0 items-center justify-center rounded-md text-muted hover:bg-hover hover:text-ink disabled:opacity-40 max-md:size-10 ${className}`}
      {...rest}
    >
      <Icon size={17} strokeWidth={1.8} fill={filled ? "currentColor" : "none"} aria-hidden />
    </button>
  );
}
