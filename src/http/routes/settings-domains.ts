/** Administration of domains in the app: the API's operations, and a list of all domains at once. */
import type { Domains } from "../../admin/domains.ts";
import type { Serving } from "../../api/rest.ts";
import { addDomain, domainView, getDomain, removeDomain, verifyDomain } from "../../operations/admin/domains.ts";
import type { DomainView } from "../admin-views.ts";
import type { Route } from "../route.ts";
import { workspaceOf } from "./asked.ts";
import { settingsRoute } from "./operation-route.ts";

export interface DomainsParts extends Serving {
  domains: Domains;
}

export function domainsRoutes(parts: DomainsParts): Route[] {
  const { domains } = parts;
  return [
    {
      method: "GET",
      path: "/domains",
      run: (asked): { domains: DomainView[] } => ({
        domains: domains
          .listDomains(workspaceOf(asked))
          .map((domain) => domainView(domain, domains.recordsOf(domain.id))),
      }),
    },
    settingsRoute(getDomain, parts, { path: "/domains/:id/records" }),
    ...[addDomain, verifyDomain, removeDomain].map((operation) => settingsRoute(operation, parts)),
  ];
}
