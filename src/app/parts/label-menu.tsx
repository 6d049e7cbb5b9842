/** The labels of conversations, one or many, under a button; they are loaded (label-overlay.tsx) when they are first opened. */
import { Tag } from "lucide-react";
import { lazyOverlay } from "../lib/lazy-part.tsx";
import { IconButton } from "./button.tsx";
import type { LabelOverlayProps } from "./label-overlay.tsx";

const Labels = lazyOverlay<LabelOverlayProps>("dialog", async () => (await import("./label-overlay.tsx")).LabelOverlay);

export function LabelMenu(props: Omit<LabelOverlayProps, "trigger">) {
  return <Labels {...props} trigger={<IconButton icon={Tag} label="Label" shortcut="l" />} />;
}
