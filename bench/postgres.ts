/**
 * The questions about the store for many machines: a batch on PostgreSQL compared with the same
 * batch on job queues on the same server, and how the store behaves with a larger backlog, more
 * workers or more batches. README.md explains each question.
 */
import type { Subject } from "./measure.ts";
import { count, divide, type FigureShown, type Question, type Target } from "./question.ts";

export interface PostgresSizes {
  readonly items: number;
  /** For peers with one job per item, and for those that are very slow at it. */
  readonly peerItems: number;
  readonly slowPeerItems: number;
  readonly singles: number;
  readonly waitingChunks: readonly [number, number];
  readonly settledChunks: number;
  readonly waitingItems: number;
  readonly batchItems: number;
  readonly idleSeconds: number;
  readonly rawChunks: number;
  readonly transactions: number;
}

export const FULL_POSTGRES_SIZES: PostgresSizes = {
  items: 1_000_000,
  peerItems: 100_000,
  slowPeerItems: 20_000,
  singles: 100_000,
  waitingChunks: [1_000, 1_000_000],
  settledChunks: 5_000,
  waitingItems: 20_000,
  batchItems: 320_000,
  idleSeconds: 20,
  rawChunks: 10_000,
  transactions: 5_000,
};

/** To see that everything runs. */
export const QUICK_POSTGRES_SIZES: PostgresSizes = {
  items: 50_000,
  peerItems: 5_000,
  slowPeerItems: 1_000,
  singles: 2_000,
  waitingChunks: [1_000, 20_000],
  settledChunks: 500,
  waitingItems: 2_000,
  batchItems: 32_000,
  idleSeconds: 5,
  rawChunks: 500,
  transactions: 200,
};

const SCRIPTS = {
  sluice: new URL("./subjects/postgres/sluice.ts", import.meta.url),
  idle: new URL("./subjects/postgres/sluice-idle.ts", import.meta.url),
  backlog: new URL("./subjects/sluice-backlog.ts", import.meta.url),
  pgBoss: new URL("./subjects/postgres/pg-boss.ts", import.meta.url),
  graphile: new URL("./subjects/postgres/graphile-worker.ts", import.meta.url),
  bullmq: new URL("./subjects/postgres/bullmq.ts", import.meta.url),
  loop: new URL("./subjects/postgres/hand-written-loop.ts", import.meta.url),
  drivers: new URL("./subjects/postgres/drivers.ts", import.meta.url),
};

interface Peer {
  readonly name: string;
  readonly script: URL;
  /** One job per item is so slow that the question has fewer items. */
  readonly isSlow: boolean;
}

const PEERS: readonly Peer[] = [
  { name: "pg-boss", script: SCRIPTS.pgBoss, isSlow: false },
  { name: "graphile-worker", script: SCRIPTS.graphile, isSlow: false },
  { name: "BullMQ on PostgreSQL", script: SCRIPTS.bullmq, isSlow: true },
];
const SLUICE = "Sluice";
const PROCESSES = 2;
/** For a handler that waits. */
const WAIT_MS = 5;
const BATCHES_AT_ONCE = 16;

const itemsPerSecond: FigureShown = { name: "itemsPerSecond", unit: "items/s" };
const peakRss: FigureShown = { name: "peakRssMb", unit: "MB peak RSS" };
const chunksPerSecond: FigureShown = { name: "chunksPerSecond", unit: "chunks/s" };

type PathOf = (items: number) => string;

/** `pathOf` returns a JSONL file with that many items. */
export function listPostgresQuestions(sizes: PostgresSizes, pathOf: PathOf): readonly Question[] {
  return [
    askAboutJobPerItem(sizes, pathOf),
    askAboutLoadedJobs(sizes, pathOf),
    askAboutSingles(sizes, pathOf),
    askAboutBacklog(sizes),
    askAboutProcesses(sizes, pathOf),
    askAboutBatches(sizes, pathOf),
    askAboutIdling(sizes),
    askAboutRawLimit(sizes),
    askAboutDrivers(sizes),
  ];
}

interface Run {
  readonly items: number;
  readonly chunkSize: number;
  readonly batches?: number;
  readonly processes?: number;
  readonly waitMs?: number;
}

function describeSluice(name: string, pathOf: PathOf, run: Run): Subject {
  const { items, batches = 1, processes = PROCESSES, waitMs = 0 } = run;
  const options = { ...run, batches, processes, waitMs, itemsPath: pathOf(items) };
  return { name, script: SCRIPTS.sluice, options };
}

function describePeer(peer: Peer, pathOf: PathOf, items: number, itemsPerJob: number): Subject {
  const options = { itemsPath: pathOf(items), items, itemsPerJob, processes: PROCESSES };
  return { name: peer.name, script: peer.script, options };
}

function listSinglePeers(sizes: PostgresSizes, pathOf: PathOf): readonly Subject[] {
  return PEERS.map((peer) =>
    describePeer(peer, pathOf, peer.isSlow ? sizes.slowPeerItems : sizes.peerItems, 1),
  );
}

function askAboutJobPerItem(sizes: PostgresSizes, pathOf: PathOf): Question {
  return {
    key: "a",
    title: `${count(sizes.items)} items in chunks of 1,000, and one job per item (${count(sizes.peerItems)}; BullMQ ${count(sizes.slowPeerItems)}), outcomes recorded, ${PROCESSES} processes`,
    subjects: [
      ...listSinglePeers(sizes, pathOf),
      describeSluice(SLUICE, pathOf, { items: sizes.items, chunkSize: 1_000 }),
    ],
    shown: [itemsPerSecond, peakRss],
    targets: [
      {
        what: "Sluice / the best of the three",
        compute: (median) => {
          const peers = PEERS.flatMap(({ name }) => median(name, "itemsPerSecond") ?? []);
          return peers.length === 0
            ? undefined
            : divide(median(SLUICE, "itemsPerSecond"), Math.max(...peers));
        },
        bound: { kind: "at least", limit: 10 },
        unit: "x",
      },
    ],
  };
}

/** Before each of them. */
function listAheadTargets(): readonly Target[] {
  return PEERS.map(({ name }) => ({
    what: `Sluice / ${name}`,
    compute: (median) => divide(median(SLUICE, "itemsPerSecond"), median(name, "itemsPerSecond")),
    bound: { kind: "at least", limit: 1 },
    unit: "x",
  }));
}

function askAboutLoadedJobs(sizes: PostgresSizes, pathOf: PathOf): Question {
  return {
    key: "b",
    title: `${count(sizes.items)} items, 1,000 in each chunk and in each job, ${PROCESSES} processes`,
    subjects: [
      ...PEERS.map((peer) => describePeer(peer, pathOf, sizes.items, 1_000)),
      describeSluice(SLUICE, pathOf, { items: sizes.items, chunkSize: 1_000 }),
    ],
    shown: [itemsPerSecond, peakRss],
    targets: listAheadTargets(),
  };
}

function askAboutSingles(sizes: PostgresSizes, pathOf: PathOf): Question {
  return {
    key: "c",
    title: `one item per chunk (${count(sizes.singles)} chunks), and one job per item, ${PROCESSES} processes`,
    subjects: [
      ...listSinglePeers(sizes, pathOf),
      describeSluice(SLUICE, pathOf, { items: sizes.singles, chunkSize: 1 }),
    ],
    shown: [itemsPerSecond, peakRss],
    targets: listAheadTargets(),
  };
}

function askAboutBacklog(sizes: PostgresSizes): Question {
  const nameOf = (waiting: number, perCommit: number) =>
    `${count(waiting)} waiting, ${perCommit} per commit`;
  const [few, many] = sizes.waitingChunks;
  const perCommitSizes = [1, 64];
  return {
    key: "d",
    title: "lease-and-settle speed by number of waiting chunks",
    subjects: perCommitSizes.flatMap((perCommit) =>
      [few, many].map((waiting) => ({
        name: nameOf(waiting, perCommit),
        script: SCRIPTS.backlog,
        // More items for the quicker subject, so that both take about as long.
        options: { waiting, perCommit, settled: sizes.settledChunks * (perCommit === 1 ? 1 : 8) },
      })),
    ),
    shown: [chunksPerSecond],
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

function askAboutProcesses(sizes: PostgresSizes, pathOf: PathOf): Question {
  const nameOf = (processes: number) => `${processes} ${processes === 1 ? "process" : "processes"}`;
  const run = { items: sizes.waitingItems, chunkSize: 100, waitMs: WAIT_MS };
  return {
    key: "e",
    title: `${count(sizes.waitingItems)} items in chunks of 100, handlers that wait ${WAIT_MS} ms, 16 at a time in each process`,
    subjects: [1, PROCESSES].map((processes) =>
      describeSluice(nameOf(processes), pathOf, { ...run, processes }),
    ),
    shown: [itemsPerSecond],
    targets: [
      {
        what: `${nameOf(PROCESSES)} / ${nameOf(1)}`,
        compute: (median) =>
          divide(median(nameOf(PROCESSES), "itemsPerSecond"), median(nameOf(1), "itemsPerSecond")),
        bound: { kind: "at least", limit: 1.6 },
        unit: "x",
      },
    ],
  };
}

function askAboutBatches(sizes: PostgresSizes, pathOf: PathOf): Question {
  const nameOf = (batches: number) => `${batches} ${batches === 1 ? "batch" : "batches at once"}`;
  const sizesAtOnce = [1, BATCHES_AT_ONCE];
  return {
    key: "f",
    title: `${count(sizes.batchItems)} items in chunks of 100, in one batch and in ${BATCHES_AT_ONCE}, ${PROCESSES} processes`,
    subjects: sizesAtOnce.map((batches) =>
      describeSluice(nameOf(batches), pathOf, {
        items: sizes.batchItems / batches,
        chunkSize: 100,
        batches,
      }),
    ),
    shown: [
      itemsPerSecond,
      { name: "lockWaiters", unit: "sessions waiting for a lock, mean" },
      { name: "lockWaitersMax", unit: "sessions waiting for a lock, max" },
    ],
    targets: [
      {
        what: `${nameOf(BATCHES_AT_ONCE)} / ${nameOf(1)}`,
        compute: (median) =>
          divide(
            median(nameOf(BATCHES_AT_ONCE), "itemsPerSecond"),
            median(nameOf(1), "itemsPerSecond"),
          ),
        bound: null,
        unit: "x",
      },
    ],
  };
}

function askAboutIdling(sizes: PostgresSizes): Question {
  const subject = "an idle worker";
  return {
    key: "g",
    title: `transactions of an idle worker, over ${sizes.idleSeconds} s`,
    subjects: [{ name: subject, script: SCRIPTS.idle, options: { seconds: sizes.idleSeconds } }],
    shown: [{ name: "transactionsPerSecond", unit: "transactions/s" }],
    targets: [
      {
        what: subject,
        compute: (median) => median(subject, "transactionsPerSecond"),
        bound: { kind: "below", limit: 1 },
        unit: "transactions/s",
      },
    ],
  };
}

function askAboutRawLimit({ rawChunks }: PostgresSizes): Question {
  const shapes = [
    { connections: 1, perCommit: 1 },
    { connections: 4, perCommit: 1 },
    { connections: 1, perCommit: 64 },
  ];
  return {
    key: "h",
    title: "the raw limit: chunks settled and leased by one hand-written statement",
    subjects: shapes.map(({ connections, perCommit }) => ({
      name: `${connections} ${connections === 1 ? "connection" : "connections"}, ${perCommit} per commit`,
      script: SCRIPTS.loop,
      options: { connections, perCommit, chunks: rawChunks * (perCommit === 1 ? 1 : 8) },
    })),
    shown: [chunksPerSecond],
    targets: [],
  };
}

function askAboutDrivers({ transactions }: PostgresSizes): Question {
  const drivers = ["pg", "postgres"];
  return {
    key: "i",
    title: "one transaction of Sluice's kind on each driver, one connection",
    subjects: drivers.map((driver) => ({
      name: driver,
      script: SCRIPTS.drivers,
      options: { driver, transactions },
    })),
    shown: [{ name: "transactionsPerSecond", unit: "transactions/s" }],
    targets: [
      {
        what: "pg with pipelining / postgres",
        compute: (median) =>
          divide(
            median("pg", "transactionsPerSecond"),
            median("postgres", "transactionsPerSecond"),
          ),
        bound: null,
        unit: "x",
      },
    ],
  };
}
