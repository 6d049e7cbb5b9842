/**
 * Forms that keep their values until they succeed: in a page and on one line. A refusal is shown at the field
 * that it is about, which gets the focus; screen readers hear it as the error of that field.
 */
import { type FormEvent, type ReactNode, useEffect, useRef, useState } from "react";
import { Button } from "./button.tsx";
import { FormRefusal } from "./fields.tsx";

/** State of a form's request, as useChange gives it. */
export interface Sending {
  isPending: boolean;
  error: Error | null;
  reset(): void;
}

/** The values of a form. */
export interface Given {
  /** Value of a field; of a select, one of its choices. */
  text<T extends string = string>(name: string): T;
  /** Values of the ticked checkboxes. */
  all<T extends string = string>(name: string): T[];
  /** Clears the form; call it after success. */
  empty(): void;
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
      text: <T extends string>(name: string) => String(data.get(name) ?? "") as T,
      all: <T extends string>(name: string) => data.getAll(name).map(String) as T[],
      empty: () => target.reset(),
    });
  }

  return (
    <form ref={form} onSubmit={send} onInput={() => message !== undefined && sending.reset()} className={className}>
      <FormRefusal value={message === undefined ? {} : { field, message }}>{children}</FormRefusal>
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

/** A form on one line, which wraps if it does not fit: its fields, then its button. */
export function LineForm({
  action,
  sending,
  submit,
  primary = false,
  children,
}: {
  /** Label of its button. */
  action: string;
  sending: Sending;
  submit(given: Given): void;
  primary?: boolean;
  children: ReactNode;
}) {
  return (
    <Form
      sending={sending}
      submit={submit}
      className="flex flex-wrap items-start gap-x-3 gap-y-3 max-md:[&>:is(div,label)]:w-full md:[&>div]:min-w-56"
    >
      {children}
      <Button
        kind={primary ? "primary" : "plain"}
        type="submit"
        disabled={sending.isPending}
        className="h-9 md:mt-6 max-md:h-11 max-md:w-full"
      >
        {action}
      </Button>
    </Form>
  );
}
