/** The operations of the service, in the order in which documents list them. The only lists of them. */
import { addDomain, getDomain, listDomains, removeDomain, verifyDomain } from "./admin/domains.ts";
import { createKey, getKey, listKeys, renameKey, revokeKey } from "./admin/keys.ts";
import {
  addAlias,
  addGrant,
  addMailbox,
  changeMailbox,
  getMailbox,
  listWorkspaceMailboxes,
  removeAlias,
  removeGrant,
  removeMailbox,
} from "./admin/mailboxes.ts";
import { addPerson, changePerson, getPerson, listPeople, removePerson } from "./admin/people.ts";
import { cancelDelivery, listQueue, retryDelivery } from "./admin/queue.ts";
import { addSuppression, listSuppressions, removeSuppression } from "./admin/suppressions.ts";
import {
  addWebhook,
  getWebhook,
  listWebhookDeliveries,
  listWebhooks,
  recoverWebhook,
  removeWebhook,
  resendWebhookDelivery,
  rotateWebhookSecret,
  testWebhook,
  updateWebhook,
} from "./admin/webhooks.ts";
import { getAttachment } from "./mail/attachments.ts";
import { listMailboxes } from "./mail/mailboxes.ts";
import { getMessage, getRawMessage, listMessages } from "./mail/messages.ts";
import { searchMail } from "./mail/search.ts";
import { draftReply, replyToThread, sendEmail } from "./mail/sending.ts";
import { getThread, listThreads, updateThread } from "./mail/threads.ts";
import type { Operation } from "./operation.ts";

/** Mail, for everybody with a key. */
export const MAIL_OPERATIONS: readonly Operation[] = [
  listMailboxes,
  listThreads,
  getThread,
  updateThread,
  replyToThread,
  draftReply,
  listMessages,
  getMessage,
  getRawMessage,
  getAttachment,
  searchMail,
  sendEmail,
];

/** A workspace, for its owners and admins. */
export const ADMIN_OPERATIONS: readonly Operation[] = [
  listWorkspaceMailboxes,
  addMailbox,
  getMailbox,
  changeMailbox,
  removeMailbox,
  addAlias,
  removeAlias,
  addGrant,
  removeGrant,
  listPeople,
  addPerson,
  getPerson,
  changePerson,
  removePerson,
  listDomains,
  addDomain,
  getDomain,
  removeDomain,
  verifyDomain,
  listSuppressions,
  addSuppression,
  removeSuppression,
  listQueue,
  retryDelivery,
  cancelDelivery,
  listKeys,
  createKey,
  getKey,
  renameKey,
  revokeKey,
  listWebhooks,
  addWebhook,
  getWebhook,
  updateWebhook,
  removeWebhook,
  testWebhook,
  rotateWebhookSecret,
  listWebhookDeliveries,
  resendWebhookDelivery,
  recoverWebhook,
];
