/**
 * Constants shared by the server's frame document and the app's iframe; the app imports no other server code for it.
 */

/** The sandbox of the iframe and of the document's own policy; frame.ts explains why it is enough. */
export const FRAME_SANDBOX = "allow-same-origin allow-popups allow-popups-to-escape-sandbox";

/** On each image of a draft that is being edited: the `src` that it has in the mail. */
export const SOURCE_ATTRIBUTE = "data-source";

/** On each blocked remote image. Mail cannot set it. */
export const BLOCKED_ATTRIBUTE = "data-blocked";
