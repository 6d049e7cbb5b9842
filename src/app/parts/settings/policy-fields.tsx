/** The policy of an API key: as plain sentences, and as the fields of a form, which shows the sentences as they change. */
import { useQuery } from "@tanstack/react-query";
import {
  draftToPolicy,
  type Policy,
  type PolicyDraft,
  policySentences,
  RECIPIENT_GROUPS,
} from "../../lib/policy-words.ts";
import { mailboxesQuery } from "../../lib/queries.ts";
import { Area, Checkbox, Field, Select } from "../ui/fields.tsx";

/** A policy in sentences; one sentence says so if it restricts nothing. */
export function PolicySentences({ of: policy }: { of: Policy }) {
  const { data: mailboxes = [] } = useQuery(mailboxesQuery);
  const sentences = policySentences(policy, (id) => mailboxes.find((mailbox) => mailbox.id === id)?.address);
  if (sentences.length === 0) return <p>No further restrictions.</p>;
  return (
    <ul className="list-disc pl-5">
      {sentences.map((sentence) => (
        <li key={sentence} className="wrap-anywhere">
          {sentence}
        </li>
      ))}
    </ul>
  );
}

export function PolicyFields({
  draft,
  change,
}: {
  draft: PolicyDraft;
  /** Called with what the person changed. */
  change: (part: Partial<PolicyDraft>) => void;
}) {
  const { data: mailboxes = [] } = useQuery(mailboxesQuery);
  const unlisted = draft.mailboxes.filter((id) => !mailboxes.some((mailbox) => mailbox.id === id));
  const choices = [
    ...mailboxes.map(({ id, address }) => ({ id, text: address })),
    ...unlisted.map((id) => ({ id, text: id })),
  ];
  const toggled = (list: readonly string[], entry: string, on: boolean): string[] =>
    on ? [...list, entry] : list.filter((one) => one !== entry);

  return (
    <div className="space-y-4">
      <Select
        label="Mailboxes"
        choices={[
          { value: "all", text: "All mailboxes that its person reaches" },
          { value: "some", text: "Only these" },
        ]}
        value={draft.limitsMailboxes ? "some" : "all"}
        onChange={({ target: { value } }) => change({ limitsMailboxes: value === "some" })}
      />
      {draft.limitsMailboxes && (
        <fieldset className="grid gap-1.5">
          <legend className="sr-only">Mailboxes</legend>
          {choices.map(({ id, text }) => (
            <Checkbox
              key={id}
              label={text}
              name="mailboxes"
              value={id}
              checked={draft.mailboxes.includes(id)}
              onChange={({ target: { checked } }) => change({ mailboxes: toggled(draft.mailboxes, id, checked) })}
            />
          ))}
        </fieldset>
      )}
      <Select
        label="Sending"
        name="send"
        choices={[
          { value: "direct", text: "Sends without approval" },
          { value: "hold", text: "Everything needs approval" },
        ]}
        value={draft.send}
        onChange={({ target: { value } }) => change({ send: value as PolicyDraft["send"] })}
      />
      <Select
        label="Recipients"
        choices={[
          { value: "all", text: "Anybody" },
          { value: "some", text: "Only these" },
        ]}
        value={draft.limitsRecipients ? "some" : "all"}
        onChange={({ target: { value } }) => change({ limitsRecipients: value === "some" })}
      />
      {draft.limitsRecipients && (
        <>
          <fieldset className="grid gap-1.5">
            <legend className="sr-only">Groups of recipients</legend>
            {Object.entries(RECIPIENT_GROUPS).map(([group, meaning]) => (
              <Checkbox
                key={group}
                label={meaning}
                checked={draft.groups.includes(group)}
                onChange={({ target: { checked } }) => change({ groups: toggled(draft.groups, group, checked) })}
              />
            ))}
          </fieldset>
          <Area
            label="Addresses, and domains as @example.com"
            name="recipients"
            value={draft.addresses}
            onChange={({ target: { value } }) => change({ addresses: value })}
            autoComplete="off"
            spellCheck={false}
          />
          <Select
            label="Mail to anybody else"
            name="otherwise"
            choices={[
              { value: "refuse", text: "is refused" },
              { value: "hold", text: "waits for approval" },
            ]}
            value={draft.otherwise}
            onChange={({ target: { value } }) => change({ otherwise: value as PolicyDraft["otherwise"] })}
          />
        </>
      )}
      <div className="grid gap-4 sm:grid-cols-2">
        <Field
          label="Most recipients in 24 hours"
          name="recipientsPerDay"
          type="number"
          min={0}
          max={1_000_000}
          value={draft.recipientsPerDay}
          onChange={({ target: { value } }) => change({ recipientsPerDay: value })}
          hint="Leave empty for no limit."
        />
        <Field
          label="Most changes in an hour"
          name="changesPerHour"
          type="number"
          min={0}
          max={1_000_000}
          value={draft.changesPerHour}
          onChange={({ target: { value } }) => change({ changesPerHour: value })}
          hint="Moves, labels, stars, drafts. Leave empty for no limit."
        />
        <Field
          label="Expires"
          name="expiresAt"
          type="datetime-local"
          value={draft.expiresAt}
          onChange={({ target: { value } }) => change({ expiresAt: value })}
          hint="Leave empty for a key that does not expire."
        />
        <Area
          label="Allowed networks"
          name="networks"
          rows={2}
          value={draft.networks}
          onChange={({ target: { value } }) => change({ networks: value })}
          hint="For example 192.0.2.0/24. Leave empty for any network."
          autoComplete="off"
          spellCheck={false}
        />
      </div>
      <Checkbox
        label="Mask one-time codes and sign-in links in what it reads"
        name="codes"
        checked={draft.masksCodes}
        onChange={({ target: { checked } }) => change({ masksCodes: checked })}
      />
      <div role="status" className="rounded-lg bg-panel px-4 py-3 text-sm">
        <PolicySentences of={draftToPolicy(draft)} />
      </div>
    </div>
  );
}
