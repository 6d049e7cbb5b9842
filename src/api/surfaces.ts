/**
 * The three APIs over HTTP, of mail, of more of it, and of administration: prefix, operations, and the texts of their OpenAPI documents.
 */
import type { Operation } from "../operations/operation.ts";
import { ADMIN_OPERATIONS, EXT_OPERATIONS, MAIL_OPERATIONS } from "../operations/operations.ts";

export interface Surface {
  /** The path above its operations and its document. */
  prefix: string;
  operations: readonly Operation[];
  /** Describes each group of its operations. */
  groups: Readonly<Record<string, string>>;
  title: string;
  /** The version of the document. The version of the API is in the prefix. */
  version: string;
  description: string;
  /** The document describes the deliveries of webhooks, too. */
  describesEvents?: true | undefined;
  /** Description of the idempotency key, where that of its schema does not fit. */
  keyDescription?: string;
  /** Description of the header Idempotency-Replayed. */
  replayed: string;
  /** Descriptions of the statuses in which the APIs differ. */
  meanings: Readonly<Record<number, string>>;
}

/** The path of the reference, a page that shows the documents (http/reference.ts). Its files are below. */
export const REFERENCE_PATH = "/api/docs";

export const MAIL_API: Surface = {
  prefix: "/api/v1",
  operations: MAIL_OPERATIONS,
  groups: {
    Mailboxes: "The mailboxes that a key reaches",
    Threads: "Conversations: list, search, read, move, star, label and mark them",
    Sending: "Send, reply, and draft replies for a person to review",
    Messages: "Single messages, and each as a file",
    Attachments: "The files of messages",
  },
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

export const EXT_API: Surface = {
  ...MAIL_API,
  prefix: "/api/ext/v1",
  operations: EXT_OPERATIONS,
  groups: {
    ...MAIL_API.groups,
    Drafts: "New messages for a person, or the program itself, to send later",
    Labels: "Labels in all mailboxes that a key reaches",
    Changes: "What changed since a cursor",
  },
  title: "Mailroom, further",
  version: "1.0.0",
  description:
    "Drafts, changes, many conversations at once, deliveries and labels: with the same keys, scopes, limits and errors as /api/v1.",
  describesEvents: undefined,
};

export const ADMIN_API: Surface = {
  prefix: "/api/admin/v1",
  operations: ADMIN_OPERATIONS,
  groups: {
    Mailboxes: "Mailboxes with their aliases, shares, quotas, pauses and expiry",
    People: "Who belongs to the workspace, and their roles",
    Domains: "Domains, and the DNS records that each needs",
    Suppressions: "Addresses that may not be written to",
    Queue: "Recipients of outbound mail that are not settled yet",
    "API keys": "Keys of the workspace's people",
    Holds: "Messages of API keys that wait for a person",
    Webhooks: "Endpoints that are told of events, and the log of their deliveries",
  },
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

export const openApiDocumentPath = ({ prefix }: Pick<Surface, "prefix">): string => `${prefix}/openapi.json`;
