/**
 * How the index is set up. Any change here, of documents.ts or of fold.ts that matters to what is found raises the version,
 * and the index is made anew.
 *
 * Words come folded and cut (documents.ts), so the server's own language rules are switched off: one language for all, no
 * stop words, no prefixes. What remains of them is typos, and words written together or apart.
 */
import type { IndexSettings } from "./client.ts";
import { PLAIN_FIELDS } from "./documents.ts";

export const SETTINGS_VERSION = 2;

/** Far above any number of messages: an answer is never cut. */
const ALL = 1_000_000_000;

const filterable = (attributePatterns: string[], comparison: boolean) => ({
  attributePatterns,
  features: { facetSearch: false, filter: { equality: !comparison, comparison } },
});

export const INDEX_SETTINGS: IndexSettings = {
  searchableAttributes: [...PLAIN_FIELDS, "marked"],
  filterableAttributes: [
    filterable(["id", "thread", "workspace", "mailbox", "attachment"], false),
    filterable(["date"], true),
  ],
  // Nothing of the mail itself is ever given out.
  displayedAttributes: ["id", "mark"],
  sortableAttributes: [],
  // Of relevance alone; what is asked for newest first is a set, which the mailbox puts in order. A word in the subject is
  // worth more than any number of them in the text; of what is equal, the newest is among those that are told.
  rankingRules: ["words", "typo", "attribute", "exactness", "date:desc"],
  typoTolerance: { enabled: true, disableOnNumbers: true, disableOnAttributes: ["marked"] },
  localizedAttributes: [{ attributePatterns: ["*"], locales: ["eng"] }],
  stopWords: [],
  prefixSearch: "disabled",
  facetSearch: false,
  // Phrases are settled elsewhere (engine.ts); distances of words would be most of the index.
  proximityPrecision: "byAttribute",
  pagination: { maxTotalHits: ALL },
  faceting: { maxValuesPerFacet: ALL },
};
