/** A labelled input. */
import type { InputHTMLAttributes } from "react";

export function Field({ label, ...rest }: InputHTMLAttributes<HTMLInputElement> & { label: string }) {
  return (
    <label className="block">
      <span className="mb-1 block text-sm text-soft">{label}</span>
      <input
        className="h-9 w-full rounded-md border border-line bg-raised px-2.5 placeholder:text-muted focus:border-accent"
        {...rest}
      />
    </label>
  );
}
