/** A form on one line, which wraps if it does not fit: its fields, then its button. */
import type { ReactNode } from "react";
import { Button } from "./button.tsx";
import { Form, type Given, type Sending } from "./form.tsx";

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
