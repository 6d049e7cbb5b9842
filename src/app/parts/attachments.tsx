/** Attachments of a message: images and PDFs can be viewed here, all can be downloaded. */
import { Download, FileImage, FileText } from "lucide-react";
import { useState } from "react";
import { downloadOf, type MessageView, previewOf } from "../lib/api.ts";
import { sizeOf } from "../lib/people.ts";
import { Dialog } from "./dialog.tsx";
import { PdfView } from "./pdf-view.tsx";

type Attachment = MessageView["attachments"][number];

/** A larger PDF can only be downloaded; bytes. */
const LARGEST_PDF = 30_000_000;

function kindOf({ contentType, size }: Attachment): "image" | "pdf" | undefined {
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
          const kind = kindOf(attachment);
          const Icon = kind === "image" ? FileImage : FileText;
          const content = (
            <>
              {kind === "image" ? (
                <img src={previewOf(id)} alt="" loading="lazy" className="size-8 shrink-0 rounded object-cover" />
              ) : (
                <Icon size={15} className="shrink-0 text-muted" aria-hidden />
              )}
              <span className="min-w-0 truncate">{filename}</span>
              <span className="shrink-0 text-xs text-muted">{sizeOf(size)}</span>
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
                <a href={downloadOf(id)} download={filename} className={look} title={contentType}>
                  {content}
                </a>
              )}
              <a
                href={downloadOf(id)}
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
      <a href={downloadOf(id)} download={filename} className="text-accent underline">
        Download it
      </a>
    </p>
  );
  if (failed) return fallback;
  if (kindOf(attachment) === "pdf") return <PdfView id={id} title={filename} onFailure={() => setFailed(true)} />;
  return (
    <img
      src={previewOf(id)}
      alt={filename}
      onError={() => setFailed(true)}
      className="mx-auto max-h-[76vh] max-w-full rounded object-contain"
    />
  );
}
