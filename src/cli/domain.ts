/** `mailroom domain …` */
import type { DnsRecord } from "../admin/dns.ts";
import { type DomainEntry, makeDkimKeys } from "../admin/domains.ts";
import { command, FailedCheck } from "./command.ts";
import { dnsTable, isoOf, record, recordWithDns } from "./output.ts";
import type { Session } from "./session.ts";
import { WORKSPACE, workspaceFor, workspaceIdOf, workspaceNames } from "./workspace.ts";

function presenter(session: Session) {
  const names = workspaceNames(session);
  return ({ id, name, workspaceId, state, takesMail, verifiedAt, createdAt }: DomainEntry) => ({
    id,
    domain: name,
    workspace: names.get(workspaceId),
    state,
    takesMail,
    verifiedAt: isoOf(verifiedAt),
    createdAt: isoOf(createdAt),
  });
}

/** A record of a zone is known by its type and name. */
const withId = <R extends DnsRecord>(dns: R) => ({ id: `${dns.type} ${dns.name}`, ...dns });

const DOMAIN = { domain: "DOMAIN" } as const;

function find(session: Session, name: string, workspace: string | undefined): DomainEntry {
  return session.appliance.domains.domainNamed(name, workspaceIdOf(session, workspace));
}

export const domainCommands = [
  command({
    name: "domain add",
    summary: "Add a domain, with its DKIM keys, and print the DNS records it needs",
    arguments: DOMAIN,
    options: WORKSPACE,
    text: recordWithDns,
    async run(session, { arguments: { domain: name }, options }) {
      const { store, domains } = session.appliance;
      const workspaceId = workspaceFor(session, options.workspace);
      const keys = await makeDkimKeys();
      const domain = store.transact((tx) => domains.addDomain(tx, workspaceId, name, keys));
      return { ...presenter(session)(domain), dns: domains.recordsOf(domain.id) };
    },
  }),
  command({
    name: "domain list",
    summary: "List the domains",
    options: WORKSPACE,
    columns: ["id", "domain", "workspace", "state", "takesMail"],
    run: (session, { options }) =>
      session.appliance.domains.listDomains(workspaceIdOf(session, options.workspace)).map(presenter(session)),
  }),
  command({
    name: "domain dns",
    summary: "Print the DNS records of a domain",
    arguments: DOMAIN,
    options: WORKSPACE,
    text: (document) => dnsTable(document as DnsRecord[]),
    run: (session, { arguments: { domain }, options }) =>
      session.appliance.domains.recordsOf(find(session, domain, options.workspace).id).map(withId),
  }),
  command({
    name: "domain verify",
    summary: "Look the DNS records of a domain up and say which are missing",
    arguments: DOMAIN,
    options: { ...WORKSPACE, "skip-dns": { summary: "Take your word for it instead of looking them up" } },
    async run(session, { arguments: { domain: name }, options }) {
      const { store, domains } = session.appliance;
      const { id, workspaceId } = find(session, name, options.workspace);
      const present = () => presenter(session)(domains.domainIn(workspaceId, id));
      if (options["skip-dns"]) {
        store.transact((tx) => domains.markVerified(tx, id));
        return present();
      }
      const records = (await domains.verifyDomain(id)).map(withId);
      const missing = records.filter((dns) => dns.state !== "found" && !dns.optional);
      const document = { ...present(), missing: missing.map((dns) => dns.id), records };
      if (document.state === "verified") return document;
      const list = missing.map((dns) => `  ${dns.purpose}: ${dns.id} (${dns.state})`).join("\n");
      throw new FailedCheck(`not all DNS records of ${document.domain} are there:\n${list}`, document);
    },
    text(document) {
      const { records, missing: _, ...domain } = document as { records?: DnsRecord[]; missing?: string[] };
      return record(domain) + (records ? `\n${dnsTable(records, ["purpose", "state", "type", "name", "value"])}` : "");
    },
  }),
  command({
    name: "domain remove",
    summary: "Remove a domain that no mailbox or alias uses",
    arguments: DOMAIN,
    options: WORKSPACE,
    run(session, { arguments: { domain: name }, options }) {
      const { store, domains } = session.appliance;
      const { id, name: domain } = find(session, name, options.workspace);
      store.transact((tx) => domains.removeDomain(tx, id));
      return { id, domain, removed: true };
    },
  }),
];
