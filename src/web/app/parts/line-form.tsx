/** A form of one line, wrapped where there is no room: its fields, then what it does. */
import type { FormEvent, ReactNode } from "react";
import { Button } from "./button.tsx";

export function LineForm({
  action,
  busy,
  submit,
  primary = false,
  children,
}: {
  /** What its button says. */
  action: string;
  busy: boolean;
  /** `text` gives what stands in a field; `empty` is to be called once it is done. */
  submit(text: (name: string) => string, empty: () => void): void;
  primary?: boolean;
  children: ReactNode;
}) {
  function send(event: FormEvent<HTMLFormElement>): void {
    event.preventDefault();
    const form = event.currentTarget;
    const given = new FormData(form);
    submit(
      (name) => String(given.get(name) ?? ""),
      () => form.reset(),
    );
  }
  return (
    <form onSubmit={send} className="flex flex-wrap items-end gap-3 max-md:[&>label]:w-full">
      {children}
      <Button kind={primary ? "primary" : "plain"} type="submit" disabled={busy} className="h-9">
        {action}
      </Button>
    </form>
  );
}
