/**
 * A form that keeps its values until it succeeds. It shows a refusal at the field that it is about, and moves the focus
 * there; screen readers hear it as the error of that field.
 */
import { createContext, type FormEvent, type ReactNode, useContext, useEffect, useRef, useState } from "react";

/** State of a form's request, as useChange gives it. */
export interface Sending {
  isPending: boolean;
  error: Error | null;
  reset(): void;
}

/** The values of a form. */
export interface Given {
  /** Value of a field. */
  text(name: string): string;
  /** Values of the ticked checkboxes. */
  all(name: string): string[];
  /** Clears the form; call it after success. */
  empty(): void;
}

const Refused = createContext<{ field?: string | undefined; message?: string }>({});

/** The refusal of that field, if there is one. */
export function useRefusal(name: string | undefined): string | undefined {
  const { field, message } = useContext(Refused);
  return name !== undefined && field === name ? message : undefined;
}

export function Form({
  sending,
  submit,
  className,
  children,
}: {
  sending: Sending;
  submit(given: Given): void;
  className?: string;
  children: ReactNode;
}) {
  const form = useRef<HTMLFormElement>(null);
  const [sent, setSent] = useState<[string, string][]>([]);
  const message = sending.error?.message;
  const field = message === undefined ? undefined : refusedField(message, sent);

  useEffect(() => {
    const named = field === undefined ? null : form.current?.elements.namedItem(field);
    if (message !== undefined && named instanceof HTMLElement) named.focus();
  }, [field, message]);

  function send(event: FormEvent<HTMLFormElement>): void {
    event.preventDefault();
    const target = event.currentTarget;
    const data = new FormData(target);
    setSent([...data].map(([name, value]) => [name, String(value)]));
    submit({
      text: (name) => String(data.get(name) ?? ""),
      all: (name) => data.getAll(name).map(String),
      empty: () => target.reset(),
    });
  }

  return (
    <form ref={form} onSubmit={send} onInput={() => message !== undefined && sending.reset()} className={className}>
      <Refused value={message === undefined ? {} : { field, message }}>{children}</Refused>
      {message !== undefined && field === undefined && (
        <p role="alert" className="w-full text-sm text-danger">
          {message}
        </p>
      )}
    </form>
  );
}

/**
 * Finds the field that a refusal is about. Refusals are words for people: they name the field, or quote its value.
 * `given`: names of the fields with the values sent. Undefined when no single field is meant.
 */
function refusedField(message: string, given: Iterable<readonly [name: string, value: string]>): string | undefined {
  const fields = [...given];
  const words = message.toLowerCase();
  const quoted = fields.find(([, value]) => value.trim().length > 2 && words.includes(value.trim().toLowerCase()));
  const named = fields.find(([name]) => new RegExp(`\\b${name.toLowerCase()}\\b`).test(words));
  const [field] = quoted ?? named ?? (fields.length === 1 ? fields : []).at(0) ?? [];
  return field;
}
