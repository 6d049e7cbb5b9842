/**
 * The commands about domains, mailboxes, webhooks and the queue that are more than an operation: they tell the operator more,
 * or do several things.
 */
import * as developers from "../admin/developers.ts";
import { DEFAULT_OVERLAP_HOURS, type Endpoint } from "../admin/developers.ts";
import type { DnsRecord } from "../admin/dns.ts";
import * as domains from "../admin/domains.ts";
import * as mailboxAdmin from "../admin/mailbox-admin.ts";
import * as outbound from "../admin/outbound.ts";
import type { MailboxEntry } from "../admin/people.ts";
import * as people from "../admin/people.ts";
import * as removals from "../admin/removals.ts";
import { UsageError } from "../base/errors.ts";
import { toIsoTimeOrNull } from "../base/time.ts";
import { describeDomainForCommand, domainView } from "../operations/admin/domain-administration.ts";
import { describeMailboxForCommand, mailboxAdminView } from "../operations/admin/mailbox-administration.ts";
import { queueEntryView } from "../operations/admin/queue-administration.ts";
import { webhookDeliveryView } from "../operations/admin/webhook-administration.ts";
import { readNumberOption } from "../operations/command-line.ts";
import { defineCommand, FailedCheck } from "./command.ts";
import { resolveCommandTarget } from "./operation-command.ts";
import { dnsTable, formatRecord } from "./output.ts";
import type { CommandContext } from "./run.ts";
import { findWorkspaceId, WORKSPACE, workspaceName, workspaceNames } from "./workspace-commands.ts";

/** A record of a zone is known by its type and name. */
const withId = <R extends DnsRecord>(dns: R) => ({ id: `${dns.type} ${dns.name}`, ...dns });

export const domainCommands = [
  defineCommand({
    name: "domain dns",
    summary: "Print the DNS records of a domain",
    arguments: { domain: "DOMAIN" },
    options: WORKSPACE,
    text: (document) => dnsTable(document as DnsRecord[]),
    run: (context, { arguments: { domain }, options }) =>
      domains
        .listDomainRecords(context.opened.core, resolveCommandTarget("domain", context, domain, options.workspace).id)
        .map(withId),
  }),
  defineCommand({
    name: "domain verify",
    summary: "Look the DNS records of a domain up and say which are missing",
    arguments: { domain: "DOMAIN" },
    options: { ...WORKSPACE, "skip-dns": { summary: "Take your word for it instead of looking them up" } },
    async run(context, { arguments: { domain: name }, options }) {
      const { core } = context.opened;
      const { store } = core;
      const { id, workspaceId } = resolveCommandTarget("domain", context, name, options.workspace);
      const workspace = workspaceName(context, workspaceId);
      const present = () =>
        describeDomainForCommand(domainView(domains.getDomainById(core, workspaceId, id), []), { workspace });
      if (options["skip-dns"]) {
        store.transact((tx) => domains.markDomainVerified(core, tx, id));
        return present();
      }
      const records = (await domains.verifyDomain(core, id)).map(withId);
      const missing = records.filter((dns) => dns.state !== "found" && !dns.optional);
      const document = { ...present(), missing: missing.map((dns) => dns.id), records };
      if (document.state === "verified") return document;
      const list = missing.map((dns) => `  ${dns.purpose}: ${dns.id} (${dns.state})`).join("\n");
      throw new FailedCheck(`not all DNS records of ${document.domain} are there:\n${list}`, document);
    },
    text(document) {
      const { records, missing: _, ...domain } = document as { records?: DnsRecord[]; missing?: string[] };
      return (
        formatRecord(domain) + (records ? `\n${dnsTable(records, ["purpose", "state", "type", "name", "value"])}` : "")
      );
    },
  }),
];

const MAILBOX = { address: "ADDRESS" } as const;

/** The mailbox as it is now. */
function readMailboxDocument(context: CommandContext, { id, workspaceId }: Pick<MailboxEntry, "id" | "workspaceId">) {
  const mailbox = mailboxAdminView(mailboxAdmin.getMailboxById(context.opened.core, workspaceId, id));
  return describeMailboxForCommand(mailbox, { workspace: workspaceName(context, workspaceId) });
}

export const mailboxCommands = [
  defineCommand({
    name: "mailbox alias",
    summary: "Add an alias to a mailbox, or remove one; *@DOMAIN is a catch-all",
    arguments: { ...MAILBOX, action: ["add", "remove"], alias: "ALIAS" },
    options: WORKSPACE,
    run(context, { arguments: { address, action, alias }, options }) {
      const { core } = context.opened;
      const { store } = core;
      const mailbox = resolveCommandTarget("mailbox", context, address, options.workspace);
      store.transact((tx) => {
        if (action === "add") mailboxAdmin.addAlias(core, tx, mailbox.id, alias);
        else mailboxAdmin.removeAlias(tx, mailbox.id, alias);
      });
      return readMailboxDocument(context, mailbox);
    },
  }),
  defineCommand({
    name: "mailbox revoke",
    summary: "End the sharing of a mailbox with a user",
    arguments: MAILBOX,
    options: { from: { value: "USER", required: true, summary: "Address of the user" }, ...WORKSPACE },
    run(context, { arguments: { address }, options }) {
      const { core } = context.opened;
      const { store } = core;
      const mailbox = resolveCommandTarget("mailbox", context, address, options.workspace);
      const user = people.getUserByAddress(core, options.from);
      store.transact((tx) => mailboxAdmin.revokeMailboxAccess(tx, mailbox.id, user.id));
      return readMailboxDocument(context, mailbox);
    },
  }),
  defineCommand({
    name: "mailbox remove",
    summary: "Remove a mailbox and all its mail",
    arguments: MAILBOX,
    options: WORKSPACE,
    async run(context, { arguments: { address: given }, options }) {
      const { id, address } = resolveCommandTarget("mailbox", context, given, options.workspace);
      await removals.removeMailbox(context.opened.core, id);
      return { id, address, removed: true };
    },
  }),
];

/** The secret, and during an overlap the previous one with its end. */
const pickEndpointSecrets = ({ id, secret, previousSecret, previousUntil }: Endpoint, now: number) => ({
  id,
  secret,
  ...(previousUntil !== null &&
    previousUntil > now && { previousSecret, previousUntil: toIsoTimeOrNull(previousUntil) }),
});

export const webhookCommands = [
  defineCommand({
    name: "webhook secret",
    summary: "Show the secret of an endpoint, or put a new one in its place",
    arguments: { id: "ID" },
    options: {
      rotate: { summary: "Make a new secret" },
      overlap: {
        value: "HOURS",
        summary: `How long the previous one stays valid; ${DEFAULT_OVERLAP_HOURS} unless told, 0 for not at all`,
      },
    },
    run(
      {
        opened: {
          core: { store },
          core,
        },
        runtime,
      },
      { arguments: { id }, options: { rotate, overlap } },
    ) {
      if (!rotate && overlap !== undefined) throw new UsageError("--overlap goes with --rotate");
      if (!rotate) return pickEndpointSecrets(developers.getWebhookEndpoint(core, id), runtime.now());
      const isHours = (value: number) => value >= 0;
      const hours =
        overlap === undefined
          ? DEFAULT_OVERLAP_HOURS
          : readNumberOption("overlap", overlap, isHours, "a number of hours");
      return pickEndpointSecrets(
        store.transact((tx) => developers.rotateWebhookSecret(core, tx, id, hours)),
        runtime.now(),
      );
    },
  }),
  defineCommand({
    name: "webhook resend",
    summary: "Send a delivery once more, now, with the same payload and event id",
    arguments: { id: "DELIVERY" },
    run: (
      {
        opened: {
          core: { store },
          core,
        },
      },
      { arguments: { id } },
    ) => webhookDeliveryView(store.transact((tx) => developers.resendDelivery(core, tx, id))),
  }),
];

export const queueCommands = [
  defineCommand({
    name: "queue list",
    lists: true,
    summary: "List the recipients of outbound mail that are not settled yet",
    options: WORKSPACE,
    columns: ["id", "recipient", "field", "state", "attempts", "nextAttemptAt", "mailbox", "reply"],
    run(context, { options }) {
      const names = workspaceNames(context);
      const listed = outbound.listQueue(context.opened.core, findWorkspaceId(context, options.workspace));
      // Bcc recipients too, whom the API shows to the sender alone.
      return Array.from(listed, (entry) => ({ ...queueEntryView(entry), workspace: names.get(entry.workspaceId) }));
    },
  }),
  defineCommand({
    name: "queue release",
    summary: "Release all mail that is held, as after a restore",
    options: WORKSPACE,
    run(context, { options }) {
      const { core } = context.opened;
      const { store } = core;
      const workspaceId = findWorkspaceId(context, options.workspace);
      return { released: store.transact((tx) => outbound.releaseHeld(core, tx, workspaceId)) };
    },
  }),
];
