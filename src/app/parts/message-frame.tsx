/**
 * A message's body in its sandboxed frame (src/http/frame.ts). The app sets the frame's height to its content, handles
 * shortcuts pressed in it, and loads remote images only on request.
 */
import { useEffect, useRef, useState } from "react";
import { BLOCKED_ATTRIBUTE, FRAME_SANDBOX } from "../../base/frames.ts";
import { frameOf } from "../lib/api.ts";

export function MessageFrame({
  messageId,
  images,
  title,
  onBlocked,
}: {
  messageId: string;
  images: boolean;
  title: string;
  /** Called when images are not shown. */
  onBlocked: () => void;
}) {
  const frame = useRef<HTMLIFrameElement>(null);
  const [height, setHeight] = useState(80);
  const [loads, setLoads] = useState(0);

  // biome-ignore lint/correctness/useExhaustiveDependencies: each load gives another document
  useEffect(() => {
    const inner = frame.current?.contentDocument;
    const main = inner?.querySelector("main");
    if (!inner || !main) return;
    if (inner.querySelector(`img[${BLOCKED_ATTRIBUTE}]`)) onBlocked();
    const measure = () => setHeight(Math.ceil(main.getBoundingClientRect().height) + 2);
    const observer = new ResizeObserver(measure);
    observer.observe(main);
    measure();
    const pressed = (event: KeyboardEvent) => {
      const { key, ctrlKey, metaKey, altKey, shiftKey } = event;
      const copy = new KeyboardEvent("keydown", {
        key,
        ctrlKey,
        metaKey,
        altKey,
        shiftKey,
        bubbles: true,
        cancelable: true,
      });
      if (!document.body.dispatchEvent(copy)) event.preventDefault();
    };
    inner.addEventListener("keydown", pressed);
    return () => {
      observer.disconnect();
      inner.removeEventListener("keydown", pressed);
    };
  }, [loads]);

  return (
    <iframe
      ref={frame}
      title={title}
      src={frameOf(messageId, images)}
      sandbox={FRAME_SANDBOX}
      referrerPolicy="no-referrer"
      onLoad={() => setLoads((count) => count + 1)}
      style={{ height }}
      className="block w-full rounded"
    />
  );
}
