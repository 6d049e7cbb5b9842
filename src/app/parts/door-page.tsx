/** The layout of pages before sign-in: logo, title, and a box. */
import { type ReactNode, useId } from "react";
import { Mark } from "./mark.tsx";

export function DoorPage({ title, wide = false, children }: { title: string; wide?: boolean; children: ReactNode }) {
  const id = useId();
  return (
    <main className="grid min-h-full place-items-center p-4" aria-labelledby={id}>
      <div className={`w-full ${wide ? "max-w-2xl" : "max-w-80"}`}>
        <Mark className="mx-auto mb-5 size-11" />
        <h1 id={id} className="mb-6 text-center text-xl font-semibold tracking-tight">
          {title}
        </h1>
        <div className="rounded-xl border border-line bg-panel p-5 shadow-sm">{children}</div>
      </div>
    </main>
  );
}
