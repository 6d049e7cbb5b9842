/** A button for the labels of conversations. Its list (label-overlay.tsx) is loaded when it is first opened. */
import { Tag } from "lucide-react";
import { lazyOverlay } from "../lib/lazy-part.tsx";
import { IconButton } from "./button.tsx";
import type { LabelOverlayProps } from "./label-overlay.tsx";

const Labels = lazyOverlay<LabelOverlayProps>("dialog", async () => (await import("./label-overlay.tsx")).LabelOverlay);

export function LabelMenu(props: Omit<LabelOverlayProps, "trigger">) {
  return <Labels {...props} trigger={<IconButton icon={Tag} label="Label" shortcut="l" />} />;
}
