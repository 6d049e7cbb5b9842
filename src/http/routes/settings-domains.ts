/** Administration of domains: the records each needs, and whether the world sees them. */

import type { DnsRecord } from "../../admin/dns.ts";
import { type DomainEntry, type Domains, makeDkimKeys } from "../../admin/domains.ts";
import { t } from "../../operations/json-schema.ts";
import type { Store } from "../../store/store.ts";
import type { DomainView } from "../admin-views.ts";
import type { Route } from "../route.ts";
import { bodyOf, done, isoOf, workspaceOf } from "./asked.ts";

export interface DomainsParts {
  store: Pick<Store, "transact">;
  domains: Domains;
}

const readDomain = bodyOf(t.Object({ name: t.String() }));

const viewOf = (domain: DomainEntry, records: DnsRecord[]): DomainView => {
  const { id, name, state, takesMail, verifiedAt } = domain;
  return { id, name, state, takesMail, records, verifiedAt: verifiedAt === null ? null : isoOf(verifiedAt) };
};

export function domainsRoutes({ store, domains }: DomainsParts): Route[] {
  return [
    {
      method: "GET",
      path: "/domains",
      run: (asked): { domains: DomainView[] } => ({
        domains: domains.listDomains(workspaceOf(asked)).map((domain) => viewOf(domain, domains.recordsOf(domain.id))),
      }),
    },
    {
      method: "POST",
      path: "/domains",
      async run(asked): Promise<DomainView> {
        const { name } = await readDomain(asked);
        const keys = await makeDkimKeys();
        const domain = store.transact((tx) => domains.addDomain(tx, workspaceOf(asked), name, keys));
        return viewOf(domain, domains.recordsOf(domain.id));
      },
    },
    {
      // As the world sees them now. Changes nothing.
      method: "GET",
      path: "/domains/:id/records",
      async run(asked): Promise<DomainView> {
        const domain = domains.domainIn(workspaceOf(asked), asked.params.id ?? "");
        return viewOf(domain, await domains.seeRecords(domain.id));
      },
    },
    {
      // Looks the records up, and takes the domain for verified if they say so.
      method: "POST",
      path: "/domains/:id/verify",
      async run(asked): Promise<DomainView> {
        const { id } = domains.domainIn(workspaceOf(asked), asked.params.id ?? "");
        const records = await domains.verifyDomain(id);
        return viewOf(domains.domainIn(workspaceOf(asked), id), records);
      },
    },
    {
      method: "DELETE",
      path: "/domains/:id",
      run(asked) {
        const { id } = domains.domainIn(workspaceOf(asked), asked.params.id ?? "");
        store.transact((tx) => domains.removeDomain(tx, id));
        return done();
      },
    },
  ];
}
