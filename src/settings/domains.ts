/**
 * Domains: adding them with what signs their mail, the DNS records that go with them, and looking those up. A domain
 * belongs to one workspace; it is verified once its records have been seen, or by the operator's word, and stays so.
 */
import { generateKeyPair, type KeyObject } from "node:crypto";
import { promisify } from "node:util";
import { and, asc, eq, isNull } from "drizzle-orm";
import { AppError } from "../errors.ts";
import { POLICY_PATH, policyHostOf } from "../mta/mta-sts.ts";
import { newId, type Runtime, randomToken } from "../runtime.ts";
import * as schema from "../store/schema.ts";
import type { Store, Tx } from "../store/store.ts";
import { type DnsRecord, type FoundRecord, lookUp } from "./dns.ts";
import type { PublishedPolicy } from "./mta-sts.ts";
import { domainOf } from "./names.ts";

export interface DomainEntry {
  id: string;
  workspaceId: string;
  /** A-labels. */
  name: string;
  /** Epoch ms; null until verified. */
  verifiedAt: number | null;
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
  runtime: Pick<Runtime, "now" | "randomBytes" | "dns">;
  /** Of mail to the domains. By default, none is published. */
  policy?: PublishedPolicy;
  /** Name of this server: where the MX record points. */
  hostname: string;
}

export type Domains = ReturnType<typeof createDomains>;

/** The records that show that a domain is ours to send from. */
const VERIFYING: ReadonlySet<DnsRecord["purpose"]> = new Set(["ownership", "dkim"]);

export function createDomains({ store, runtime, hostname, policy }: DomainsParts) {
  /** `keys` from makeDkimKeys. @throws AppError conflict when some workspace has the domain. */
  function addDomain(tx: Tx, workspaceId: string, text: string, keys: readonly DkimKey[]): DomainEntry {
    const name = domainOf(text);
    const holder = tx.select().from(schema.domains).where(eq(schema.domains.name, name)).get();
    if (holder) {
      throw new AppError(
        "conflict",
        `${name} is ${holder.workspaceId === workspaceId ? "here already" : "a domain of another workspace"}`,
      );
    }
    const createdAt = runtime.now();
    const domain = { id: newId(runtime, "dom"), workspaceId, name, verifiedAt: null, createdAt };
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
    return domain;
  }

  /** By name; of one workspace, or of all. */
  function listDomains(workspaceId?: string): DomainEntry[] {
    return store.db
      .select({
        id: schema.domains.id,
        workspaceId: schema.domains.workspaceId,
        name: schema.domains.name,
        verifiedAt: schema.domains.verifiedAt,
        createdAt: schema.domains.createdAt,
      })
      .from(schema.domains)
      .where(workspaceId === undefined ? undefined : eq(schema.domains.workspaceId, workspaceId))
      .orderBy(asc(schema.domains.name))
      .all();
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

  /** @throws AppError not_found */
  function domainNamed(text: string, workspaceId?: string): DomainEntry {
    const name = domainOf(text);
    const domain = listDomains(workspaceId).find((known) => known.name === name);
    if (!domain) throw new AppError("not_found", `there is no domain ${name}`);
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
      {
        type: "TXT",
        name: `_mailroom.${name}`,
        value: `mailroom-verify=${domain.ownershipToken}`,
        purpose: "ownership",
      },
      ...(policy?.recordsOf(name) ?? []),
    ];
  }

  /** The records, and whether the world sees them. Changes nothing. @throws AppError not_found */
  async function seeRecords(domainId: string): Promise<FoundRecord[]> {
    return lookUp(runtime.dns, recordsOf(domainId));
  }

  /**
   * Looks the records up. With those of ownership and DKIM the domain is verified: mail may come in elsewhere. Records
   * gone missing do not undo it.
   */
  async function verifyDomain(domainId: string): Promise<FoundRecord[]> {
    const records = await seeRecords(domainId);
    const isMissing = ({ purpose, state }: FoundRecord) => VERIFYING.has(purpose) && state !== "found";
    if (!records.some(isMissing)) store.transact((tx) => markVerified(tx, domainId));
    return records;
  }

  /** The operator's word for it. The first time counts: the warm-up starts on that day. */
  function markVerified(tx: Tx, domainId: string): void {
    tx.update(schema.domains)
      .set({ verifiedAt: runtime.now() })
      .where(and(eq(schema.domains.id, domainId), isNull(schema.domains.verifiedAt)))
      .run();
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
    markVerified,
    removeDomain,
  };
}
