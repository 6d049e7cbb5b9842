/**
 * Where mail is written: a new message or an answer. Who sends decides what becomes of it (`send`); a refusal is shown
 * and nothing that was written is lost.
 */
import { type FormEvent, type ReactNode, useId, useState } from "react";
import { Button } from "./button.tsx";

export interface Written {
  from: string;
  to: string;
  cc: string;
  bcc: string;
  subject: string;
  text: string;
}

export function Composer({
  senders,
  initial,
  asksSubject,
  send,
  discard,
  save,
}: {
  /** Addresses that it may come from. */
  senders: readonly string[];
  initial: Written;
  asksSubject: boolean;
  /** Rejects with the refusal. */
  send: (written: Written) => Promise<unknown>;
  discard: () => void;
  /** Keeps it as it is, for later. Rejects with the refusal. */
  save?: (written: Written) => Promise<unknown>;
}) {
  const [written, setWritten] = useState(initial);
  const [copies, setCopies] = useState(initial.cc !== "" || initial.bcc !== "");
  const [refusal, setRefusal] = useState<string>();
  const [busy, setBusy] = useState(false);
  const set = (name: keyof Written) => (value: string) => setWritten((before) => ({ ...before, [name]: value }));

  async function attempt(what: (written: Written) => Promise<unknown>): Promise<void> {
    setBusy(true);
    setRefusal(undefined);
    try {
      await what(written);
    } catch (error) {
      setRefusal((error as Error).message);
    } finally {
      setBusy(false);
    }
  }

  function submit(event: FormEvent): void {
    event.preventDefault();
    void attempt(send);
  }

  return (
    <form onSubmit={submit} className="flex min-h-0 grow flex-col">
      <div className="divide-y divide-line border-b border-line px-4">
        {senders.length > 1 && (
          <Row label="From">
            {(id) => (
              <select
                id={id}
                value={written.from}
                onChange={(event) => set("from")(event.target.value)}
                className="h-8 w-full rounded bg-transparent px-0.5 -outline-offset-1 focus-visible:outline-1"
              >
                {senders.map((sender) => (
                  <option key={sender} className="bg-raised">
                    {sender}
                  </option>
                ))}
              </select>
            )}
          </Row>
        )}
        <div className="flex items-center">
          <Line label="To" value={written.to} change={set("to")} autoFocus={initial.to === ""} />
          {!copies && (
            <button
              type="button"
              onClick={() => setCopies(true)}
              className="rounded px-2 py-1 text-sm text-muted hover:text-ink"
            >
              Cc Bcc
            </button>
          )}
        </div>
        {copies && (
          <>
            <Line label="Cc" value={written.cc} change={set("cc")} />
            <Line label="Bcc" value={written.bcc} change={set("bcc")} />
          </>
        )}
        {asksSubject && <Line label="Subject" value={written.subject} change={set("subject")} />}
      </div>
      <textarea
        aria-label="Message"
        value={written.text}
        onChange={(event) => set("text")(event.target.value)}
        onKeyDown={(event) => {
          if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) event.currentTarget.form?.requestSubmit();
        }}
        // biome-ignore lint/a11y/noAutofocus: who asks to answer wants to write
        autoFocus={initial.to !== ""}
        required
        className="min-h-44 w-full grow resize-none bg-transparent px-4 py-3 text-base leading-relaxed -outline-offset-1 focus-visible:outline-1"
      />
      {refusal !== undefined && (
        <p role="alert" className="px-4 pb-2 text-sm text-danger">
          {refusal}
        </p>
      )}
      <div className="flex items-center gap-2 border-t border-line px-3 py-2">
        <Button kind="primary" type="submit" disabled={busy} title="Send (Ctrl+Enter)">
          {busy ? "Sending…" : "Send"}
        </Button>
        {save && (
          <Button disabled={busy} onClick={() => void attempt(save)}>
            Save
          </Button>
        )}
        <Button kind="quiet" onClick={discard}>
          Discard
        </Button>
      </div>
    </form>
  );
}

function Row({ label, children }: { label: string; children: (id: string) => ReactNode }) {
  const id = useId();
  return (
    <div className="flex min-w-0 grow items-center gap-2 py-0.5">
      <label htmlFor={id} className="w-14 shrink-0 text-sm text-muted">
        {label}
      </label>
      {children(id)}
    </div>
  );
}

function Line({
  label,
  value,
  change,
  autoFocus = false,
}: {
  label: string;
  value: string;
  change: (value: string) => void;
  autoFocus?: boolean;
}) {
  return (
    <Row label={label}>
      {(id) => (
        <input
          id={id}
          value={value}
          onChange={(event) => change(event.target.value)}
          // biome-ignore lint/a11y/noAutofocus: who asks to write begins with whom to
          autoFocus={autoFocus}
          autoComplete="off"
          className="h-8 min-w-0 grow rounded bg-transparent px-1.5 -outline-offset-1 focus-visible:outline-1"
        />
      )}
    </Row>
  );
}
