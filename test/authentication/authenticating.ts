/** Authentication in the test's process: the work of a worker, with a resolver for its DNS questions. */
import { type Authentication, judgeAuthentication } from "../../src/authentication/dmarc.ts";
import { gatherAuthenticationEvidence, type SmtpContext } from "../../src/authentication/evidence.ts";
import type { DNSResolver } from "../../src/authentication/mailauth.ts";
import type { DnsClient, RecordType } from "../../src/base/runtime.ts";
import { authorsIn } from "../../src/message/address.ts";
import { createDnsCache } from "../../src/net/dns-cache.ts";
import { START } from "../harness/runtime.ts";

/** Asks `dns` as workers do, through the cache. */
function askerOf(dns: DnsClient): DNSResolver {
  const cache = createDnsCache({ dns, now: () => START });
  return async (name, type) => {
    const answer = await cache.ask(name, type as RecordType);
    if ("records" in answer) return answer.records as string[];
    throw Object.assign(new Error(answer.code), { code: answer.code });
  };
}

const ARRIVAL: SmtpContext = {
  ip: "192.0.2.1",
  helo: "mail.remote.example",
  reversePath: "carol@remote.example",
  hostname: "mx.example.test",
  trustedForwarders: [],
  now: START,
};

/** `shown`: the address of the author, as our parser reads it. */
export async function authenticate(
  message: string,
  dns: DnsClient,
  { shown, ...smtpContext }: Partial<SmtpContext> & { shown?: string } = {},
): Promise<Authentication> {
  const complete = { ...ARRIVAL, ...smtpContext };
  const ask = askerOf(dns);
  const evidence = await gatherAuthenticationEvidence(Buffer.from(message, "latin1"), complete, ask);
  return await judgeAuthentication(evidence, authorsIn(shown === undefined ? [] : [shown]), complete, ask);
}
