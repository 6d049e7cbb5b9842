/** Attachments and uploads of the message in the composer. */
import { FileText, Paperclip, X } from "lucide-react";
import { useRef } from "react";
import { type AttachmentView, downloadOf, previewOf } from "../lib/api.ts";
import type { Pending } from "../lib/attaching.ts";
import { sizeOf } from "../lib/people.ts";
import { IconButton } from "./button.tsx";

export function AttachedFiles({
  files,
  pending,
  remove,
  cancel,
}: {
  /** Inline images are left out. */
  files: readonly AttachmentView[];
  pending: readonly Pending[];
  remove: (file: AttachmentView) => void;
  cancel: (upload: Pending) => void;
}) {
  const attached = files.filter(({ inline }) => !inline);
  if (attached.length + pending.length === 0) return null;
  return (
    <ul aria-label="Attachments" className="flex flex-wrap gap-2 px-4 py-2">
      {attached.map((file) => (
        <li key={file.id} className="flex max-w-full items-center rounded-lg border border-line bg-panel text-sm">
          <a
            href={previewOf(file.id)}
            target="_blank"
            rel="noopener"
            title={file.contentType}
            className="flex min-w-0 items-center gap-2 rounded-lg py-1.5 pl-3 hover:underline"
          >
            <FileText size={15} className="shrink-0 text-muted" aria-hidden />
            <span className="min-w-0 truncate">{file.filename}</span>
            <span className="shrink-0 text-xs text-muted">{sizeOf(file.size)}</span>
          </a>
          <a
            href={downloadOf(file.id)}
            download={file.filename}
            className="px-2 text-xs text-muted underline hover:text-ink"
            aria-label={`Download ${file.filename}`}
          >
            Download
          </a>
          <IconButton icon={X} label={`Remove ${file.filename}`} onClick={() => remove(file)} />
        </li>
      ))}
      {pending.map((upload) => (
        <li
          key={upload.key}
          className="flex max-w-full items-center gap-2 rounded-lg border border-line bg-panel pl-3 text-sm text-muted"
        >
          <span className="min-w-0 truncate">{upload.name}</span>
          <progress
            value={upload.share}
            max={1}
            aria-label={`Uploading ${upload.name}`}
            className="h-1.5 w-20 accent-accent"
          />
          <IconButton icon={X} label={`Stop uploading ${upload.name}`} onClick={() => cancel(upload)} />
        </li>
      ))}
    </ul>
  );
}

/** Chooses files to attach. */
export function AttachButton({ attach }: { attach: (files: File[]) => void }) {
  const input = useRef<HTMLInputElement>(null);
  return (
    <>
      <input
        ref={input}
        type="file"
        multiple
        hidden
        data-attach
        onChange={(event) => {
          attach([...(event.target.files ?? [])]);
          event.target.value = "";
        }}
      />
      <IconButton icon={Paperclip} label="Attach files" onClick={() => input.current?.click()} />
    </>
  );
}
