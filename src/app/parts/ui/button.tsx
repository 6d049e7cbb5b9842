/** Buttons with text, buttons that copy, and buttons with only an icon. */
import { Check, Copy, type LucideIcon } from "lucide-react";
import { type ButtonHTMLAttributes, useState } from "react";
import { toast } from "../../lib/toast.ts";

const KINDS = {
  primary: "bg-accent text-on-accent hover:brightness-110 font-medium",
  plain: "border border-line bg-raised text-ink hover:bg-hover",
  quiet: "text-soft hover:bg-hover hover:text-ink",
  danger: "border border-line bg-raised text-danger hover:bg-alarm",
  destroy: "bg-danger text-on-danger hover:brightness-110 font-medium",
} as const;

type ButtonProps = ButtonHTMLAttributes<HTMLButtonElement> & { kind?: keyof typeof KINDS };

export function Button({ kind = "plain", className = "", ...rest }: ButtonProps) {
  return (
    <button
      type="button"
      className={`inline-flex h-8 items-center justify-center gap-1.5 rounded-md px-3 text-sm whitespace-nowrap disabled:opacity-55 max-md:h-10 ${KINDS[kind]} ${className}`}
      {...rest}
    />
  );
}

/** Copies `value`. `label`: what that is, for the accessible name. */
export function CopyButton({ label, value, ...rest }: Omit<ButtonProps, "value"> & { label: string; value: string }) {
  const [copied, setCopied] = useState<string>();
  const isCopied = copied === value;
  const action = isCopied ? "Copied" : "Copy";
  async function copy(): Promise<void> {
    try {
      await navigator.clipboard.writeText(value);
      setCopied(value);
    } catch {
      // Browsers give pages a clipboard only over https.
      toast({ text: "The browser does not let this page copy: select the text and copy it yourself", tone: "danger" });
    }
  }
  return (
    <Button onClick={copy} aria-label={`${action}: ${label}`} {...rest}>
      {isCopied ? <Check size={15} aria-hidden /> : <Copy size={15} aria-hidden />}
      {action}
    </Button>
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
