/** A labelled input, with its refusal and hint below. */
import { type InputHTMLAttributes, type ReactNode, useId } from "react";
import { useRefusal } from "./form.tsx";

export function Field({
  label,
  hint,
  hidden = false,
  ...rest
}: Omit<InputHTMLAttributes<HTMLInputElement>, "hidden"> & {
  label: string;
  /** True: only screen readers get the label. */
  hidden?: boolean;
  /** Help for the input. */
  hint?: ReactNode;
}) {
  const id = useId();
  const refusal = useRefusal(rest.name);
  const told = [hint !== undefined && `${id}-hint`, refusal !== undefined && `${id}-refusal`].filter(Boolean).join(" ");
  return (
    <div className="min-w-0">
      <label className="block">
        <span className={hidden ? "sr-only" : "field-label"}>{label}</span>
        <input
          className="control w-full"
          aria-invalid={refusal !== undefined || undefined}
          {...(told !== "" && { "aria-describedby": told })}
          {...rest}
        />
      </label>
      {refusal !== undefined && (
        <p id={`${id}-refusal`} role="alert" className="mt-1 max-w-96 text-sm text-danger">
          {refusal}
        </p>
      )}
      {hint !== undefined && (
        <p id={`${id}-hint`} className="mt-1 max-w-96 text-xs text-muted">
          {hint}
        </p>
      )}
    </div>
  );
}

/** A checkbox with its label. */
export const Tick = ({ label, ...rest }: InputHTMLAttributes<HTMLInputElement> & { label: string }) => (
  <label className="flex items-center gap-2 text-sm max-md:min-h-8">
    <input type="checkbox" className="size-4 accent-accent" {...rest} />
    {label}
  </label>
);
