/** The setting for how long sending can be undone. */
import { useQuery } from "@tanstack/react-query";
import { api } from "../lib/api.ts";
import { sendingQuery } from "../lib/queries.ts";
import { useChange } from "../lib/settings.ts";
import { Panel } from "./settings.tsx";

const CHOICES = [
  [0, "Not at all"],
  [5, "5 seconds"],
  [10, "10 seconds"],
  [20, "20 seconds"],
  [30, "30 seconds"],
] as const;

export function UndoSetting() {
  const { data } = useQuery(sendingQuery);
  const change = useChange(api.setSendingPreferences, { key: sendingQuery.queryKey, told: "Changed" });
  if (!data) return null;
  return (
    <Panel title="Sending">
      <label className="block">
        <span className="field-label">What you send can be undone for</span>
        <select
          value={data.undoSeconds}
          disabled={change.isPending}
          onChange={(event) => change.mutate({ undoSeconds: Number(event.target.value) })}
          className="control"
        >
          {CHOICES.map(([seconds, label]) => (
            <option key={seconds} value={seconds}>
              {label}
            </option>
          ))}
        </select>
      </label>
    </Panel>
  );
}
