/** The attachments of a draft, for its composer: uploading with progress, and removing. */
import { useRef, useState } from "react";
import { type AttachmentView, api, type SavedDraft, uploadsOf } from "./api.ts";
import { OFFLINE, Refusal, refusalIn } from "./ask.ts";
import { sizeOf } from "./people.ts";

/** An upload under way. */
export interface Pending {
  key: number;
  name: string;
  /** The part that has arrived, 0 to 1. */
  share: number;
  cancel(): void;
}

export interface Attaching {
  files: readonly AttachmentView[];
  pending: readonly Pending[];
  attach(files: readonly File[]): Promise<void>;
  remove(file: AttachmentView): Promise<void>;
  /** Takes the new ids of the files after the draft moved. */
  replace(files: readonly AttachmentView[]): void;
}

/** `ensureDraft` gives the draft, and makes one if there is none. `refused` gets the reason why a file was not attached. */
export function useAttaching(
  initial: readonly AttachmentView[],
  ensureDraft: () => Promise<SavedDraft>,
  refused: (why: string) => void,
): Attaching {
  const [files, setFiles] = useState(initial);
  const [pending, setPending] = useState<readonly Pending[]>([]);
  const present = useRef(files);
  present.current = files;
  const count = useRef(0);

  async function attachOne(draft: SavedDraft, file: File): Promise<void> {
    const key = ++count.current;
    const change = (by: Partial<Pending>) =>
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
    async attach(chosen) {
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
              `“${file.name}” has ${sizeOf(file.size)}; at most ${sizeOf(Math.max(0, room))} more can be attached`,
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
    async remove(file) {
      try {
        const { draftId } = await ensureDraft();
        await api.detach(draftId, file.id);
        setFiles((all) => all.filter(({ id }) => id !== file.id));
      } catch (error) {
        refused((error as Error).message);
      }
    },
    replace: setFiles,
  };
}

interface Uploading {
  /** Rejects with the refusal. */
  done: Promise<AttachmentView>;
  cancel(): void;
}

/** Uploads a file by XMLHttpRequest, since fetch tells no progress. `progressed`: the part that has arrived, 0 to 1. */
function upload(draftId: string, file: File, progressed: (share: number) => void): Uploading {
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
    request.open("POST", uploadsOf(draftId, file.name));
    request.setRequestHeader("content-type", file.type || "application/octet-stream");
    request.send(file);
  });
  return { done, cancel: () => request.abort() };
}
