/**
 * Domains: adds them with their DKIM keys, lists the DNS records that they need, and looks those up. A domain is
 * verified once its records were found, or when the operator says so, and stays verified.
 *
 * Any workspace may claim a domain that none has verified. Invariant: the domain belongs to the first workspace whose
 * own records were found. From then on the other claims take and send no mail, and their owners are told. Their
 * mailboxes stay readable.
 */
import { generateKeyPair, type KeyObject } from "node:crypto";
import { promisify } from "node:util";
import { and, asc, eq, isNotNull, isNull, ne } from "drizzle-orm";
import { alias } from "drizzle-orm/sqlite-core";
import { POLICY_PATH, stsPolicyHost } from "../authentication/mta-sts.ts";
import { AppError } from "../base/errors.ts";
import { awaitAtMost } from "../base/pause.ts";
import { newId, randomToken } from "../base/runtime.ts";
import { type Job, workOnEach } from "../base/scheduler.ts";
import { toIsoTime } from "../base/time.ts";
import { isDomainVerifiedElsewhere } from "../mailbox/state/addresses.ts";
import { unparkWorkspaceQueue } from "../outbound/queue.ts";
import type { Core } from "../store/core.ts";
import * as schema from "../store/schema.ts";
import { perDatabase } from "../store/statement.ts";
import type { Tx } from "../store/store.ts";
import { isWorkspaceServed } from "../store/unserved-workspaces.ts";
import { type DnsRecord, type FoundRecord, lookUpDnsRecords, lookUpDnsValues } from "./dns.ts";
import { listMailAppRecords, listMailAppSettingsHosts } from "./mail-apps.ts";
import { listMtaStsRecords, stsPolicyText } from "./publish-mta-sts.ts";
import { readTypedDomain } from "./typed-names.ts";

export interface DomainEntry {
  id: string;
  workspaceId: string;
  /** A-labels. */
  name: string;
  /** Epoch ms; null until verified. */
  verifiedAt: number | null;
  /** `lost`: another workspace has verified it. */
  state: "verified" | "unverified" | "lost";
  /** True also for unverified domains from before verification was required. */
  takesMail: boolean;
  createdAt: number;
}

/** A new key pair for DKIM, not yet assigned to a domain. */
export type DkimKey = Pick<typeof schema.dkimKeys.$inferInsert, "algorithm" | "privateKey" | "publicKey">;

type Claim = Pick<typeof schema.domains.$inferSelect, "name" | "ownershipToken">;
type PublishedKey = Pick<typeof schema.dkimKeys.$inferSelect, "selector" | "algorithm" | "publicKey">;

const makeKeyPair = promisify(generateKeyPair);
const pem = (key: KeyObject): string => key.export({ type: "pkcs8", format: "pem" }).toString();
const spki = (key: KeyObject): Buffer => key.export({ type: "spki", format: "der" });

/**
 * Makes one RSA key, which every verifier supports (RFC 8301 §3.2: 2048 bits), and one Ed25519 key (RFC 8463). Takes
 * some tenths of a second, so callers do it before the transaction.
 */
export async function makeDkimKeys(): Promise<DkimKey[]> {
  const [rsa, ed25519] = await Promise.all([makeKeyPair("rsa", { modulusLength: 2048 }), makeKeyPair("ed25519", {})]);
  return [
    { algorithm: "rsa", privateKey: pem(rsa.privateKey), publicKey: spki(rsa.publicKey).toString("base64") },
    {
      algorithm: "ed25519",
      privateKey: pem(ed25519.privateKey),
      // RFC 8463 §4.2: the bare key, which is the last 32 bytes of the SubjectPublicKeyInfo.
      publicKey: spki(ed25519.publicKey).subarray(-32).toString("base64"),
    },
  ];
}

const ownershipRecord = (domain: string, token: string): DnsRecord => ({
  type: "TXT",
  name: `_mailroom.${domain}`,
  value: `mailroom-verify=${token}`,
  purpose: "ownership",
});

/** Purposes of the records that prove that the claimant owns a domain. */
const VERIFYING: ReadonlySet<DnsRecord["purpose"]> = new Set(["ownership", "dkim"]);

/** Tells whether the records that were found prove that the claimant owns the domain. */
export const isDomainOwnershipProven = (records: readonly FoundRecord[]): boolean =>
  records.every(({ purpose, state }) => !VERIFYING.has(purpose) || state === "found");

/**
 * Mail from strangers triggers at most one lookup of a domain's records per LOOK_EVERY_MS, of at most LONGEST_LOOK_MS.
 */
const LOOK_EVERY_MS = 5 * 60_000;
const LONGEST_LOOK_MS = 15_000;
/** Most claims with a published token that one lookup checks. A zone normally publishes one token. */
const MOST_PUBLISHED = 3;

/** For each database, the last lookup that mail from strangers triggered, by domain name. `at`: epoch ms. */
const getRecentLookups = perDatabase(() => new Map<string, { at: number; look: Promise<void> }>());

/**
 * @throws AppError conflict when another workspace has verified the domain; the error does not name that workspace
 */
function refuseOthers(tx: Tx, workspaceId: string, name: string): void {
  if (!isDomainVerifiedElsewhere(tx, workspaceId, name)) return;
  throw new AppError("conflict", `${name} was verified by another workspace of this server`);
}

/**
 * Adds a domain. `keys`: from makeDkimKeys.
 * @throws AppError conflict when the workspace has it or another verified it
 */
export function addDomain(
  { runtime }: Core,
  tx: Tx,
  workspaceId: string,
  text: string,
  keys: readonly DkimKey[],
): DomainEntry {
  const name = readTypedDomain(text);
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
  // The selector contains the date, so that a later key gets a different one.
  const date = toIsoTime(createdAt).slice(0, 10).replaceAll("-", "");
  for (const key of keys) {
    tx.insert(schema.dkimKeys)
      .values({ ...key, domainId: domain.id, selector: `${key.algorithm}-${date}`, createdAt })
      .run();
  }
  return { ...domain, verifiedAt: null, state: "unverified", takesMail: false };
}

/** Lists the domains of one workspace, or of all, by name; of claims to the same name, the verified one first. */
export function listDomains({ store }: Core, workspaceId?: string): DomainEntry[] {
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

const hosted = (core: Core): DomainEntry[] =>
  listDomains(core).filter(
    ({ verifiedAt, workspaceId }) => verifiedAt !== null && isWorkspaceServed(core.store.db, workspaceId),
  );

/** Lists verified domains with the hosts that they may have here: of their MTA-STS policy (RFC 8461 §3.2), and of settings. */
export function listDomainWebHosts(core: Core): { name: string; owner: string; hosts: string[] }[] {
  return hosted(core).map(({ name, workspaceId }) => ({
    name,
    owner: workspaceId,
    hosts: [stsPolicyHost(name), ...listMailAppSettingsHosts(core, name)],
  }));
}

/** Tells whether this server has verified the domain (A-labels, lower case) and serves it. */
export function isHostedDomain({ store }: Core, name: string): boolean {
  const verified = and(eq(schema.domains.name, name), isNotNull(schema.domains.verifiedAt));
  const domain = store.db.select().from(schema.domains).where(verified).get();
  return domain !== undefined && isWorkspaceServed(store.db, domain.workspaceId);
}

/**
 * Returns what a policy host serves at a path: the policy, or null for any other path. Undefined when the host (in
 * lower case) is not a policy host.
 */
export function findMtaStsPolicyAt(core: Core, host: string, path: string): string | null | undefined {
  if (!hosted(core).some(({ name }) => stsPolicyHost(name) === host)) return undefined;
  return path === POLICY_PATH ? stsPolicyText(core) : null;
}

/**
 * Finds a domain of one workspace, or of all.
 * @throws AppError not_found; conflict when several workspaces claim it and none has verified it
 */
export function getDomainByName(core: Core, text: string, workspaceId?: string): DomainEntry {
  const name = readTypedDomain(text);
  const [domain, other] = listDomains(core, workspaceId).filter((known) => known.name === name);
  if (!domain) throw new AppError("not_found", `there is no domain ${name}`);
  if (other && domain.state !== "verified") {
    throw new AppError("conflict", `several workspaces claim ${name}: name the workspace`);
  }
  return domain;
}

/** Finds a domain of a workspace by its id. @throws AppError not_found */
export function getDomainById(core: Core, workspaceId: string, id: string): DomainEntry {
  const domain = listDomains(core, workspaceId).find((known) => known.id === id);
  if (!domain) throw new AppError("not_found", "there is no such domain");
  return domain;
}

/**
 * Lists the records that the domain's zone needs so that mail arrives here, and receivers accept mail from here.
 * @throws AppError not_found
 */
export function listDomainRecords(core: Core, domainId: string): DnsRecord[] {
  const domain = core.store.db.select().from(schema.domains).where(eq(schema.domains.id, domainId)).get();
  if (!domain) throw new AppError("not_found", "there is no such domain");
  return recordsFor(
    core,
    domain,
    core.store.db.select().from(schema.dkimKeys).where(eq(schema.dkimKeys.domainId, domainId)).all(),
  );
}

function recordsFor(core: Core, { name, ownershipToken }: Claim, keys: readonly PublishedKey[]): DnsRecord[] {
  return [
    { type: "MX", name, value: `10 ${core.site.hostname.toLowerCase()}`, purpose: "mx" },
    // The host that takes mail also sends it; the domain's owner adds any other senders.
    { type: "TXT", name, value: "v=spf1 mx ~all", purpose: "spf" },
    ...keys
      .toSorted((a, b) => b.algorithm.localeCompare(a.algorithm))
      .map(({ selector, algorithm, publicKey }) => ({
        type: "TXT" as const,
        name: `${selector}._domainkey.${name}`,
        value: `v=DKIM1; k=${algorithm}; p=${publicKey}`,
        purpose: "dkim" as const,
      })),
    { type: "TXT", name: `_dmarc.${name}`, value: "v=DMARC1; p=quarantine", purpose: "dmarc" },
    ownershipRecord(name, ownershipToken),
    ...listMtaStsRecords(core, name),
    ...listMailAppRecords(core, name),
  ];
}

/** Looks the domain's records up. Changes nothing. @throws AppError not_found */
export async function lookUpDomainRecords(core: Core, domainId: string): Promise<FoundRecord[]> {
  return lookUpDnsRecords(core.runtime.dns, listDomainRecords(core, domainId));
}

/** Tells whether the records prove a claim that is not here yet. Takes LONGEST_LOOK_MS at most; never rejects. */
export async function isDomainClaimProven(core: Core, claim: Claim, keys: readonly PublishedKey[]): Promise<boolean> {
  const { runtime, log } = core;
  let isTheirs = false;
  const proving = recordsFor(core, claim, keys).filter(({ purpose }) => VERIFYING.has(purpose));
  const looking = lookUpDnsRecords(runtime.dns, proving).then(
    (found) => {
      isTheirs = isDomainOwnershipProven(found);
    },
    (error) => log.debug("domain of an import not verified", { domain: claim.name, error }),
  );
  await awaitAtMost(runtime, LONGEST_LOOK_MS, looking);
  return isTheirs;
}

/**
 * Looks the records up, and verifies the domain if those of ownership and DKIM are found. The MX record may point
 * elsewhere. The domain stays verified when records go missing later. @throws AppError as markDomainVerified
 */
export async function verifyDomain(core: Core, domainId: string): Promise<FoundRecord[]> {
  const records = await lookUpDomainRecords(core, domainId);
  if (isDomainOwnershipProven(records)) core.store.transact((tx) => markDomainVerified(core, tx, domainId));
  return records;
}

/**
 * Marks a domain as verified without a lookup. Only the first time counts: the warm-up starts on that day. The claims
 * of other workspaces are lost.
 * @throws AppError not_found; conflict when another workspace has verified it
 */
export function markDomainVerified({ runtime }: Core, tx: Tx, domainId: string): void {
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
  // What came with its workspace from another server has waited for this.
  if (isWorkspaceServed(tx, domain.workspaceId)) unparkWorkspaceQueue(tx, domain.workspaceId, domain.name);
}

/**
 * Called when mail arrives for a domain (A-labels) that is claimed but not verified: verifies it for the workspace
 * whose records are published. Asks DNS at most once per LOOK_EVERY_MS and shares the result until then. Never
 * rejects.
 */
export function verifyDomainOnArrival(core: Core, name: string): Promise<void> {
  const { runtime, store } = core;
  const now = runtime.now();
  // The absolute difference lets entries expire even after the clock was set back.
  const looks = getRecentLookups(store.db);
  for (const [known, { at }] of looks) if (Math.abs(now - at) >= LOOK_EVERY_MS) looks.delete(known);
  const looking = looks.get(name)?.look ?? awaitAtMost(runtime, LONGEST_LOOK_MS, findOwner(core, name));
  if (!looks.has(name)) looks.set(name, { at: now, look: looking });
  return looking;
}

/** Asks the zone once for its token, no matter how many workspaces claim the domain. */
async function findOwner(core: Core, name: string): Promise<void> {
  const { runtime, store, log } = core;
  try {
    const texts = new Set(await lookUpDnsValues(runtime.dns, ownershipRecord(name, "")));
    const claims = store.db.select().from(schema.domains).where(eq(schema.domains.name, name)).all();
    const published = claims.filter(({ ownershipToken }) => texts.has(ownershipRecord(name, ownershipToken).value));
    for (const { id } of published.slice(0, MOST_PUBLISHED)) {
      await verifyDomain(core, id);
      if (listDomains(core).some((domain) => domain.id === id && domain.state === "verified")) {
        return log.info("domain verified: mail came for it, and its records are there", { domain: name });
      }
    }
  } catch (error) {
    log.debug("domain not verified on arrival", { domain: name, error });
  }
}

/** Removes a domain. @throws AppError conflict while addresses use it */
export function removeDomain(tx: Tx, domainId: string): void {
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

/*
 * Notices of lost claims tell the owners and admins of a workspace once that another workspace verified its domain. The
 * transaction of the loss marks the notice as due, and the transaction that files the notice clears the mark, so a
 * crash in between neither loses nor repeats it.
 */

/** Time between two looks: a command may verify a domain while the server runs. */
const LOOK_MS = 60_000;
/** Most addresses that the message names. */
const MOST_NAMED = 20;

/** Job: tells the admins of a workspace that another one has verified a domain of theirs. `notifyAdmins`: `record` runs in the transaction of the notice, and may run twice. */
export function tellDomainLosses(
  { db, now, site: { hostname } }: Core,
  notifyAdmins: (
    notice: { workspaceId: string; subject: string; text: string },
    record: (tx: Tx) => void,
  ) => Promise<void>,
): Job {
  const addressesAt = (domainId: string): string[] =>
    db
      .select({ address: schema.addresses.address })
      .from(schema.addresses)
      .where(eq(schema.addresses.domainId, domainId))
      .orderBy(asc(schema.addresses.address))
      .limit(MOST_NAMED + 1)
      .all()
      .map(({ address }) => address);

  return {
    name: "domain-notices",
    async runDue(): Promise<number> {
      const lost = db.select().from(schema.domains).where(isNotNull(schema.domains.lostAt)).all();
      await workOnEach(lost, ({ id, workspaceId, name, lostAt }) => {
        const subject = `${name} was verified by another workspace`;
        const text = writeLostDomainNotice({ name, lostAt: lostAt ?? 0, addresses: addressesAt(id), hostname });
        const told = and(eq(schema.domains.id, id), isNotNull(schema.domains.lostAt));
        return notifyAdmins({ workspaceId, subject, text }, (tx) => {
          tx.update(schema.domains).set({ lostAt: null }).where(told).run();
        });
      });
      return now() + LOOK_MS;
    },
  };
}

/** Each paragraph is one line: the reader's mail program wraps it. */
const writeLostDomainNotice = ({
  name,
  lostAt,
  addresses,
  hostname,
}: {
  name: string;
  lostAt: number;
  addresses: readonly string[];
  hostname: string;
}): string =>
  [
    `On ${new Date(lostAt).toUTCString()} another workspace of this server showed by DNS records, or by the word of whoever runs the server, that ${name} is its domain. Your workspace had added it too and never verified it.`,
    addresses.length === 0
      ? "No mailbox or alias of yours uses it."
      : `From then on no mail comes to your mailboxes for ${listed(addresses)}, and none can be sent from there. The mail that is in them stays, and can be read and exported.`,
    "People who sign in with an address of that domain still can.",
    `If the domain is yours, write to whoever runs ${hostname}.`,
  ].join("\n\n");

const listed = (addresses: readonly string[]): string =>
  addresses.length > MOST_NAMED ? `${addresses.slice(0, MOST_NAMED).join(", ")} and others` : addresses.join(", ");
