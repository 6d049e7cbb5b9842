/** Uploading a file to a draft, with progress, which fetch does not tell. */
import { type AttachmentView, uploadsOf } from "./api.ts";
import { OFFLINE, Refusal, refusalIn } from "./ask.ts";

export interface Uploading {
  /** Rejects with the refusal. */
  done: Promise<AttachmentView>;
  cancel(): void;
}

/** `progressed`: how much of it is there, 0 to 1. */
export function upload(draftId: string, file: File, progressed: (share: number) => void): Uploading {
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
