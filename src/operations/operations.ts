/** The operations of the service, in the order in which documents list them. The only lists of them. */
import { addDomain, getDomain, listDomains, removeDomain, verifyDomain } from "./admin/domain-administration.ts";
import { approveHold, listHolds, rejectHold } from "./admin/hold-administration.ts";
import { getKeyJournal, undoKey } from "./admin/journal-administration.ts";
import {
  changeKey,
  createKey,
  getKey,
  getKeyPause,
  listKeys,
  revokeKey,
  setKeyPause,
} from "./admin/key-administration.ts";
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
} from "./admin/mailbox-administration.ts";
import {
  addPerson,
  addPersonWithPassword,
  changePerson,
  getPerson,
  invitePerson,
  listPeople,
  lockPerson,
  makePasswordLink,
  removePerson,
  resetSecondFactor,
  setPersonPassword,
  unlockPerson,
} from "./admin/people-administration.ts";
import { cancelDelivery, listQueue, retryDelivery } from "./admin/queue-administration.ts";
import { endAbsence, getAbsence, getRules, setAbsence, setRules, testRule } from "./admin/rule-administration.ts";
import { addSuppression, listSuppressions, removeSuppression } from "./admin/suppressions.ts";
import { getSignature, getTemplates, putSignature, putTemplates } from "./admin/text-administration.ts";
import {
  addWebhook,
  getWebhook,
  listWebhookDeliveries,
  listWebhooks,
  recoverWebhook,
  removeWebhook,
  resendWebhookDelivery,
  revealWebhookSecret,
  rotateWebhookSecret,
  testWebhook,
  updateWebhook,
} from "./admin/webhook-administration.ts";
import { getWorkspace, renameWorkspace } from "./admin/workspace-administration.ts";
import { listChanges } from "./mail/changes.ts";
import { createDraft, deleteDraft, getDraft, sendDraft, updateDraft } from "./mail/draft-operations.ts";
import { deleteLabel, listLabels, renameLabel } from "./mail/label-operations.ts";
import {
  getAttachment,
  getMessage,
  getOriginal,
  getRawMessage,
  listDeliveries,
  listMessages,
} from "./mail/message-operations.ts";
import { draftReply, replyToThread, sendEmail } from "./mail/sending.ts";
import {
  getThread,
  listMailboxes,
  listThreads,
  searchMail,
  snoozeThread,
  updateThread,
  updateThreads,
} from "./mail/thread-operations.ts";
import type { AppOperation, Operation } from "./operation.ts";
import { addWorkspace, listWorkspaces, pauseWorkspace } from "./operator/all-workspaces.ts";
import { examineServer, getFindings, getServer, resetSetting, setSetting } from "./operator/server-settings.ts";
import {
  createAppPassword,
  listAppPasswords,
  revokeAppPassword,
  setMailAppPreferences,
} from "./person/app-passwords-in-app.ts";
import { copyHeld, getApproval, listApprovals } from "./person/approvals.ts";
import {
  beginDraft,
  detachFile,
  discardDraft,
  forwardMessage,
  getReplyDefaults,
  listDraftsAnswering,
  listMarkedDrafts,
  listScheduled,
  openDraft,
  saveDraft,
  sendOpenedDraft,
  undoSend,
} from "./person/drafts-in-app.ts";
import { checkSetupToken, getSetup, setUpServer } from "./person/first-run-in-app.ts";
import { changeLabel, completeLabels, removeLabel } from "./person/labels-in-app.ts";
import {
  approveAuthorization,
  denyAuthorization,
  listGrants,
  openAuthorization,
  revokeGrant,
} from "./person/oauth-in-app.ts";
import { checkPasswordLink, choosePassword } from "./person/password-link.ts";
import { changeName, changePassword, getSendingPreferences, setSendingPreferences } from "./person/profile-in-app.ts";
import { confirmIdentity } from "./person/proof.ts";
import { endPush, getPush, setPush } from "./person/push-in-app.ts";
import {
  changeThreads,
  deleteThreads,
  emptySpam,
  emptyTrash,
  findCorrespondents,
  getClassification,
  getProgress,
  getUsage,
  undoChange,
} from "./person/reading-in-app.ts";
import {
  answerInvitation,
  getInvitation,
  getReceived,
  getWarnings,
  hideImagesOf,
  listImagesShown,
  setImagesOfSender,
  unsubscribe,
} from "./person/received-in-app.ts";
import { createReferenceKey, endReferenceKey } from "./person/reference-key.ts";
import {
  endOwnAbsence,
  getOwnAbsence,
  getOwnRules,
  setOwnAbsence,
  setOwnRules,
  testOwnRule,
} from "./person/rules-in-app.ts";
import {
  addSecondFactor,
  getSecondFactor,
  proposeSecondFactor,
  removeSecondFactor,
  renewRecoveryCodes,
} from "./person/second-factor-in-app.ts";
import { endOtherSessions, endSession, getMe, listSessions, signIn, signOut } from "./person/session-in-app.ts";
import { getStandby } from "./person/standby-in-app.ts";
import { changeSignature, deleteTemplate, getTexts, saveTemplate } from "./person/texts-in-app.ts";

const mail = {
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
};
/** Mail, for everybody with a key. */
export const MAIL_OPERATIONS: readonly Operation[] = Object.values(mail);

/** More of mail, for everybody with a key, beyond the twelve operations. */
export const EXT_OPERATIONS: readonly Operation[] = [
  createDraft,
  getDraft,
  updateDraft,
  deleteDraft,
  sendDraft,
  updateThreads,
  snoozeThread,
  listChanges,
  getOriginal,
  listDeliveries,
  listLabels,
  renameLabel,
  deleteLabel,
];

const administration = {
  listWorkspaceMailboxes,
  addMailbox,
  getMailbox,
  changeMailbox,
  removeMailbox,
  addAlias,
  removeAlias,
  addGrant,
  removeGrant,
  getSignature,
  putSignature,
  getTemplates,
  putTemplates,
  getRules,
  setRules,
  testRule,
  getAbsence,
  setAbsence,
  endAbsence,
  listPeople,
  addPerson,
  getPerson,
  changePerson,
  removePerson,
  invitePerson,
  lockPerson,
  unlockPerson,
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
  changeKey,
  revokeKey,
  getKeyJournal,
  undoKey,
  listHolds,
  approveHold,
  rejectHold,
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
};
/** A workspace, for its owners and admins. */
export const ADMIN_OPERATIONS: readonly Operation[] = Object.values(administration);

const app = {
  signIn,
  getMe,
  createReferenceKey,
  endReferenceKey,
  signOut,
  listSessions,
  endSession,
  endOtherSessions,
  getStandby,
  getSetup,
  checkSetupToken,
  setUpServer,
  checkPasswordLink,
  choosePassword,
  changeName,
  changePassword,
  getSendingPreferences,
  setSendingPreferences,
  confirmIdentity,
  getSecondFactor,
  proposeSecondFactor,
  addSecondFactor,
  renewRecoveryCodes,
  removeSecondFactor,
  listAppPasswords,
  setMailAppPreferences,
  createAppPassword,
  revokeAppPassword,
  openAuthorization,
  approveAuthorization,
  denyAuthorization,
  listGrants,
  revokeGrant,
  changeThreads,
  undoChange,
  deleteThreads,
  emptyTrash,
  emptySpam,
  completeLabels,
  changeLabel,
  removeLabel,
  findCorrespondents,
  getUsage,
  getPush,
  setPush,
  endPush,
  getReceived,
  getWarnings,
  unsubscribe,
  getInvitation,
  answerInvitation,
  setImagesOfSender,
  listImagesShown,
  hideImagesOf,
  getClassification,
  getProgress,
  getTexts,
  changeSignature,
  saveTemplate,
  deleteTemplate,
  getOwnRules,
  setOwnRules,
  testOwnRule,
  getOwnAbsence,
  setOwnAbsence,
  endOwnAbsence,
  beginDraft,
  listMarkedDrafts,
  listScheduled,
  openDraft,
  saveDraft,
  discardDraft,
  sendOpenedDraft,
  undoSend,
  detachFile,
  getReplyDefaults,
  listDraftsAnswering,
  forwardMessage,
  listApprovals,
  getApproval,
  copyHeld,
  getWorkspace,
  renameWorkspace,
  getKeyPause,
  setKeyPause,
  addPersonWithPassword,
  setPersonPassword,
  makePasswordLink,
  resetSecondFactor,
  revealWebhookSecret,
  getServer,
  setSetting,
  resetSetting,
  getFindings,
  examineServer,
  listWorkspaces,
  addWorkspace,
  pauseWorkspace,
};
/**
 * Operations that only the app has: for a person's own settings, drafts, changes that are confirmed by a password, and the
 * settings of the server.
 */
export const APP_OPERATIONS: readonly AppOperation[] = Object.values(app);

/** The operations that the web app can call, by name. */
export type AppOperations = typeof mail & typeof administration & typeof app;
