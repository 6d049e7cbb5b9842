/** A PDF, drawn in a frame with an origin of its own (src/http/pdf-page.ts), which gets only the bytes. */
import { useEffect, useRef, useState } from "react";
import { VIEWER_PATH, VIEWER_SANDBOX } from "../../base/frames.ts";
import { downloadOf } from "../lib/api.ts";
import type { FromViewer } from "../pdf/messages.ts";

/** After this time the PDF counts as failed, ms. */
const LONGEST_MS = 30_000;

export function PdfView({ id, title, onFailure }: { id: string; title: string; onFailure: () => void }) {
  const frame = useRef<HTMLIFrameElement>(null);
  const [shown, setShown] = useState(false);
  const failed = useRef(onFailure);
  failed.current = onFailure;

  useEffect(() => {
    const fail = () => failed.current();
    const timer = setTimeout(fail, LONGEST_MS);
    async function hand(): Promise<void> {
      const answer = await fetch(downloadOf(id));
      if (!answer.ok) return fail();
      const bytes = await answer.arrayBuffer();
      // The frame's origin is opaque, so no target origin can name it.
      frame.current?.contentWindow?.postMessage({ bytes }, "*", [bytes]);
    }
    function said({ data, source }: MessageEvent<FromViewer>): void {
      if (source !== frame.current?.contentWindow) return;
      if (data.kind === "ready") hand().catch(fail);
      else if (data.kind === "failed") fail();
      else if (data.kind === "escape") frame.current?.closest("dialog")?.close();
      else {
        clearTimeout(timer);
        setShown(true);
      }
    }
    window.addEventListener("message", said);
    return () => {
      clearTimeout(timer);
      window.removeEventListener("message", said);
    };
  }, [id]);

  return (
    <div className="relative h-[76vh]">
      {!shown && (
        <p role="status" className="absolute inset-0 grid place-items-center text-sm text-muted">
          Drawing…
        </p>
      )}
      <iframe
        ref={frame}
        title={title}
        src={VIEWER_PATH}
        sandbox={VIEWER_SANDBOX}
        referrerPolicy="no-referrer"
        className="relative h-full w-full rounded"
      />
    </div>
  );
}
