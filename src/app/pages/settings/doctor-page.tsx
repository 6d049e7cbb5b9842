/** The doctor's findings and advice. It looks on request, and once a day by itself. */
import { useQuery } from "@tanstack/react-query";
import { CircleAlert, CircleCheck, CircleDashed, TriangleAlert } from "lucide-react";
import { api } from "../../lib/api-client.ts";
import { formatCount } from "../../lib/format.ts";
import { useChange, WORKSPACE } from "../../lib/queries.ts";
import { fullTime } from "../../lib/time-format.ts";
import { ListPanel } from "../../parts/settings/row-list.tsx";
import { Nothing, SettingsPage } from "../../parts/settings/settings-blocks.tsx";
import { Button } from "../../parts/ui/button.tsx";
import { NotLoaded } from "../../parts/ui/notice.tsx";
import { type DoctorView, doctorQuery, type LookView } from "./settings-workspace.ts";

type Finding = LookView["findings"][number];

const STATES = {
  bad: { icon: CircleAlert, className: "text-danger", text: "bad" },
  warning: { icon: TriangleAlert, className: "text-ink", text: "warning" },
  unknown: { icon: CircleDashed, className: "text-muted", text: "not known" },
  ok: { icon: CircleCheck, className: "text-accent", text: "ok" },
} as const;

export function DoctorPage() {
  const doctor = useQuery(doctorQuery);
  const examine = useChange(api.examineServer, { key: WORKSPACE });
  if (!doctor.data) return <NotLoaded query={doctor} what="findings" />;
  const { running, last, daily } = doctor.data;
  const newest = last !== null && (daily === null || last.at >= daily.at) ? last : daily;
  const busy = running !== null || examine.isPending;
  return (
    <SettingsPage
      title="Doctor"
      intro="Checks the server, its DNS records and its connections to other servers, and says what to do about problems. It runs once a day, and sends you mail when something breaks."
      action={
        <Button kind="primary" aria-disabled={busy} onClick={() => !busy && examine.mutate(undefined)}>
          {busy ? "Checking…" : "Run checks"}
        </Button>
      }
    >
      <div role="status">
        {running !== null && "Running checks. Some wait for other servers, for up to half a minute."}
        {running === null && newest !== null && `${formatLookSummary(newest)} Checked ${fullTime(newest.at)}.`}
      </div>
      {running !== null && <Progress of={running} />}
      {newest === null && running === null && <Nothing>No checks have run yet.</Nothing>}
      {newest !== null && <Findings of={newest} />}
      <p className="text-sm text-muted">{dailyLine(daily)}</p>
    </SettingsPage>
  );
}

function Progress({ of: { checks, waitingFor } }: { of: NonNullable<DoctorView["running"]> }) {
  const made = checks - waitingFor.length;
  return (
    <div>
      <progress aria-label="Checks done" value={made} max={checks} className="use-bar" />
      <p className="mt-1 text-sm text-muted">
        {made} of {checks} checks done
        {waitingFor.length > 0 && `; waiting for ${waitingFor.join(", ")}`}
      </p>
    </div>
  );
}

const countFindings = ({ findings }: LookView, state: Finding["state"]): number =>
  findings.filter((finding) => finding.state === state).length;

function formatLookSummary(look: LookView): string {
  const [bad, warnings] = [countFindings(look, "bad"), countFindings(look, "warning")];
  if (bad === 0 && warnings === 0) return "Nothing needs attention.";
  const warned = formatCount(warnings, "warning");
  if (bad === 0) return `${warned}.`;
  return `${formatCount(bad, "thing needs", "things need")} attention${warnings > 0 ? `, ${warned}` : ""}.`;
}

const dailyLine = (daily: LookView | null): string =>
  daily === null
    ? "The daily checks have not run yet: they run 15 minutes after the server starts, then once a day."
    : `Last daily checks: ${fullTime(daily.at)}, ${countFindings(daily, "bad")} bad, ${formatCount(countFindings(daily, "warning"), "warning")}.`;

function Findings({ of: { findings } }: { of: LookView }) {
  const toDo = findings.filter(({ state }) => state === "bad" || state === "warning");
  const rest = findings.filter(({ state }) => state === "ok" || state === "unknown");
  const byState = (a: Finding, b: Finding) => ORDER.indexOf(a.state) - ORDER.indexOf(b.state);
  return (
    <>
      {toDo.length > 0 && (
        <ListPanel of={toDo.toSorted(byState)} title="Needs attention">
          {(finding) => <Row key={finding.id} finding={finding} />}
        </ListPanel>
      )}
      {rest.length > 0 && (
        <ListPanel of={rest.toSorted(byState)} title="Passed">
          {(finding) => <Row key={finding.id} finding={finding} />}
        </ListPanel>
      )}
    </>
  );
}

const ORDER = Object.keys(STATES);

function Row({ finding: { name, state, detail, todo } }: { finding: Finding }) {
  const { icon: Icon, className, text } = STATES[state];
  return (
    <li className="flex gap-3">
      <Icon size={17} aria-hidden className={`mt-0.5 shrink-0 ${className}`} />
      <div className="min-w-0 grow wrap-anywhere">
        <p>
          <span className="font-medium">{name}</span> <span className={`text-sm ${className}`}>{text}</span>
        </p>
        <p className="text-sm text-soft">{detail}</p>
        {todo !== undefined && <p className="mt-1 text-sm">{todo}</p>}
      </div>
    </li>
  );
}
