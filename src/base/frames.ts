/**
 * Constants that the frames of the web app and the documents in them share. The web app runs this file.
 */

/** The sandbox of a message's iframe and of its document's own policy; message/frame.ts explains why it is enough. */
export const FRAME_SANDBOX = "allow-same-origin allow-popups allow-popups-to-escape-sandbox";

/** On each image of a draft that is being edited: the `src` that it has in the mail. */
export const SOURCE_ATTRIBUTE = "data-source";

/** On each blocked remote image. Mail cannot set it. */
export const BLOCKED_ATTRIBUTE = "data-blocked";

/** The document that draws PDFs. */
export const VIEWER_PATH = "/pdf-viewer";

/** The sandbox of its iframe and of its own policy: an origin of its own, which reaches nothing of the app. */
export const VIEWER_SANDBOX = "allow-scripts";
