/** The attachments of a message that is being written, for its composer: adding with progress, and taking off. */
import { useRef, useState } from "react";
import { type AttachmentView, api, type SavedDraft } from "./api.ts";
import { sizeOf } from "./people.ts";
import { upload } from "./upload.ts";

/** A file on its way. */
export interface Pending {
  key: number;
  name: string;
  /** How much of it is there, 0 to 1. */
  share: number;
  cancel(): void;
}

export interface Attaching {
  files: readonly AttachmentView[];
  pending: readonly Pending[];
  attach(files: readonly File[]): Promise<void>;
  remove(file: AttachmentView): Promise<void>;
  /** After the draft moved: the same files, under other ids. */
  replace(files: readonly AttachmentView[]): void;
}

/**
 * `ensureDraft`: what the files are attached to, made if there is none yet. `refused` is told why a file was not attached.
 */
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
        // As of when it was saved; what was attached since then takes from it.
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
