/** Attachments of a message: images and PDFs can be viewed here, all can be downloaded. */
import { Download, FileImage, FileText } from "lucide-react";
import { useEffect, useRef, useState } from "react";
import { VIEWER_PATH, VIEWER_SANDBOX } from "../../../base/frames.ts";
import { urlTo } from "../../lib/api-client.ts";
import { formatByteSize } from "../../lib/format.ts";
import type { MessageView } from "../../lib/mail-views.ts";
import type { FromViewer } from "../../pdf/viewer.ts";
import { Dialog } from "../ui/dialog.tsx";

type Attachment = MessageView["attachments"][number];

/** A larger PDF can only be downloaded; bytes. */
const LARGEST_PDF = 30_000_000;

function attachmentPreviewKind({ contentType, size }: Attachment): "image" | "pdf" | undefined {
  const type = contentType.toLowerCase();
  if (/^image\/(?:png|jpe?g|gif|webp|avif|bmp)$/.test(type)) return "image";
  return type === "application/pdf" && size <= LARGEST_PDF ? "pdf" : undefined;
}

export function Attachments({ attachments }: { attachments: readonly Attachment[] }) {
  const [shown, setShown] = useState<Attachment>();
  if (attachments.length === 0) return null;
  return (
    <>
      <ul aria-label="Attachments" className="mt-4 flex flex-wrap gap-2">
        {attachments.map((attachment) => {
          const { id, filename, size, contentType } = attachment;
          const kind = attachmentPreviewKind(attachment);
          const Icon = kind === "image" ? FileImage : FileText;
          const content = (
            <>
              {kind === "image" ? (
                <img
                  src={urlTo("showAttachment", { id })}
                  alt=""
                  loading="lazy"
                  className="size-8 shrink-0 rounded object-cover"
                />
              ) : (
                <Icon size={15} className="shrink-0 text-muted" aria-hidden />
              )}
              <span className="min-w-0 truncate">{filename}</span>
              <span className="shrink-0 text-xs text-muted">{formatByteSize(size)}</span>
            </>
          );
          const look = "flex min-w-0 items-center gap-2 rounded-lg py-2 pl-3 hover:underline";
          return (
            <li key={id} className="flex max-w-full items-center gap-1 rounded-lg border border-line bg-panel text-sm">
              {kind ? (
                <button type="button" className={look} title={contentType} onClick={() => setShown(attachment)}>
                  {content}
                </button>
              ) : (
                <a href={urlTo("getAttachment", { id })} download={filename} className={look} title={contentType}>
                  {content}
                </a>
              )}
              <a
                href={urlTo("getAttachment", { id })}
                download={filename}
                aria-label={`Download ${filename}`}
                className="grid size-8 shrink-0 place-items-center rounded-md text-muted hover:bg-hover hover:text-ink"
              >
                <Download size={15} aria-hidden />
              </a>
            </li>
          );
        })}
      </ul>
      <Dialog open={shown !== undefined} close={() => setShown(undefined)} title={shown?.filename ?? ""} wide>
        {shown && <Preview attachment={shown} />}
      </Dialog>
    </>
  );
}

function Preview({ attachment }: { attachment: Attachment }) {
  const { id, filename } = attachment;
  const [failed, setFailed] = useState(false);
  const fallback = (
    <p className="py-10 text-center text-sm text-muted">
      This cannot be shown here.{" "}
      <a href={urlTo("getAttachment", { id })} download={filename} className="text-accent underline">
        Download it
      </a>
    </p>
  );
  if (failed) return fallback;
  if (attachmentPreviewKind(attachment) === "pdf")
    return <PdfView id={id} title={filename} onFailure={() => setFailed(true)} />;
  return (
    <img
      src={urlTo("showAttachment", { id })}
      alt={filename}
      onError={() => setFailed(true)}
      className="mx-auto max-h-[76vh] max-w-full rounded object-contain"
    />
  );
}

/** After this time the PDF counts as failed, ms. */
const LONGEST_MS = 30_000;

/** A PDF, drawn in a frame with an origin of its own (src/http/pages.ts), which gets only the bytes. */
function PdfView({ id, title, onFailure }: { id: string; title: string; onFailure: () => void }) {
  const frame = useRef<HTMLIFrameElement>(null);
  const [shown, setShown] = useState(false);
  const failed = useRef(onFailure);
  failed.current = onFailure;

  useEffect(() => {
    const fail = () => failed.current();
    const timer = setTimeout(fail, LONGEST_MS);
    async function send(): Promise<void> {
      const response = await fetch(urlTo("getAttachment", { id }));
      if (!response.ok) return fail();
      const bytes = await response.arrayBuffer();
      // The frame's origin is opaque, so no target origin can name it.
      frame.current?.contentWindow?.postMessage({ bytes }, "*", [bytes]);
    }
    function received({ data, source }: MessageEvent<FromViewer>): void {
      if (source !== frame.current?.contentWindow) return;
      if (data.kind === "ready") send().catch(fail);
      else if (data.kind === "failed") fail();
      else if (data.kind === "escape") frame.current?.closest("dialog")?.close();
      else {
        clearTimeout(timer);
        setShown(true);
      }
    }
    window.addEventListener("message", received);
    return () => {
      clearTimeout(timer);
      window.removeEventListener("message", received);
    };
  }, [id]);

  return (
    <div className="relative h-[76vh]">
      {!shown && (
        <p role="status" className="absolute inset-0 grid place-items-center text-sm text-muted">
          Loading…
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
