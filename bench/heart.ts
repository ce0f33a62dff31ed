/**
 * The questions about the core speed of the engine. Each names its subjects, the figures that are
 * shown, and the targets, which are ratios wherever the result depends on the machine. README.md
 * explains each question.
 */
import {
  count,
  divide,
  type FigureShown,
  type Question,
  subtract,
  type Target,
} from "./question.ts";

/** The sizes of the questions; the targets hold for the full size only. */
export interface Sizes {
  readonly items: number;
  readonly singles: number;
  readonly memoryItems: readonly [number, number];
  readonly waitingChunks: readonly [number, number];
  readonly settledChunks: number;
  readonly smallBatches: number;
}

export const FULL_SIZES: Sizes = {
  items: 1_000_000,
  singles: 100_000,
  memoryItems: [100_000, 10_000_000],
  waitingChunks: [1_000, 1_000_000],
  settledChunks: 10_000,
  smallBatches: 200,
};

/** A size of seconds, to see that everything runs. */
export const QUICK_SIZES: Sizes = {
  items: 50_000,
  singles: 2_000,
  memoryItems: [10_000, 200_000],
  waitingChunks: [1_000, 20_000],
  settledChunks: 2_000,
  smallBatches: 20,
};

const SCRIPTS = {
  loop: new URL("./subjects/hand-written-loop.ts", import.meta.url),
  plainjob: new URL("./subjects/plainjob.ts", import.meta.url),
  sluice: new URL("./subjects/sluice.ts", import.meta.url),
  sluiceRun: new URL("./subjects/sluice-run.ts", import.meta.url),
  sluiceBacklog: new URL("./subjects/sluice-backlog.ts", import.meta.url),
  sluiceEnding: new URL("./subjects/sluice-ending.ts", import.meta.url),
};

const itemsPerSecond: FigureShown = { name: "itemsPerSecond", unit: "items/s" };
const peakRss: FigureShown = { name: "peakRssMb", unit: "MB peak RSS" };
const commandPeakRss: FigureShown = { name: "commandPeakRssMb", unit: "MB peak RSS" };

/** `pathOf` returns a JSONL file with that many items. */
export function listHeartQuestions(
  sizes: Sizes,
  pathOf: (items: number) => string,
): readonly Question[] {
  const itemsOf = (items: number) => ({ itemsPath: pathOf(items), items });
  return [
    askAboutLoop("a", itemsOf(sizes.items), 1_000, 0.5, 500_000),
    askAboutLoop("b", itemsOf(sizes.items), 100, 0.8, null),
    askAboutPlainjob(itemsOf(sizes.singles)),
    askAboutMemory(sizes.memoryItems.map(itemsOf)),
    askAboutBacklog(sizes),
    askAboutEnding(sizes),
  ];
}

interface ItemsGiven {
  readonly itemsPath: string;
  readonly items: number;
}

function askAboutLoop(
  key: string,
  given: ItemsGiven,
  chunkSize: number,
  ratioMin: number,
  itemsPerSecondMin: number | null,
): Question {
  const sluice = "Sluice";
  const loop = "hand-written loop";
  const options = { ...given, chunkSize };
  const targets: Target[] = [
    {
      what: "Sluice / hand-written loop",
      compute: (median) => divide(median(sluice, "itemsPerSecond"), median(loop, "itemsPerSecond")),
      bound: { kind: "at least", limit: ratioMin },
      unit: "x",
    },
  ];
  if (itemsPerSecondMin !== null) {
    targets.push({
      what: "Sluice",
      compute: (median) => median(sluice, "itemsPerSecond"),
      bound: { kind: "at least", limit: itemsPerSecondMin },
      unit: "items/s",
    });
  }
  return {
    key,
    title: `${count(given.items)} items, chunk ${count(chunkSize)}, FULL`,
    subjects: [
      { name: loop, script: SCRIPTS.loop, options },
      { name: sluice, script: SCRIPTS.sluice, options },
    ],
    shown: [itemsPerSecond, peakRss],
    targets,
  };
}

function askAboutPlainjob(given: ItemsGiven): Question {
  const sluice = "Sluice, FULL";
  const plainjobFull = "plainjob, FULL";
  const plainjobDefault = "plainjob, its default (NORMAL)";
  const ratioTo = (peer: string, bound: Target["bound"]): Target => ({
    what: `${sluice} / ${peer}`,
    compute: (median) => divide(median(sluice, "itemsPerSecond"), median(peer, "itemsPerSecond")),
    bound,
    unit: "x",
  });
  return {
    key: "c",
    title: `one item per chunk, ${count(given.items)} chunks`,
    subjects: [
      {
        name: plainjobFull,
        script: SCRIPTS.plainjob,
        options: { ...given, synchronous: "FULL" },
      },
      {
        name: plainjobDefault,
        script: SCRIPTS.plainjob,
        options: { ...given, synchronous: "default" },
      },
      { name: sluice, script: SCRIPTS.sluice, options: { ...given, chunkSize: 1 } },
    ],
    shown: [itemsPerSecond, peakRss],
    targets: [
      ratioTo(plainjobFull, { kind: "at least", limit: 3 }),
      ratioTo(plainjobDefault, null),
    ],
  };
}

function askAboutMemory(sets: readonly ItemsGiven[]): Question {
  const nameOf = (given: ItemsGiven) => `sluice run, ${count(given.items)} items`;
  const names = sets.map(nameOf);
  const [small = "", large = ""] = names;
  return {
    key: "d",
    title: "peak memory by number of items, chunk 1,000",
    subjects: sets.map((given) => ({
      name: nameOf(given),
      script: SCRIPTS.sluiceRun,
      options: { ...given, chunkSize: 1_000 },
    })),
    shown: [commandPeakRss, itemsPerSecond],
    targets: [
      {
        what: "growth from the smaller to the larger batch",
        compute: (median) =>
          subtract(median(large, "commandPeakRssMb"), median(small, "commandPeakRssMb")),
        bound: { kind: "below", limit: 20 },
        unit: "MB",
      },
      ...names.map(
        (name): Target => ({
          what: name,
          compute: (median) => median(name, "commandPeakRssMb"),
          bound: { kind: "below", limit: 200 },
          unit: "MB",
        }),
      ),
    ],
  };
}

function askAboutBacklog(sizes: Sizes): Question {
  const nameOf = (waiting: number, perCommit: number) =>
    `${count(waiting)} waiting, ${perCommit} per commit`;
  const [few, many] = sizes.waitingChunks;
  // With one chunk at a time the disk hides most of the cost of a slow lease; with 64 it does not.
  const perCommitSizes = [1, 64];
  return {
    key: "e",
    title: "lease-and-settle speed by number of waiting chunks",
    subjects: perCommitSizes.flatMap((perCommit) =>
      [few, many].map((waiting) => ({
        name: nameOf(waiting, perCommit),
        script: SCRIPTS.sluiceBacklog,
        // More items for the quicker subject, so that both take about as long.
        options: { waiting, perCommit, settled: sizes.settledChunks * (perCommit === 1 ? 1 : 8) },
      })),
    ),
    shown: [{ name: "chunksPerSecond", unit: "chunks/s" }],
    targets: perCommitSizes.map((perCommit) => ({
      what: `${count(many)} / ${count(few)} waiting, ${perCommit} per commit`,
      compute: (median) =>
        divide(
          median(nameOf(many, perCommit), "chunksPerSecond"),
          median(nameOf(few, perCommit), "chunksPerSecond"),
        ),
      bound: { kind: "at least", limit: 0.9 },
      unit: "x",
    })),
  };
}

function askAboutEnding(sizes: Sizes): Question {
  const sluice = "Sluice";
  return {
    key: "f",
    title: `from the last handler's return to batch.ended, ${count(sizes.smallBatches)} small batches`,
    subjects: [
      {
        name: sluice,
        script: SCRIPTS.sluiceEnding,
        options: { batches: sizes.smallBatches, items: 100, chunkSize: 10 },
      },
    ],
    shown: [
      { name: "p50Ms", unit: "ms p50" },
      { name: "p99Ms", unit: "ms p99" },
    ],
    targets: [
      {
        what: "p99",
        compute: (median) => median(sluice, "p99Ms"),
        bound: { kind: "below", limit: 20 },
        unit: "ms",
      },
    ],
  };
}
