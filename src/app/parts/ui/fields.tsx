/** Labelled inputs, each with its hint and refusal below: text, checkbox, choice of one, choice of several. */
import {
  type ComponentProps,
  createContext,
  type InputHTMLAttributes,
  type ReactNode,
  type SelectHTMLAttributes,
  type TextareaHTMLAttributes,
  useContext,
  useId,
} from "react";

/** The refusal that a form around the fields shows. */
export const FormRefusal = createContext<{ field?: string | undefined; message?: string }>({});

/** The refusal of that field, if there is one. */
function useRefusal(name: string | undefined): string | undefined {
  const { field, message } = useContext(FormRefusal);
  return name !== undefined && field === name ? message : undefined;
}

/** Texts that label and explain an input. */
interface Labelling {
  label: string;
  /** True: only screen readers get the label. */
  hidden?: boolean;
  /** Help for the input. */
  hint?: ReactNode;
}

/** The accessible description of an input, and what stands below it: its refusal and its hint. */
function useNotes(name: string | undefined, hint: ReactNode): { aria: object; notes: ReactNode } {
  const id = useId();
  const refusal = useRefusal(name);
  const describedBy = [hint !== undefined && `${id}-hint`, refusal !== undefined && `${id}-refusal`]
    .filter(Boolean)
    .join(" ");
  return {
    aria: {
      "aria-invalid": refusal !== undefined || undefined,
      ...(describedBy !== "" && { "aria-describedby": describedBy }),
    },
    notes: (
      <>
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
      </>
    ),
  };
}

/** A text input. */
export function Field({
  label,
  hint,
  hidden = false,
  ...rest
}: Omit<InputHTMLAttributes<HTMLInputElement>, "hidden"> & Labelling) {
  const { aria, notes } = useNotes(rest.name, hint);
  return (
    <div className="min-w-0">
      <label className="block">
        <span className={hidden ? "sr-only" : "field-label"}>{label}</span>
        <input className="control w-full" {...aria} {...rest} />
      </label>
      {notes}
    </div>
  );
}

/** An input for a new password. The server refuses shorter ones than its hint says. */
export function NewPassword({
  more,
  ...rest
}: Omit<ComponentProps<typeof Field>, "hint"> & {
  /** A further sentence of the hint. */
  more?: string | undefined;
}) {
  const hint = `At least 10 characters.${more === undefined ? "" : ` ${more}`}`;
  return <Field name="password" type="password" autoComplete="new-password" hint={hint} required {...rest} />;
}

/** An input of several lines. */
export function Area({
  label,
  hint,
  ...rest
}: TextareaHTMLAttributes<HTMLTextAreaElement> & Omit<Labelling, "hidden">) {
  const { aria, notes } = useNotes(rest.name, hint);
  return (
    <div className="min-w-0">
      <label className="block">
        <span className="field-label">{label}</span>
        <textarea className="control h-auto! w-full py-1.5" rows={3} {...aria} {...rest} />
      </label>
      {notes}
    </div>
  );
}

/** A checkbox. */
export const Checkbox = ({ label, ...rest }: InputHTMLAttributes<HTMLInputElement> & { label: string }) => (
  <label className="flex items-center gap-2 text-sm max-md:min-h-8">
    <input type="checkbox" className="size-4 accent-accent" {...rest} />
    {label}
  </label>
);

type Choice = string | { value: string; text: string };

/** A <select>. */
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

/** A choice of several values by checkboxes. All are ticked at first, unless `chosen` is given. */
export function Checkboxes({
  legend,
  name,
  choices,
  chosen = choices,
  meaning = {},
}: {
  legend: string;
  name: string;
  choices: readonly string[];
  chosen?: readonly string[];
  /** Explanations of choices. */
  meaning?: Readonly<Record<string, string>>;
}) {
  const refusal = useRefusal(name);
  return (
    <fieldset>
      <legend className="field-label">{legend}</legend>
      <div className="grid gap-1.5">
        {choices.map((choice) => (
          <label key={choice} className="flex items-start gap-2 text-sm max-md:min-h-8">
            <input
              type="checkbox"
              name={name}
              value={choice}
              defaultChecked={chosen.includes(choice)}
              className="mt-0.5 size-4 shrink-0 accent-accent"
            />
            <span>
              {choice}
              {meaning[choice] !== undefined && <span className="block text-xs text-muted">{meaning[choice]}</span>}
            </span>
          </label>
        ))}
      </div>
      {refusal !== undefined && (
        <p role="alert" className="mt-1 text-sm text-danger">
          {refusal}
        </p>
      )}
    </fieldset>
  );
}
