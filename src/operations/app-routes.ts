/** Paths of the web app's own API: those of its operations, and its routes that are no operations. */
import type { Operation, Typed } from "./operation.ts";

export const APP_PREFIX = "/app";

/** The path of an operation below APP_PREFIX. Administration has /settings before it. */
export const pathInApp = ({ audience, path }: Pick<Operation, "audience" | "path">): string =>
  audience === "admin" || audience === "operator" ? `/settings${path}` : path;

type AppRoute<Params, Query> = Typed<
  "person",
  "GET" | "POST",
  string,
  { params: Params; query: Query; body: object },
  Response
>;

const appRoute = <Params = object, Query = object>(method: "GET" | "POST", path: string): AppRoute<Params, Query> => ({
  audience: "person",
  method,
  path,
});

interface Id {
  id: string;
}

/** Routes of which the request or the response is not JSON. http/ has what they do. */
export const APP_ROUTES = {
  /** The document of a message, for its frame. `images`: with remote images. */
  showMessage: appRoute<Id, { images?: 1 }>("GET", "/messages/:id/frame"),
  /** A message byte for byte, as its person gets it over IMAP. */
  downloadOriginal: appRoute<Id>("GET", "/messages/:id/original"),
  /** An attachment: shown if it is an image, else a download. */
  showAttachment: appRoute<Id>("GET", "/attachments/:id/preview"),
  /** The document in which the HTML of a draft is edited. `revision` makes the URL of each revision another one. */
  editDraft: appRoute<Id, { revision: number }>("GET", "/drafts/:id/editor"),
  /** Takes a file, which is the body. */
  attachFile: appRoute<Id, { name: string }>("POST", "/drafts/:id/attachments"),
  /** News of mail, as server-sent events. `after`: the position of the last one that the page heard. */
  followMail: appRoute<object, { after?: string | number }>("GET", "/live"),
  /** A file that sets up the mail apps of Apple's devices. */
  getMailProfile: appRoute("GET", "/mail-apps/profile"),
};
