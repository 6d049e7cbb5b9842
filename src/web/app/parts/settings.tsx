/** What pages of settings are made of: heading, boxes, a state in a word, and what is there to be copied. */
import { Check, Copy } from "lucide-react";
import { type ReactNode, useId, useState } from "react";
import { toast } from "../lib/toast.ts";
import { Button } from "./button.tsx";

export function SettingsPage({ title, intro, children }: { title: string; intro?: ReactNode; children: ReactNode }) {
  return (
    <>
      <h1 className="text-xl font-semibold tracking-tight">{title}</h1>
      {intro !== undefined && <p className="mt-1 max-w-prose text-sm text-muted">{intro}</p>}
      <div className="mt-6 space-y-6">{children}</div>
    </>
  );
}

/** A box with a heading of its own. */
export function Panel({ title, children }: { title: string; children: ReactNode }) {
  const id = useId();
  return (
    <section aria-labelledby={id} className="rounded-xl border border-line bg-raised p-5 max-md:p-4">
      <h2 id={id} className="mb-3 text-base font-semibold break-words">
        {title}
      </h2>
      {children}
    </section>
  );
}

const TONES = { good: "bg-chosen text-accent", bad: "bg-notice text-danger", quiet: "bg-hover text-soft" } as const;

export function Badge({ tone, children }: { tone: keyof typeof TONES; children: ReactNode }) {
  return <span className={`rounded px-1.5 py-0.5 text-xs font-medium ${TONES[tone]}`}>{children}</span>;
}

/** A value to be taken elsewhere. `label` says what it is. */
export function CopyValue({ label, value }: { label: string; value: string }) {
  const [copied, setCopied] = useState(false);
  const told = copied ? "Copied" : "Copy";
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(value);
      setCopied(true);
    } catch {
      // Without https browsers give pages no clipboard.
      toast({ text: "The browser does not let this page copy: mark the text and copy it yourself", tone: "danger" });
    }
  };
  return (
    <div className="flex items-center gap-2">
      <input
        readOnly
        aria-label={label}
        value={value}
        onFocus={(event) => event.currentTarget.select()}
        className="h-8 min-w-0 grow rounded-md border border-line bg-ground px-2.5 font-mono text-sm"
      />
      <Button onClick={copy} aria-label={`${told}: ${label}`}>
        {copied ? <Check size={15} aria-hidden /> : <Copy size={15} aria-hidden />}
        {told}
      </Button>
    </div>
  );
}
