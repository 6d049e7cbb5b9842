/** Domains of a workspace, with the DNS records that each needs and their state (rules: Administered domains). */
import { DnsRecord, type FoundRecord } from "../../admin/dns.ts";
import * as domains from "../../admin/domains.ts";
import { type DomainEntry, isDomainOwnershipProven, makeDkimKeys } from "../../admin/domains.ts";
import { dateTimeSchema, filledStringSchema, nullable, type Static, stringEnum, t } from "../../base/json-schema.ts";
import { toIsoTime, toIsoTimeOrNull } from "../../base/time.ts";
import { defineOperationCommand, type Shown } from "../command-line.ts";
import { defineOperation } from "../operation.ts";
import { createListReader, nextCursor, PAGE_QUERY, readListPage } from "../paging.ts";
import { BY_ID, DONE, Done, strictBody } from "../shared-schemas.ts";
import { READ_ERRORS, WRITE_ERRORS } from "./common.ts";

const Domain = t.Object(
  {
    id: t.String(),
    name: t.String({ description: "As A-labels" }),
    state: stringEnum(["verified", "unverified", "lost"], { description: "lost: another workspace has verified it" }),
    takesMail: t.Boolean({
      description: "Mail to it is accepted: it is verified, or was here before domains had to be",
    }),
    verifiedAt: nullable(dateTimeSchema(), { description: "null until it is verified" }),
    records: t.Array(
      t.Object({
        ...DnsRecord.properties,
        state: t.Optional(
          stringEnum(["found", "missing", "unanswered"], {
            description: "Only where the records were just looked up. unanswered: the DNS query failed",
          }),
        ),
      }),
      { description: "The DNS records to publish" },
    ),
    createdAt: dateTimeSchema(),
  },
  { $id: "Domain" },
);

export type DomainView = Static<typeof Domain>;

/** Presents a domain, with its records as they should be or as they were found. */
export const domainView = (
  { workspaceId: _, verifiedAt, createdAt, ...rest }: DomainEntry,
  records: (DnsRecord & Partial<Pick<FoundRecord, "state">>)[],
): DomainView => ({ ...rest, verifiedAt: toIsoTimeOrNull(verifiedAt), records, createdAt: toIsoTime(createdAt) });

/** A domain as the command line shows it; `domain dns` shows its records. */
export const describeDomainForCommand = (
  { id, name, records: _, ...rest }: DomainView,
  { workspace }: Pick<Shown, "workspace">,
) => ({
  id,
  domain: name,
  workspace,
  ...rest,
});

export const listDomains = defineOperation({
  name: "listDomains",
  group: "Domains",
  audience: "admin",
  method: "GET",
  path: "/domains",
  scope: "admin",
  summary: "List the domains of the workspace, oldest first",
  description: "Each with the records it needs; a list does not look them up.",
  query: t.Object(PAGE_QUERY),
  success: 200,
  response: t.Object({ domains: t.Array(Domain), nextCursor }),
  errors: READ_ERRORS,
  commands: [
    defineOperationCommand({
      name: "domain list",
      summary: "List the domains",
      columns: ["id", "domain", "workspace", "state", "takesMail"],
      // Of several claims to a domain the verified one comes first.
      sortBy: ["domain", "verifiedAt", "createdAt"],
      document: describeDomainForCommand,
    }),
  ],
  run({ caller: { workspaceId }, core }, { query }) {
    const rowPosition = ({ createdAt, id }: DomainEntry) => ({ at: createdAt, id });
    const read = createListReader(domains.listDomains(core, workspaceId), rowPosition, "oldest first");
    const { page, nextCursor: next } = readListPage({ query: "domains", rowPosition, read }, query);
    return {
      domains: page.map((domain) => domainView(domain, domains.listDomainRecords(core, domain.id))),
      nextCursor: next,
    };
  },
});

export const addDomain = defineOperation({
  name: "addDomain",
  whole: true,
  group: "Domains",
  audience: "admin",
  method: "POST",
  path: "/domains",
  scope: "admin",
  summary: "Add a domain, with its DKIM keys",
  description: "Publish its records, then verify it. Until then it neither receives nor sends mail.",
  body: strictBody({ name: filledStringSchema({ description: "Such as example.com" }) }),
  example: { body: { name: "example.org" } },
  idempotent: true,
  success: 201,
  response: Domain,
  errors: WRITE_ERRORS,
  commands: [
    defineOperationCommand({
      name: "domain add",
      summary: "Add a domain, with its DKIM keys, and print the DNS records it needs",
      arguments: { domain: "DOMAIN" },
      input: ({ arguments: { domain: name } }) => ({ body: { name } }),
      document: (domain: DomainView, shown) => ({ ...describeDomainForCommand(domain, shown), dns: domain.records }),
    }),
  ],
  async run({ act, core }, { body: { name } }) {
    const keys = await makeDkimKeys();
    return act((tx, { workspaceId }) => {
      const domain = domains.addDomain(core, tx, workspaceId, name, keys);
      return domainView(domain, domains.listDomainRecords(core, domain.id));
    });
  },
});

export const getDomain = defineOperation({
  name: "getDomain",
  group: "Domains",
  audience: "admin",
  method: "GET",
  path: "/domains/:id",
  scope: "admin",
  summary: "Show a domain, with its records as the world sees them now",
  description: "Looks the records up, and changes nothing.",
  params: BY_ID,
  success: 200,
  response: Domain,
  errors: READ_ERRORS,
  async run({ caller: { workspaceId }, core }, { params: { id } }) {
    const domain = domains.getDomainById(core, workspaceId, id);
    return domainView(domain, await domains.lookUpDomainRecords(core, id));
  },
});

export const verifyDomain = defineOperation({
  name: "verifyDomain",
  whole: true,
  group: "Domains",
  audience: "admin",
  method: "POST",
  path: "/domains/:id/verify",
  scope: "admin",
  summary: "Look the records of a domain up, and verify it if they show that it is yours",
  description:
    "Those of ownership and DKIM have to be found. The answer tells what was found of each record, and the domain's state by now.",
  params: BY_ID,
  body: strictBody({}),
  bodyOptional: true,
  idempotent: true,
  success: 200,
  response: Domain,
  errors: WRITE_ERRORS,
  async run({ act, caller: { workspaceId }, core }, { params: { id } }) {
    domains.getDomainById(core, workspaceId, id);
    const records = await domains.lookUpDomainRecords(core, id);
    return act((tx) => {
      if (isDomainOwnershipProven(records)) domains.markDomainVerified(core, tx, id);
      return domainView(domains.getDomainById(core, workspaceId, id), records);
    });
  },
});

export const removeDomain = defineOperation({
  name: "removeDomain",
  whole: true,
  group: "Domains",
  audience: "admin",
  method: "DELETE",
  path: "/domains/:id",
  scope: "admin",
  summary: "Remove a domain that no mailbox or alias uses",
  params: BY_ID,
  success: 200,
  response: Done,
  errors: WRITE_ERRORS,
  commands: [
    defineOperationCommand({
      name: "domain remove",
      arguments: { domain: "DOMAIN" },
      target: "domain",
      document: (_, { target: { id, name } }) => ({ id, domain: name, removed: true }),
    }),
  ],
  run: ({ act, core }, { params: { id } }) =>
    act((tx, { workspaceId }) => {
      domains.getDomainById(core, workspaceId, id);
      domains.removeDomain(tx, id);
      return DONE;
    }),
});
