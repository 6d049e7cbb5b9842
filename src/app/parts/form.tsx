/**
 * A form that keeps what was typed until it is done, and says a refusal at the field that it is about: there the focus
 * goes, and screen readers hear it as what is wrong with that field.
 */
import { createContext, type FormEvent, type ReactNode, useContext, useEffect, useRef, useState } from "react";
import { refusedField } from "../lib/refused-field.ts";

/** What goes on when a form is sent, as useChange gives it. */
export interface Sending {
  isPending: boolean;
  error: Error | null;
  reset(): void;
}

/** What was typed. */
export interface Given {
  /** Of a field. */
  text(name: string): string;
  /** Of boxes that are ticked. */
  all(name: string): string[];
  /** To be called once it is done. */
  empty(): void;
}

const Refused = createContext<{ field?: string | undefined; message?: string }>({});

/** What is wrong with that field; undefined when nothing is. */
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
