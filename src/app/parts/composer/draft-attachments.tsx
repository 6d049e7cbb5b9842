/** The attachments of the message in the composer: uploading with progress, showing, and removing. */
import { FileText, Paperclip, X } from "lucide-react";
import { useRef, useState } from "react";
import { api, OFFLINE, Refusal, refusalIn, urlTo } from "../../lib/api-client.ts";
import { formatByteSize } from "../../lib/format.ts";
import type { AttachmentView, SavedDraft } from "../../lib/mail-views.ts";
import { IconButton } from "../ui/button.tsx";

/** An upload under way. */
interface Upload {
  key: number;
  name: string;
  /** The part that has arrived, 0 to 1. */
  share: number;
  cancel(): void;
}

/**
 * `ensureDraft` gives the draft, and makes one if there is none. `refused` gets the reason why a file was not attached.
 */
export function useAttachments(
  initial: readonly AttachmentView[],
  ensureDraft: () => Promise<SavedDraft>,
  refused: (why: string) => void,
) {
  const [files, setFiles] = useState(initial);
  const [pending, setPending] = useState<readonly Upload[]>([]);
  const present = useRef(files);
  present.current = files;
  const count = useRef(0);

  async function attachOne(draft: SavedDraft, file: File): Promise<void> {
    const key = ++count.current;
    const change = (by: Partial<Upload>) =>
      setPending((all) => all.map((one) => (one.key === key ? { ...one, ...by } : one)));
    const { done, cancel } = upload(draft.draftId, file, (share) => change({ share }));
    setPending((all) => [...all, { key, name: file.name, share: 0, cancel }]);
    try {
      const attached = await done;
      setFiles((all) => [...all, attached]);
    } catch (error) {
      refused((error as Error).message);
    } finally {
      setPending((all) => all.filter((one) => one.key !== key));
    }
  }

  return {
    files,
    pending,
    async attach(chosen: readonly File[]): Promise<void> {
      if (chosen.length === 0) return;
      try {
        const draft = await ensureDraft();
        // `room` is of the last save; later attachments use up some of it.
        const known = new Set(draft.attachments.map(({ id }) => id));
        const since = present.current.filter(({ id }) => !known.has(id));
        let room = draft.room - since.reduce((sum, { size }) => sum + size, 0);
        for (const file of chosen) {
          if (file.size > room) {
            refused(
              `“${file.name}” is ${formatByteSize(file.size)}; at most ${formatByteSize(Math.max(0, room))} more can be attached`,
            );
            continue;
          }
          room -= file.size;
          await attachOne(draft, file);
        }
      } catch (error) {
        refused((error as Error).message);
      }
    },
    async remove(file: AttachmentView): Promise<void> {
      try {
        const { draftId } = await ensureDraft();
        await api.detachFile({ id: draftId, attachmentId: file.id });
        setFiles((all) => all.filter(({ id }) => id !== file.id));
      } catch (error) {
        refused((error as Error).message);
      }
    },
    /** Takes the new ids of the files after the draft moved. */
    replace: setFiles,
  };
}

/**
 * Uploads a file by XMLHttpRequest, since fetch tells no progress. `progressed`: the part that has arrived, 0 to 1.
 * `done` rejects with the refusal.
 */
function upload(draftId: string, file: File, progressed: (share: number) => void) {
  const request = new XMLHttpRequest();
  const done = new Promise<AttachmentView>((resolve, reject) => {
    request.upload.addEventListener("progress", ({ loaded, total }) => progressed(total === 0 ? 0 : loaded / total));
    request.addEventListener("load", () => {
      const { status, responseText } = request;
      if (status === 201) resolve(JSON.parse(responseText) as AttachmentView);
      else reject(new Refusal(status, refusalIn(responseText) ?? `${file.name} was not attached. Try again.`));
    });
    request.addEventListener("error", () => reject(new Refusal(0, OFFLINE)));
    request.addEventListener("abort", () => reject(new Refusal(0, `${file.name} was not attached.`)));
    request.open("POST", urlTo("attachFile", { id: draftId, name: file.name }));
    request.setRequestHeader("content-type", file.type || "application/octet-stream");
    request.send(file);
  });
  return { done, cancel: () => request.abort() };
}

/** The list of attachments and uploads. */
export function AttachedFiles({
  files,
  pending,
  remove,
  cancel,
}: {
  /** Inline images are left out. */
  files: readonly AttachmentView[];
  pending: readonly Upload[];
  remove: (file: AttachmentView) => void;
  cancel: (upload: Upload) => void;
}) {
  const attached = files.filter(({ inline }) => !inline);
  if (attached.length + pending.length === 0) return null;
  return (
    <ul aria-label="Attachments" className="flex flex-wrap gap-2 px-4 py-2">
      {attached.map((file) => (
        <li key={file.id} className="flex max-w-full items-center rounded-lg border border-line bg-panel text-sm">
          <a
            href={urlTo("showAttachment", { id: file.id })}
            target="_blank"
            rel="noopener"
            title={file.contentType}
            className="flex min-w-0 items-center gap-2 rounded-lg py-1.5 pl-3 hover:underline"
          >
            <FileText size={15} className="shrink-0 text-muted" aria-hidden />
            <span className="min-w-0 truncate">{file.filename}</span>
            <span className="shrink-0 text-xs text-muted">{formatByteSize(file.size)}</span>
          </a>
          <a
            href={urlTo("getAttachment", { id: file.id })}
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
