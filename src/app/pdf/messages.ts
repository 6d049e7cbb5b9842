/** What the viewer of PDFs and the page around it say to each other. */

/** The file, once the viewer is ready. */
export interface ToViewer {
  bytes: ArrayBuffer;
}

/** `shown`: its first page is there; `escape`: the key was pressed. */
export interface FromViewer {
  kind: "ready" | "shown" | "failed" | "escape";
}
