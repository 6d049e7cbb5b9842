/** The labels of conversations, one or many, under a button; they are loaded (label-overlay.tsx) when they are first opened. */
import { Tag } from "lucide-react";
import type { ThreadView } from "../lib/api.ts";
import { lazyOverlay, type Overlay } from "../lib/lazy-part.tsx";
import { IconButton } from "./button.tsx";

interface LabelMenuProps {
  threads: readonly ThreadView[];
  open: boolean;
  onOpenChange: (open: boolean) => void;
}

export type LabelOverlayProps = LabelMenuProps & Pick<Overlay, "trigger">;

const Labels = lazyOverlay<LabelOverlayProps>("dialog", async () => (await import("./label-overlay.tsx")).LabelOverlay);

export function LabelMenu(props: LabelMenuProps) {
  return <Labels {...props} trigger={<IconButton icon={Tag} label="Label" shortcut="l" />} />;
}
