/** The signature and templates of the mailboxes that the person sends from. */
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { api } from "../../lib/api-client.ts";
import type { MailboxView, Template } from "../../lib/mail-views.ts";
import { mailboxesQuery, mailboxTextsQuery, useChange } from "../../lib/queries.ts";
import { RowList } from "../../parts/settings/row-list.tsx";
import { SaveRow } from "../../parts/settings/save-row.tsx";
import { Nothing, Panel, SettingsPage } from "../../parts/settings/settings-blocks.tsx";
import { Button } from "../../parts/ui/button.tsx";
import { ConfirmButton } from "../../parts/ui/dialog.tsx";
import { Area, Field, Select } from "../../parts/ui/fields.tsx";
import { Form } from "../../parts/ui/form.tsx";
import { NotLoaded } from "../../parts/ui/notice.tsx";

const KEY = ["texts"];

export function WritingPage() {
  const mailboxes = useQuery(mailboxesQuery);
  const [chosen, setChosen] = useState<string>();
  const sending = mailboxes.data?.filter(({ access }) => access.send) ?? [];
  const mailbox =
    sending.find(({ id }) => id === chosen) ?? sending.find(({ source }) => source === "owner") ?? sending[0];
  return (
    <SettingsPage
      title="Signature and templates"
      intro="Each mailbox has its own. Everybody who sends from it uses them; its owner, admins and people with full access change them."
    >
      {!mailboxes.data && <NotLoaded query={mailboxes} what="mailboxes" />}
      {sending.length > 1 && mailbox && (
        <Select
          label="Mailbox"
          choices={sending.map(({ id, address }) => ({ value: id, text: address }))}
          value={mailbox.id}
          onChange={(event) => setChosen(event.target.value)}
          className="max-w-96"
        />
      )}
      {mailboxes.data && !mailbox && <Nothing>You have no mailbox to send from.</Nothing>}
      {mailbox && <MailboxTexts key={mailbox.id} mailbox={mailbox} />}
    </SettingsPage>
  );
}

function MailboxTexts({ mailbox: { id, access } }: { mailbox: MailboxView }) {
  const texts = useQuery(mailboxTextsQuery(id));
  const save = useChange((text: string) => api.changeSignature({ id, text }), {
    key: KEY,
    success: "Signature saved",
    atForm: true,
  });
  /** Name of the template that is edited; empty for a new one. */
  const [edited, setEdited] = useState<string>();
  if (!texts.data) return <NotLoaded query={texts} what="the signature and templates" />;
  const { signature, templates } = texts.data;
  const { manage } = access;

  return (
    <>
      <Panel title="Signature" about="Below your words, and above what you quote.">
        <Form sending={save} submit={({ text }) => save.mutate(text("signature"))} className="space-y-3">
          <Area
            label="Signature"
            name="signature"
            defaultValue={signature}
            rows={5}
            maxLength={10_000}
            readOnly={!manage}
            dir="auto"
          />
          {manage && <SaveRow action="Save signature" sending={save} />}
        </Form>
      </Panel>
      <Panel
        title="Templates"
        about="Texts that you write often. The composer puts one where you write."
        action={manage && edited === undefined && <Button onClick={() => setEdited("")}>New template</Button>}
      >
        {edited === "" && <TemplateForm mailboxId={id} close={() => setEdited(undefined)} />}
        <RowList of={templates} label="Templates" empty={edited === undefined && "None yet."}>
          {(template) => (
            <li key={template.name}>
              {edited === template.name ? (
                <TemplateForm mailboxId={id} template={template} close={() => setEdited(undefined)} />
              ) : (
                <TemplateRow
                  mailboxId={id}
                  template={template}
                  edit={manage ? () => setEdited(template.name) : undefined}
                />
              )}
            </li>
          )}
        </RowList>
      </Panel>
    </>
  );
}

function TemplateRow({
  mailboxId,
  template: { name, subject, text },
  edit,
}: {
  mailboxId: string;
  template: Template;
  /** Undefined for somebody who may not change it. */
  edit: (() => void) | undefined;
}) {
  const remove = useChange(() => api.deleteTemplate({ id: mailboxId, name }), {
    key: KEY,
    success: "Template deleted",
  });
  return (
    <div className="flex items-start gap-3 max-md:flex-wrap">
      <div className="min-w-0 grow">
        <p className="font-medium wrap-anywhere">{name}</p>
        {subject !== undefined && <p className="text-sm text-soft wrap-anywhere">{subject}</p>}
        <p dir="auto" className="line-clamp-2 text-sm whitespace-pre-line text-muted wrap-anywhere">
          {text}
        </p>
      </div>
      {edit && (
        <div className="flex shrink-0 gap-2">
          <Button aria-label={`Edit ${name}`} onClick={edit}>
            Edit
          </Button>
          <ConfirmButton
            aria-label={`Delete ${name}`}
            question={`Delete “${name}”?`}
            action="Delete"
            consequences={<p>Messages that began with it stay as they are.</p>}
            disabled={remove.isPending}
            run={() => remove.mutate(undefined)}
          >
            Delete
          </ConfirmButton>
        </div>
      )}
    </div>
  );
}

function TemplateForm({ mailboxId, template, close }: { mailboxId: string; template?: Template; close: () => void }) {
  const save = useChange((next: Template) => api.saveTemplate({ id: mailboxId, ...next, replaces: template?.name }), {
    key: KEY,
    success: "Template saved",
    atForm: true,
  });
  return (
    <Form
      sending={save}
      submit={({ text }) =>
        save.mutate(
          { name: text("name"), ...(text("subject") !== "" && { subject: text("subject") }), text: text("text") },
          { onSuccess: close },
        )
      }
      className="space-y-3 pb-4"
    >
      <Field label="Name" name="name" defaultValue={template?.name} maxLength={100} required autoComplete="off" />
      <Field label="Subject (optional)" name="subject" defaultValue={template?.subject} autoComplete="off" dir="auto" />
      <Area label="Text" name="text" defaultValue={template?.text} rows={8} maxLength={20_000} required dir="auto" />
      <SaveRow action="Save template" sending={save} cancel={close} />
    </Form>
  );
}
