/** The composer (composer-form.tsx), loaded when it is first shown. */
import { lazyPart } from "../lib/lazy-part.tsx";
import type { ComposerProps } from "./composer-form.tsx";

export const Composer = lazyPart<ComposerProps>(
  "the composer",
  async () => (await import("./composer-form.tsx")).Composer,
);
