/**
 * Obtains certificates from an authority (rules: Certificates): orders them once the listeners are up, and renews them
 * while they run. The self-signed certificate serves until the server's own is obtained.
 *
 * Files in <data>/tls/acme: account.json, the server's own certificate (issued.ts), those of domains
 * (domain-certificates.ts), and records.json (dns-challenge.ts).
 *
 * Invariant: the server's own certificate comes first. No order of another is begun while it is due.
 */
import { join } from "node:path";
import { openHttpClient } from "../net/http-client.ts";
import { openAuthority } from "./certificate-authority.ts";
import { openChallenge } from "./challenge.ts";
import { createDomainCertificates, readDomainCertificates } from "./domain-certificates.ts";
import {
  createIssuedCertificate,
  type Issuer,
  readStoredCertificate,
  STOPPING,
  type StoredCertificate,
} from "./issued.ts";
import type { KeyPair } from "./pair.ts";
import { type CertificateSetup, type Renewal, type Source, selfSignedCertificateSource } from "./source.ts";

/** Time between two checks of the domains and the renewal time. */
const LOOK_MS = 60_000;
/** The operator may choose an authority at any address. */
const EVERYWHERE = ["0.0.0.0/0", "::/0"];

const acmeFolder = (data: string): string => join(data, "tls", "acme");

/** Reads what a data folder has of an authority: the server's own certificate, and those of domains. Never rejects. */
export async function readAcme(
  data: string,
): Promise<{ own: StoredCertificate; domains: (StoredCertificate & { domain: string })[] }> {
  const folder = acmeFolder(data);
  const [own, domains] = await Promise.all([readStoredCertificate(folder), readDomainCertificates(folder)]);
  return { own, domains };
}

type AcmeMode = Extract<CertificateSetup["mode"], { mode: "acme" }>;

export function acmeCertificateSource(mode: AcmeMode, setup: CertificateSetup): Source {
  const { hostname, names = [hostname.toLowerCase()], domains: list = () => [], runtime, log } = setup;
  const { directory, email } = mode;
  const folder = acmeFolder(setup.folder);
  const http = openHttpClient({ runtime, allow: () => EVERYWHERE });
  const challenge = openChallenge(mode.challenge, setup);
  const stopped = Promise.withResolvers<never>();
  stopped.promise.catch(() => {});
  const issuer: Issuer = {
    directory,
    email,
    setup: JSON.stringify([directory, email, mode.challenge]),
    authority: openAuthority({ directory, http, runtime }),
    challenge,
    stopped: stopped.promise,
    runtime,
    log,
  };
  const [main = hostname] = names;
  const account = join(folder, "account.json");
  const own = createIssuedCertificate({ folder, account, required: main, asked: () => names, issuer });
  const domains = createDomainCertificates({ folder, own: names, list, issuer, runtime });
  let isFirstLook = true;
  /** Renewals that people asked for and that are not begun. */
  const requests: { domain: string | undefined; answer: PromiseWithResolvers<Renewal> }[] = [];

  /** When to order the server's own certificate, epoch ms: at once while it names hosts of domains. */
  const nextOwn = (): number => own.nextOrderAt(own.wanted(names), domains.isShared(own));

  async function tendOwn(replace: (pair: KeyPair) => void): Promise<void> {
    await own.askWindow();
    if (nextOwn() > runtime.now()) return;
    const pair = await own.order(own.wanted(names));
    if (pair) replace(pair);
  }

  async function renewOwn(replace: (pair: KeyPair) => void): Promise<Renewal> {
    own.forgive();
    const wanted = own.wanted(names);
    const pair = await own.order(wanted);
    if (pair) replace(pair);
    return own.outcome(wanted);
  }

  async function tendRequests(replace: (pair: KeyPair) => void): Promise<void> {
    for (let next = requests.shift(); next; next = requests.shift()) {
      const { domain, answer } = next;
      await (domain === undefined ? renewOwn(replace) : domains.renew(domain)).then(answer.resolve, answer.reject);
    }
  }

  return {
    async first() {
      await own.load();
      await domains.load();
      return own.pair() ?? (await selfSignedCertificateSource(setup).first());
    },
    async look(replace) {
      // Clears proofs that a crash left; an order that continues shows its proofs again.
      if (isFirstLook) await challenge.clear();
      isFirstLook = false;
      await domains.follow(own);
      do {
        await tendRequests(replace);
        await tendOwn(replace);
      } while (await domains.orderNext());
      const next = Math.min(nextOwn(), domains.nextAt());
      return Math.max(runtime.now() + 1_000, Math.min(next, runtime.now() + LOOK_MS));
    },
    pairFor: domains.pairFor,
    domains: domains.states,
    proof: (token) => challenge.proof?.(token),
    alpn: challenge.alpn,
    trouble: own.trouble,
    renew(domain) {
      const answer = Promise.withResolvers<Renewal>();
      requests.push({ domain, answer });
      return Promise.race([answer.promise, stopped.promise]);
    },
    stop() {
      stopped.reject(new Error(STOPPING));
      challenge.stop?.();
      http.close();
    },
  };
}
