/**
 * Domains: adding them with what signs their mail, the DNS records that go with them, and looking those up. A domain is
 * verified once its records have been seen, or by the operator's word, and stays so.
 *
 * Any workspace may claim a domain that none has verified. Invariant: it belongs to the first whose own records were seen
 * there; what the others had claimed takes no mail and sends none from then on, and their owners are told
 * (domain-notices.ts). Their mailboxes stay, to be read.
 */
import { generateKeyPair, type KeyObject } from "node:crypto";
import { promisify } from "node:util";
import { and, asc, eq, isNotNull, isNull, ne } from "drizzle-orm";
import { alias } from "drizzle-orm/sqlite-core";
import { POLICY_PATH, policyHostOf } from "../authentication/mta-sts.ts";
import { AppError } from "../base/errors.ts";
import type { Log } from "../base/log.ts";
import { atMost } from "../base/pause.ts";
import { newId, type Runtime, randomToken } from "../base/runtime.ts";
import { isVerifiedElsewhere } from "../mailbox/addresses.ts";
import * as schema from "../store/schema.ts";
import type { Store, Tx } from "../store/store.ts";
import { type DnsRecord, type FoundRecord, lookUp, publishedAt } from "./dns.ts";
import type { PublishedPolicy } from "./mta-sts.ts";
import { domainOf } from "./names.ts";

export interface DomainEntry {
  id: string;
  workspaceId: string;
  /** A-labels. */
  name: string;
  /** Epoch ms; null until verified. */
  verifiedAt: number | null;
  /** `lost`: another workspace has verified it. */
  state: "verified" | "unverified" | "lost";
  /** Also unverified ones do that were here before it was asked for. */
  takesMail: boolean;
  createdAt: number;
}

/** A new key pair for DKIM, not yet any domain's. */
export type DkimKey = Pick<typeof schema.dkimKeys.$inferInsert, "algorithm" | "privateKey" | "publicKey">;

const makeKeyPair = promisify(generateKeyPair);
const pem = (key: KeyObject): string => key.export({ type: "pkcs8", format: "pem" }).toString();
const spki = (key: KeyObject): Buffer => key.export({ type: "spki", format: "der" });

/**
 * One RSA key, which every verifier knows (RFC 8301 §3.2: 2048 bits), and one Ed25519 key (RFC 8463). Takes some tenths
 * of a second, so it is done before the transaction.
 */
export async function makeDkimKeys(): Promise<DkimKey[]> {
  const [rsa, ed25519] = await Promise.all([makeKeyPair("rsa", { modulusLength: 2048 }), makeKeyPair("ed25519", {})]);
  return [
    { algorithm: "rsa", privateKey: pem(rsa.privateKey), publicKey: spki(rsa.publicKey).toString("base64") },
    {
      algorithm: "ed25519",
      privateKey: pem(ed25519.privateKey),
      // RFC 8463 §4.2: the bare key, which are the last 32 bytes of the SubjectPublicKeyInfo.
      publicKey: spki(ed25519.publicKey).subarray(-32).toString("base64"),
    },
  ];
}

export interface DomainsParts {
  store: Store;
  runtime: Pick<Runtime, "now" | "randomBytes" | "dns" | "setTimer">;
  log: Log;
  /** Of mail to the domains. By default, none is published. */
  policy?: PublishedPolicy;
  /** Name of this server: where the MX record points. */
  hostname: string;
}

const ownershipRecord = (domain: string, token: string): DnsRecord => ({
  ...{ type: "TXT", name: `_mailroom.${domain}`, value: `mailroom-verify=${token}`, purpose: "ownership" },
});

export type Domains = ReturnType<typeof createDomains>;

/** The records that show that a domain is ours to send from. */
const VERIFYING: ReadonlySet<DnsRecord["purpose"]> = new Set(["ownership", "dkim"]);

/** Tells whether the records that were found prove that the claimant owns the domain. */
export const proveOwnership = (records: readonly FoundRecord[]): boolean =>
  records.every(({ purpose, state }) => !VERIFYING.has(purpose) || state === "found");

/** Strangers may have a domain's records looked up so often, and a look takes no longer. */
const LOOK_EVERY_MS = 5 * 60_000;
const LONGEST_LOOK_MS = 15_000;
/** Claims looked at whose token is published; a zone has one, unless its owner is at odds with themselves. */
const MOST_PUBLISHED = 3;

export function createDomains({ store, runtime, log, hostname, policy }: DomainsParts) {
  /** When strangers last had the records of a domain looked up, by its name: epoch ms. */
  const looks = new Map<string, { at: number; look: Promise<void> }>();

  /** @throws AppError conflict when another workspace has verified the domain; it is not said which. */
  function refuseOthers(tx: Tx, workspaceId: string, name: string): void {
    if (!isVerifiedElsewhere(tx, workspaceId, name)) return;
    throw new AppError("conflict", `${name} was verified by another workspace of this server`);
  }

  /** `keys` from makeDkimKeys. @throws AppError conflict when the workspace has the domain, or another has verified it. */
  function addDomain(tx: Tx, workspaceId: string, text: string, keys: readonly DkimKey[]): DomainEntry {
    const name = domainOf(text);
    const own = and(eq(schema.domains.name, name), eq(schema.domains.workspaceId, workspaceId));
    if (tx.select({ id: schema.domains.id }).from(schema.domains).where(own).get()) {
      throw new AppError("conflict", `${name} is here already`);
    }
    refuseOthers(tx, workspaceId, name);
    const createdAt = runtime.now();
    const domain = { id: newId(runtime, "dom"), workspaceId, name, createdAt };
    tx.insert(schema.domains)
      .values({ ...domain, ownershipToken: randomToken(runtime, 32) })
      .run();
    // A selector names its date, so that a later key gets another.
    const date = new Date(createdAt).toISOString().slice(0, 10).replaceAll("-", "");
    for (const key of keys) {
      tx.insert(schema.dkimKeys)
        .values({ ...key, domainId: domain.id, selector: `${key.algorithm}-${date}`, createdAt })
        .run();
    }
    return { ...domain, verifiedAt: null, state: "unverified", takesMail: false };
  }

  /** By name, the verified one of a name first; of one workspace, or of all. */
  function listDomains(workspaceId?: string): DomainEntry[] {
    const verified = alias(schema.domains, "verified");
    return store.db
      .select({ domain: schema.domains, holder: verified.workspaceId })
      .from(schema.domains)
      .leftJoin(verified, and(eq(verified.name, schema.domains.name), isNotNull(verified.verifiedAt)))
      .where(workspaceId === undefined ? undefined : eq(schema.domains.workspaceId, workspaceId))
      .orderBy(
        asc(schema.domains.name),
        isNull(schema.domains.verifiedAt),
        asc(schema.domains.createdAt),
        asc(schema.domains.id),
      )
      .all()
      .map(({ domain: { ownershipToken: _, lostAt: __, acceptsUnverified, ...domain }, holder }) => ({
        ...domain,
        state: domain.verifiedAt !== null ? "verified" : holder === null ? "unverified" : "lost",
        takesMail: domain.verifiedAt !== null || acceptsUnverified,
      }));
  }

  /** Hosts of the MTA-STS policies of verified domains (RFC 8461 §3.2). */
  const policyHosts = (): string[] =>
    listDomains()
      .filter(({ verifiedAt }) => verifiedAt !== null)
      .map(({ name }) => policyHostOf(name));

  /**
   * What a host answers at a path, if it is a policy host: the policy, or null for nothing. Undefined for any other
   * host. `host`: lower case.
   */
  function policyAt(host: string, path: string): string | null | undefined {
    if (!policy || !policyHosts().includes(host)) return undefined;
    return path === POLICY_PATH ? policy.text() : null;
  }

  /** Of one workspace, or of all. @throws AppError not_found; conflict when several claim it and none has verified it */
  function domainNamed(text: string, workspaceId?: string): DomainEntry {
    const name = domainOf(text);
    const [domain, other] = listDomains(workspaceId).filter((known) => known.name === name);
    if (!domain) throw new AppError("not_found", `there is no domain ${name}`);
    if (other && domain.state !== "verified") {
      throw new AppError("conflict", `several workspaces claim ${name}: name the workspace`);
    }
    return domain;
  }

  /** @throws AppError not_found when the workspace has no domain of that id. */
  function domainIn(workspaceId: string, id: string): DomainEntry {
    const domain = listDomains(workspaceId).find((known) => known.id === id);
    if (!domain) throw new AppError("not_found", "there is no such domain");
    return domain;
  }

  /**
   * What the zone of the domain must say, for mail to come here and for mail from here to be believed.
   * @throws AppError not_found
   */
  function recordsOf(domainId: string): DnsRecord[] {
    const domain = store.db.select().from(schema.domains).where(eq(schema.domains.id, domainId)).get();
    if (!domain) throw new AppError("not_found", "there is no such domain");
    const keys = store.db.select().from(schema.dkimKeys).where(eq(schema.dkimKeys.domainId, domainId)).all();
    const { name } = domain;
    return [
      { type: "MX", name, value: `10 ${hostname.toLowerCase()}`, purpose: "mx" },
      // Mail leaves from where it comes in; what else sends for the domain is for its owner to add.
      { type: "TXT", name, value: "v=spf1 mx ~all", purpose: "spf" },
      ...keys
        .sort((a, b) => b.algorithm.localeCompare(a.algorithm))
        .map(({ selector, algorithm, publicKey }) => ({
          type: "TXT" as const,
          name: `${selector}._domainkey.${name}`,
          value: `v=DKIM1; k=${algorithm}; p=${publicKey}`,
          purpose: "dkim" as const,
        })),
      { type: "TXT", name: `_dmarc.${name}`, value: "v=DMARC1; p=quarantine", purpose: "dmarc" },
      ownershipRecord(name, domain.ownershipToken),
      ...(policy?.recordsOf(name) ?? []),
    ];
  }

  /** The records, and whether the world sees them. Changes nothing. @throws AppError not_found */
  async function seeRecords(domainId: string): Promise<FoundRecord[]> {
    return lookUp(runtime.dns, recordsOf(domainId));
  }

  /**
   * Looks the records up. With those of ownership and DKIM the domain is verified: mail may come in elsewhere. Records
   * gone missing do not undo it. @throws AppError as markVerified
   */
  async function verifyDomain(domainId: string): Promise<FoundRecord[]> {
    const records = await seeRecords(domainId);
    if (proveOwnership(records)) store.transact((tx) => markVerified(tx, domainId));
    return records;
  }

  /**
   * The operator's word for it. The first time counts: the warm-up starts on that day. Other workspaces' claims are lost
   * with it. @throws AppError not_found; conflict when another workspace has verified it
   */
  function markVerified(tx: Tx, domainId: string): void {
    const domain = tx.select().from(schema.domains).where(eq(schema.domains.id, domainId)).get();
    if (!domain) throw new AppError("not_found", "there is no such domain");
    if (domain.verifiedAt !== null) return;
    refuseOthers(tx, domain.workspaceId, domain.name);
    const now = runtime.now();
    tx.update(schema.domains)
      .set({ acceptsUnverified: false, lostAt: now })
      .where(and(eq(schema.domains.name, domain.name), ne(schema.domains.id, domainId)))
      .run();
    tx.update(schema.domains)
      .set({ verifiedAt: now, acceptsUnverified: false, lostAt: null })
      .where(eq(schema.domains.id, domainId))
      .run();
  }

  /**
   * Mail came for a domain (A-labels) that is only claimed: it is verified for the workspace whose records are there.
   * Whoever asks, DNS is asked once in a while; until then the answer stands. Never rejects.
   */
  function verifyOnArrival(name: string): Promise<void> {
    const now = runtime.now();
    // Nor longer when the clock was set back meanwhile.
    for (const [known, { at }] of looks) if (Math.abs(now - at) >= LOOK_EVERY_MS) looks.delete(known);
    const looking = looks.get(name)?.look ?? atMost(runtime, LONGEST_LOOK_MS, findOwner(name));
    if (!looks.has(name)) looks.set(name, { at: now, look: looking });
    return looking;
  }

  /** However many claim the domain, the zone is asked once whose token it has. */
  async function findOwner(name: string): Promise<void> {
    try {
      const texts = new Set(await publishedAt(runtime.dns, ownershipRecord(name, "")));
      const claims = store.db.select().from(schema.domains).where(eq(schema.domains.name, name)).all();
      const published = claims.filter(({ ownershipToken }) => texts.has(ownershipRecord(name, ownershipToken).value));
      for (const { id } of published.slice(0, MOST_PUBLISHED)) {
        await verifyDomain(id);
        if (listDomains().some((domain) => domain.id === id && domain.state === "verified")) {
          return log.info("domain verified: mail came for it, and its records are there", { domain: name });
        }
      }
    } catch (error) {
      log.debug("domain not verified on arrival", { domain: name, error });
    }
  }

  /** @throws AppError conflict while addresses use it. */
  function removeDomain(tx: Tx, domainId: string): void {
    const used = tx
      .select({ address: schema.addresses.address })
      .from(schema.addresses)
      .where(eq(schema.addresses.domainId, domainId))
      .orderBy(asc(schema.addresses.address))
      .limit(4)
      .all()
      .map((row) => row.address);
    if (used.length > 0) {
      const some = used.length > 3 ? `${used.slice(0, 3).join(", ")} and others` : used.join(", ");
      throw new AppError("conflict", `the domain is in use by ${some}: remove these mailboxes and aliases first`);
    }
    tx.delete(schema.domains).where(eq(schema.domains.id, domainId)).run();
  }

  return {
    addDomain,
    listDomains,
    policyHosts,
    policyAt,
    domainNamed,
    domainIn,
    recordsOf,
    seeRecords,
    verifyDomain,
    verifyOnArrival,
    markVerified,
    removeDomain,
  };
}
