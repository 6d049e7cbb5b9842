/** Pauses sending from a workspace, and resumes it. */
import { useChange } from "../lib/settings.ts";
import { WORKSPACE, workspaceApi } from "../lib/settings-workspace.ts";
import { Button } from "./button.tsx";
import { Field } from "./field.tsx";
import { LineForm } from "./line-form.tsx";

export function WorkspacePause({ id, name, pausedReason }: { id: string; name: string; pausedReason: string | null }) {
  const pause = useChange(workspaceApi.pauseWorkspace, {
    key: WORKSPACE,
    told: `Nothing more is sent from ${name}`,
    atForm: true,
  });
  const resume = useChange(workspaceApi.pauseWorkspace, { key: WORKSPACE, told: `${name} may send again` });
  if (pausedReason !== null) {
    return (
      <Button disabled={resume.isPending} onClick={() => resume.mutate({ id, pausedReason: null })}>
        Let {name} send again
      </Button>
    );
  }
  return (
    <LineForm
      action="Pause sending"
      sending={pause}
      submit={({ text }) => pause.mutate({ id, pausedReason: text("reason") })}
    >
      <Field label={`Reason to pause ${name}, told to who tries to send`} name="reason" maxLength={500} required />
    </LineForm>
  );
}
