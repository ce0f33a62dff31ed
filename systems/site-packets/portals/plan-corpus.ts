/**
 * The documents that the sites of a corpus offer, as a pure function of a seed. Planning is cheap,
 * so a test, the portals and the demo each plan for themselves and agree.
 */
import {
  DOCUMENT_KINDS,
  DOCUMENT_TYPES,
  type DocumentKind,
  EXPECTED,
  type PlannedDocument,
} from "./planned-document.ts";
import { ChanceSequence, computeSeed, shuffle } from "./seeded-chance.ts";

export interface CorpusOptions {
  readonly seed: number;
  readonly sites: number;
  readonly documents: number;
}

/** More than needed in one plan, which is an array in memory. */
const DOCUMENTS_MAX = 1_000_000;

const SCHEMA_VERSIONS = ["v2.0", "v2.1", "v2.2", "v2.3"] as const;
const OLD_SCHEMA_VERSION = "v1.4";
const UNKNOWN_TYPES = ["invoice", "newsletter", "seating-plan"] as const;

/** Of 500 documents; the rest is `text`. Every kind is there once if there is room for all. */
const OF_500: Readonly<Record<Exclude<DocumentKind, "text" | "bomb">, number>> = {
  scan: 12,
  "same-again": 15,
  "same-under-other-id": 15,
  encrypted: 3,
  truncated: 4,
  empty: 3,
  "wrong-type": 5,
  "old-schema": 4,
  "wrong-checksum": 4,
  "too-large": 2,
  "unknown-type": 3,
  "never-found": 1,
  "never-answers": 1,
  "never-whole": 1,
};

/** Every n-th text document is a long one, and the first of a large corpus are very long. */
const LONG_EVERY = 40;
const VERY_LONG_DOCUMENTS = 2;
const VERY_LONG_PAGES = 200;
/** A smaller corpus is for a quick test, and 400 pages would take too long there. */
const VERY_LONG_FROM_DOCUMENTS = 100;

const PAGES: Readonly<Record<DocumentKind, readonly [least: number, most: number]>> = {
  text: [1, 6],
  scan: [1, 2],
  "same-again": [0, 0],
  "same-under-other-id": [0, 0],
  encrypted: [1, 3],
  truncated: [2, 6],
  empty: [0, 0],
  "wrong-type": [0, 0],
  bomb: [1, 1],
  "old-schema": [1, 4],
  "wrong-checksum": [1, 4],
  "too-large": [0, 0],
  "unknown-type": [1, 3],
  "never-found": [1, 3],
  "never-answers": [1, 3],
  "never-whole": [1, 3],
};
const LONG_PAGES = [20, 60] as const;

export function planCorpus(options: CorpusOptions): PlannedDocument[] {
  checkOptions(options);
  const kinds = planKinds(options);
  const sites = planSites(options);
  const texts = planTexts(kinds);
  const plan: PlannedDocument[] = [];
  for (const [index, kind] of kinds.entries()) {
    const site = sites[index] as string;
    plan.push(planDocument({ seed: options.seed, index, kind, site, plan, texts }));
  }
  return plan;
}

function checkOptions({ sites, documents }: CorpusOptions): void {
  if (!Number.isInteger(sites) || sites < 1) {
    throw new RangeError(`a corpus has at least one site, not ${sites}`);
  }
  if (!Number.isInteger(documents) || documents < 1 || documents > DOCUMENTS_MAX) {
    throw new RangeError(`a corpus has 1 to ${DOCUMENTS_MAX} documents, not ${documents}`);
  }
}

/** The kind of each entry. The first is a text, so that there is something to repeat. */
function planKinds({ seed, documents }: CorpusOptions): DocumentKind[] {
  const others: DocumentKind[] = DOCUMENT_KINDS.flatMap((kind) => {
    if (kind === "text") return [];
    const count = kind === "bomb" ? 1 : Math.max(1, Math.round((OF_500[kind] * documents) / 500));
    return Array.from({ length: count }, () => kind);
  });
  const room = documents - 1;
  // Not enough entries for all kinds: one of each, in the order of the list.
  const fitting = others.length <= room ? others : [...new Set(others)].slice(0, room);
  const texts = Array.from({ length: room - fitting.length }, () => "text" as const);
  const rest = shuffle([...fitting, ...texts], new ChanceSequence(seed, "kinds"));
  return ["text", ...rest];
}

/** The site of each entry: in each round every site has one, in a random order. */
function planSites({ seed, sites, documents }: CorpusOptions): string[] {
  const names = listSites(sites);
  const planned: string[] = [];
  for (let round = 0; planned.length < documents; round++) {
    planned.push(...shuffle(names, new ChanceSequence(seed, "sites", round)));
  }
  return planned.slice(0, documents);
}

/** All sites of a corpus, even one without a document. */
export function listSites(sites: number): string[] {
  return Array.from({ length: sites }, (_, index) => `site-${String(index + 1).padStart(2, "0")}`);
}

/** For the entries that are texts: the number among the texts, and their total. */
interface Texts {
  readonly numberOf: ReadonlyMap<number, number>;
  readonly documents: number;
}

function planTexts(kinds: readonly DocumentKind[]): Texts {
  const indexes = [...kinds.keys()].filter((index) => kinds[index] === "text");
  return {
    numberOf: new Map(indexes.map((index, number) => [index, number])),
    documents: kinds.length,
  };
}

interface Entry {
  readonly seed: number;
  readonly index: number;
  readonly kind: DocumentKind;
  readonly site: string;
  /** The entries before it. */
  readonly plan: readonly PlannedDocument[];
  readonly texts: Texts;
}

function planDocument(entry: Entry): PlannedDocument {
  const { seed, index, kind, site } = entry;
  const chance = new ChanceSequence(seed, "document", index);
  const schemaVersion = chance.pickOne(SCHEMA_VERSIONS);
  const type = chance.pickOne(DOCUMENT_TYPES);
  const path = `/documents/${index}.pdf`;
  const expected = EXPECTED[kind];
  if (kind === "same-again" || kind === "same-under-other-id") {
    const { copyOf, original } = pickOriginal(entry.plan, chance);
    const own =
      kind === "same-again"
        ? { site: original.site, document: original.document }
        : { site, document: `${original.type}-${index}`, schemaVersion };
    return { ...original, ...own, path, kind, copyOf, expected };
  }
  const [least, most] = PAGES[kind];
  const plannedType = kind === "unknown-type" ? chance.pickOne(UNKNOWN_TYPES) : type;
  return {
    site,
    document: `${plannedType}-${index}`,
    type: plannedType,
    schemaVersion: kind === "old-schema" ? OLD_SCHEMA_VERSION : schemaVersion,
    path,
    kind,
    pages: kind === "text" ? planPages(entry, chance) : chance.pickNumber(least, most),
    copyOf: null,
    contentSeed: computeSeed(seed, "content", index),
    expected,
  };
}

/** Most have a few pages, several are long, and of a large corpus two are very long. */
function planPages({ index, texts }: Entry, chance: ChanceSequence): number {
  const number = texts.numberOf.get(index) ?? 0;
  const few = chance.pickNumber(...(PAGES.text as [number, number]));
  // Number 0 may be the only text of a small corpus.
  if (texts.documents >= VERY_LONG_FROM_DOCUMENTS && number >= 1 && number <= VERY_LONG_DOCUMENTS) {
    return VERY_LONG_PAGES;
  }
  return number % LONG_EVERY === LONG_EVERY / 4 ? chance.pickNumber(...LONG_PAGES) : few;
}

/**
 * An earlier text of a few pages: repeating 200 of them would be much work for nothing new. The
 * search goes from a random place back to the first such text; the first entry of a corpus always
 * is one.
 */
function pickOriginal(
  plan: readonly PlannedDocument[],
  chance: ChanceSequence,
): { readonly copyOf: number; readonly original: PlannedDocument } {
  for (let copyOf = chance.pickNumber(0, plan.length - 1); copyOf >= 0; copyOf--) {
    const original = plan[copyOf];
    if (original?.kind === "text" && original.pages <= PAGES.text[1]) return { copyOf, original };
  }
  throw new Error("the first entry of a corpus is not a text of few pages");
}
