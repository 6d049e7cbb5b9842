/** The APIs over HTTP: which operations each has, below which prefix, and what its OpenAPI document says of it. */

import type { Operation } from "../operations/operation.ts";
import { ADMIN_OPERATIONS, MAIL_OPERATIONS } from "../operations/operations.ts";

export interface Surface {
  /** The path that its operations are below; the document is at `openapi.json` there. */
  prefix: string;
  operations: readonly Operation[];
  title: string;
  /** Of the description, not of the API: that one stands in the prefix. */
  version: string;
  description: string;
  /** The document says what webhooks deliver, too. */
  describesEvents?: true;
  /** What an idempotency key does; that of mail is described with its schema. */
  keyDescription?: string;
  /** What a replay is. */
  replayed: string;
  /** What refusals with these statuses mean, where that is not the same for all. */
  meanings: Readonly<Record<number, string>>;
}

export const MAIL_API: Surface = {
  prefix: "/api/v1",
  operations: MAIL_OPERATIONS,
  title: "Mailroom",
  version: "1.1.0",
  description:
    "Read, search, organise and send a workspace's mail. Clients ignore unknown fields; error codes are stable, error texts are not.",
  describesEvents: true,
  replayed: "true when this is the answer of an earlier request with the same idempotency key; nothing was sent again",
  meanings: {
    403: "The key lacks the scope, or its user may not do this in the mailbox",
    413: "Too large: text and HTML are at most 1 MB together",
  },
};

export const ADMIN_API: Surface = {
  prefix: "/api/admin/v1",
  operations: ADMIN_OPERATIONS,
  title: "Mailroom administration",
  version: "1.0.0",
  description:
    "Administer a workspace, with a key of an owner or admin that has the scope `admin`. Unknown fields of a request are refused; clients ignore unknown fields of an answer.",
  keyDescription:
    "Printable ASCII, of your choosing: a request that is repeated with the same key is answered as the first time, without what is shown once, and nothing is done again. Kept for 24 hours after success; a refused request leaves the key unused",
  replayed: "true when this is the answer of an earlier request with the same idempotency key; nothing was done again",
  meanings: {
    403: "The key lacks the scope, or its user is neither owner nor admin, or may not do this",
    413: "Too large: a body is at most 1 MB",
  },
};

export const SURFACES: readonly Surface[] = [MAIL_API, ADMIN_API];

export const documentPathOf = ({ prefix }: Pick<Surface, "prefix">): string => `${prefix}/openapi.json`;
