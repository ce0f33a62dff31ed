/**
 * The order in which a hunt tries seeds. What an hour consists of is drawn before it is played, so
 * hours that use the part with the bug come first, and of each hundred seeds the quick ones. It is
 * only an order: a hunt that finds nothing tries all seeds.
 */
import { drawHour, type Hour } from "../traffic/draw-hour.ts";
import { hasLimits } from "../traffic/draw-limits.ts";
import { CROWDED_LANES } from "../traffic/draw-sharing.ts";
import { type Bug, listEdits, pickWorld } from "./bug.ts";
import { listHints } from "./known-seeds.ts";

interface HourFacts {
  /** Parts of the engine that this hour uses, and not every other hour does. */
  readonly parts: ReadonlySet<PartName>;
  readonly isQuick: boolean;
}

/** By file of the part: the hours that use it. */
const PARTS = {
  limits: {
    file: /\/(bucket|pace|quiet-hours|limiter|step-limits|waiting-items|token-[a-z]+)\.ts$/u,
    isUsed: ({ pipelines }: Hour) => pipelines.some(({ steps }) => steps.some(hasLimits)),
  },
  caps: {
    file: /\/(caps|permit-wait|slot-permits|concurrency-permits)\.ts$/u,
    isUsed: ({ pipelines }: Hour) =>
      pipelines.some(({ sharing }) => Object.keys(sharing?.caps ?? {}).length > 0),
  },
  shares: {
    file: /\/fair-shares?\.ts$/u,
    // Tenants share only where capacity is short.
    isUsed: ({ errands }: Hour) => errands.some(({ lane }) => lane in CROWDED_LANES),
  },
  ledger: {
    file: /\/ledger\//u,
    isUsed: ({ pipelines }: Hour) => pipelines.some(({ ledger }) => ledger === true),
  },
  delivery: {
    file: /\/delivering\//u,
    isUsed: ({ readers }: Hour) => readers.length > 0,
  },
} as const satisfies Record<string, { file: RegExp; isUsed: (hour: Hour) => boolean }>;
type PartName = keyof typeof PARTS;
const PART_NAMES = Object.keys(PARTS) as PartName[];

/** Hours with more items take five times as long: 1.3 s, not 0.3 s. */
const QUICK_ITEMS_MAX = 300;
const SEEDS_PER_BLOCK = 100;

/** The known seeds, other luck in their hours, and then each seed up to the last one, once. */
export function* listSeeds(
  bug: Bug,
  known: readonly number[],
  seedsMax: number,
): Generator<number> {
  // A seed of transactions that meet on a server draws no hour.
  const isHour = pickWorld(bug) !== "postgres";
  const hints = new Set(isHour ? listHints(known) : known);
  yield* hints;
  const seeds = isHour ? orderSeeds(bug, seedsMax) : listAll(seedsMax);
  for (const seed of seeds) if (!hints.has(seed)) yield seed;
}

function listAll(seedsMax: number): readonly number[] {
  return Array.from({ length: seedsMax }, (_, at) => at + 1);
}

function orderSeeds(bug: Bug, seedsMax: number): readonly number[] {
  const files = listEdits(bug).map(({ file }) => file);
  const needed = PART_NAMES.filter((name) => files.some((file) => PARTS[name].file.test(file)));
  const ranked = listAll(seedsMax).map((seed) => {
    const { parts, isQuick } = readFacts(seed);
    const isSuited = needed.every((name) => parts.has(name));
    const block = Math.floor((seed - 1) / SEEDS_PER_BLOCK);
    return { seed, rank: [isSuited ? 0 : 1, block, isQuick ? 0 : 1] as const };
  });
  return ranked
    .toSorted(({ rank: a }, { rank: b }) => a[0] - b[0] || a[1] - b[1] || a[2] - b[2])
    .map(({ seed }) => seed);
}

const facts: HourFacts[] = [];

function readFacts(seed: number): HourFacts {
  facts[seed] ??= takeFacts(drawHour(seed));
  return facts[seed];
}

function takeFacts(hour: Hour): HourFacts {
  const items = hour.errands.reduce((sum, { contents }) => sum + contents.length, 0);
  return {
    parts: new Set(PART_NAMES.filter((name) => PARTS[name].isUsed(hour))),
    isQuick: items <= QUICK_ITEMS_MAX,
  };
}
