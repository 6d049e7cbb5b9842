/** A labelled <select>. */
import type { SelectHTMLAttributes } from "react";

type Choice = string | { value: string; text: string };

export function Select({
  label,
  choices,
  hidden = false,
  className = "",
  ...rest
}: Omit<SelectHTMLAttributes<HTMLSelectElement>, "hidden"> & {
  label: string;
  choices: readonly Choice[];
  /** True: only screen readers get the label. */
  hidden?: boolean;
}) {
  return (
    <label className="block min-w-0">
      <span className={hidden ? "sr-only" : "field-label"}>{label}</span>
      <select className={`control max-w-full ${className}`} {...rest}>
        {choices.map((choice) => {
          const { value, text } = typeof choice === "string" ? { value: choice, text: choice } : choice;
          return (
            <option key={value} value={value}>
              {text}
            </option>
          );
        })}
      </select>
    </label>
  );
}
