/** `mailroom certificates renew` has the running server ask its authority now. */
import { toIsoTimeOrNull } from "../base/time.ts";
import { askCertificateRenewal } from "../serve.ts";
import { type Document, defineCommand, FailedCheck } from "./command.ts";

interface Renewed {
  names: readonly string[];
  until: string | null;
  failure?: { reason: string; todo: string; retryAt: string | null };
}

function describe(document: Document): string {
  const { names, until, failure } = document as Renewed;
  const list = names.join(", ");
  if (!failure) return `obtained: ${list}, good until ${until}\n`;
  const present = until === null ? "" : `The present certificate stays, good until ${until}.\n`;
  return `${failure.reason}\n${failure.todo}\n${present}It is tried again by itself, next at ${failure.retryAt}.\n`;
}

export const certificatesRenew = defineCommand({
  name: "certificates renew",
  summary: "Ask the authority for the server's certificate now, due or not; exit 1 if it gives none",
  options: { domain: { value: "DOMAIN", summary: "The certificate of this domain's hosts, in place of the server's" } },
  text: describe,
  async run({ config: { data } }, { options }) {
    const domain = options.domain?.toLowerCase();
    const answer = await askCertificateRenewal(data, domain);
    if (!answer) throw new Error(`no server runs on ${data}: start it, and it asks by itself`);
    const { names, until, failure } = answer;
    const document = {
      id: domain ?? names[0] ?? "",
      names,
      until: toIsoTimeOrNull(until ?? null),
      ...(failure && { failure: { ...failure, retryAt: toIsoTimeOrNull(failure.retryAt) } }),
    };
    if (failure) throw new FailedCheck(`no certificate for ${names.join(", ")} was obtained`, document);
    return document;
  },
});
