/** The composer (composer-form.tsx), which is loaded when mail is first written. */
import { lazyPart } from "../lib/lazy-part.tsx";
import type { ComposerProps } from "./composer-form.tsx";

export const Composer = lazyPart<ComposerProps>(
  "the composer",
  async () => (await import("./composer-form.tsx")).Composer,
);
