/**
 * The questions about what happens between batches: how soon a successor starts, what lanes cost,
 * how long a cancel takes, how quickly dead letters run again. README.md explains each.
 */
import { count, divide, type Question, type Target } from "./question.ts";

/** The sizes of the questions; the targets hold for the full size only. */
export interface LifeSizes {
  readonly lanes: number;
  readonly batchesPerLane: number;
  readonly tinyBatches: number;
  readonly cancels: number;
  readonly letters: number;
}

export const FULL_LIFE_SIZES: LifeSizes = {
  lanes: 50,
  batchesPerLane: 30,
  tinyBatches: 10_000,
  cancels: 200,
  letters: 10_000,
};

/** A size of seconds, to see that everything runs. */
export const QUICK_LIFE_SIZES: LifeSizes = {
  lanes: 10,
  batchesPerLane: 5,
  tinyBatches: 200,
  cancels: 10,
  letters: 500,
};

const SCRIPTS = {
  successor: new URL("./subjects/sluice-successor.ts", import.meta.url),
  lanes: new URL("./subjects/sluice-lanes.ts", import.meta.url),
  cancel: new URL("./subjects/sluice-cancel.ts", import.meta.url),
  redrive: new URL("./subjects/sluice-redrive.ts", import.meta.url),
};

const PERCENTILES = [
  { name: "p50Ms", unit: "ms p50" },
  { name: "p99Ms", unit: "ms p99" },
];
const PROCESSES = [1, 2];
const MANY_LANES = 100;

export function listLifeQuestions(sizes: LifeSizes): readonly Question[] {
  return [
    askAboutSuccessor(sizes),
    askAboutLanes(sizes),
    askAboutCancel(sizes),
    askAboutRedrive(sizes),
  ];
}

function askAboutSuccessor({ lanes, batchesPerLane }: LifeSizes): Question {
  return {
    key: "a",
    title: `from a batch's last handler's return to its successor's first call, ${count(lanes)} lanes`,
    subjects: PROCESSES.map((processes) => ({
      name: nameProcesses(processes),
      script: SCRIPTS.successor,
      options: { lanes, batchesPerLane, processes, workMs: 200 },
    })),
    shown: PERCENTILES,
    targets: PROCESSES.map((processes) => boundP99(nameProcesses(processes), 50)),
  };
}

function askAboutLanes({ tinyBatches }: LifeSizes): Question {
  const one = "1 lane";
  const many = `${MANY_LANES} lanes`;
  return {
    key: "b",
    title: `${count(tinyBatches)} batches of one item, FULL`,
    subjects: [
      { name: one, script: SCRIPTS.lanes, options: { batches: tinyBatches, lanes: 1 } },
      { name: many, script: SCRIPTS.lanes, options: { batches: tinyBatches, lanes: MANY_LANES } },
    ],
    shown: [{ name: "batchesPerSecond", unit: "batches/s" }],
    targets: [
      {
        what: `${one} / ${many}`,
        compute: (median) =>
          divide(median(one, "batchesPerSecond"), median(many, "batchesPerSecond")),
        bound: null,
        unit: "x",
      },
    ],
  };
}

function askAboutCancel({ cancels }: LifeSizes): Question {
  return {
    key: "c",
    title: `from a cancel request to its acknowledgement, handlers that obey their signal, ${count(cancels)} cancels`,
    subjects: PROCESSES.map((processes) => ({
      name: nameProcesses(processes),
      script: SCRIPTS.cancel,
      options: { cancels, processes },
    })),
    shown: PERCENTILES,
    targets: PROCESSES.map((processes) => boundP99(nameProcesses(processes), 1_000)),
  };
}

function askAboutRedrive({ letters }: LifeSizes): Question {
  const subject = "Sluice";
  return {
    key: "d",
    title: `redrive of ${count(letters)} dead letters, chunks of 100`,
    subjects: [{ name: subject, script: SCRIPTS.redrive, options: { letters } }],
    shown: [
      { name: "redriveMs", unit: "ms for the redrive" },
      { name: "lettersPerSecond", unit: "dead letters/s until the new ending" },
    ],
    targets: [],
  };
}

function nameProcesses(processes: number): string {
  return processes === 1 ? "one process" : `${processes} processes`;
}

function boundP99(subject: string, limit: number): Target {
  return {
    what: `p99, ${subject}`,
    compute: (median) => median(subject, "p99Ms"),
    bound: { kind: "below", limit },
    unit: "ms",
  };
}
