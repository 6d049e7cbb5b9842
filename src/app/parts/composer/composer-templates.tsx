/** The templates of the mailbox that a message is sent from: one is put into the message, or made of it. */
import { useNavigate } from "@tanstack/react-router";
import { LayoutTemplate, Save, Settings } from "lucide-react";
import { type KeyboardEvent, useState } from "react";
import { api } from "../../lib/api-client.ts";
import type { Template } from "../../lib/mail-views.ts";
import { useChange } from "../../lib/queries.ts";
import { Button, IconButton } from "../ui/button.tsx";
import { Dialog } from "../ui/dialog.tsx";
import { Field } from "../ui/fields.tsx";
import { Menu } from "../ui/menus.tsx";

/** Length limit of a template's name, in characters. It equals the server's (operations/shared-schemas.ts). */
const LONGEST_NAME = 100;

export function Templates({
  mailboxId,
  templates,
  manages,
  insert,
  content,
}: {
  mailboxId: string;
  templates: readonly Template[];
  /** True: the person may change them. */
  manages: boolean;
  insert: (template: Template) => void;
  /** Returns the content for a new template. */
  content: () => Omit<Template, "name">;
}) {
  const [saving, setSaving] = useState(false);
  const navigate = useNavigate();
  return (
    <>
      <Menu
        trigger={<IconButton icon={LayoutTemplate} label="Templates" />}
        items={[
          ...templates.map((template) => ({ label: template.name, run: () => insert(template) })),
          ...(manages ? [{ label: "Save as template…", icon: Save, run: () => setSaving(true) }] : []),
          {
            label: templates.length === 0 && !manages ? "No templates yet" : "Signature and templates",
            icon: Settings,
            run: () => void navigate({ to: "/settings/writing" }),
          },
        ]}
      />
      <Dialog open={saving} close={() => setSaving(false)} title="Save as template">
        <SaveAs
          mailboxId={mailboxId}
          names={templates.map(({ name }) => name)}
          content={content}
          close={() => setSaving(false)}
        />
      </Dialog>
    </>
  );
}

function SaveAs({
  mailboxId,
  names,
  content,
  close,
}: {
  mailboxId: string;
  names: readonly string[];
  content: () => Omit<Template, "name">;
  close: () => void;
}) {
  const [name, setName] = useState("");
  const replaces = names.find((one) => one.toLowerCase() === name.trim().toLowerCase());
  const save = useChange((template: Template) => api.saveTemplate({ id: mailboxId, ...template, replaces }), {
    key: ["texts"],
    success: "Template saved",
  });
  function submit(): void {
    if (name.trim() !== "") save.mutate({ name, ...content() }, { onSuccess: close });
  }
  return (
    <>
      <Field
        label="Name"
        value={name}
        maxLength={LONGEST_NAME}
        autoComplete="off"
        onChange={(event) => setName(event.target.value)}
        onKeyDown={(event: KeyboardEvent) => {
          if (event.key !== "Enter") return;
          // Otherwise Enter would submit the form around it, which sends.
          event.preventDefault();
          event.stopPropagation();
          submit();
        }}
        hint={replaces === undefined ? undefined : `It replaces “${replaces}”.`}
      />
      <div className="mt-4 flex gap-2">
        <Button kind="primary" disabled={name.trim() === "" || save.isPending} onClick={submit}>
          Save
        </Button>
        <Button onClick={close}>Cancel</Button>
      </div>
    </>
  );
}
