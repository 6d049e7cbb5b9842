/** Messages between the PDF viewer and the page around it. */

/** The file, once the viewer is ready. */
export interface ToViewer {
  bytes: ArrayBuffer;
}

/** `shown`: the first page is there; `escape`: the person pressed Escape. */
export interface FromViewer {
  kind: "ready" | "shown" | "failed" | "escape";
}
