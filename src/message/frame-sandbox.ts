/** What the server's frame document and the app's iframe agree on; the app needs nothing else of the server's code. */

/** Of the iframe and of the document's own policy; frame.ts says why it is enough. */
export const FRAME_SANDBOX = "allow-same-origin allow-popups allow-popups-to-escape-sandbox";

/** On each image of a draft that is being edited: what its `src` is in the mail. */
export const SOURCE_ATTRIBUTE = "data-source";

/** On each remote image that is not shown. No mail can set it. */
export const BLOCKED_ATTRIBUTE = "data-blocked";
