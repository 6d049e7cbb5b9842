/** A labelled choice of one among a few words. */
import type { SelectHTMLAttributes } from "react";

export function Select({
  label,
  choices,
  hidden = false,
  ...rest
}: Omit<SelectHTMLAttributes<HTMLSelectElement>, "hidden"> & {
  label: string;
  choices: readonly string[];
  /** The label is for screen readers alone. */
  hidden?: boolean;
}) {
  return (
    <label className="block">
      <span className={hidden ? "sr-only" : "mb-1 block text-sm text-soft"}>{label}</span>
      <select className="h-9 rounded-md border border-line bg-raised px-2 focus:border-accent" {...rest}>
        {choices.map((choice) => (
          <option key={choice}>{choice}</option>
        ))}
      </select>
    </label>
  );
}
