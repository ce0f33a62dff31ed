/**
 * The evidence of a small batch with a case of everything, as text that processes could have
 * written: eight items in chunks of four, one killed process, one retry, one skip, one dead letter.
 */
import { readLines } from "../../support/command-line.ts";
import type {
  DeliveredEvent,
  Evidence,
  ItemCounts,
  LetterLine,
  Look,
  RecordedEvent,
  ResultLine,
  StatusLine,
} from "./evidence.ts";
import { parseRuns, type Run } from "./run-log.ts";

const BATCH = "b-forged";

/** `first` is killed while items 1 and 2 run, in the middle of a line. */
const FIRST = `S b-forged 0 1 1 1 100.0
E b-forged 0 1 1 1 105.0 ok
S b-other 0 1 1 1 106.0
S b-forged 1 1 1 1 110.0
S b-forged 2 1 1 1 111.0
E b-forged 2 1 1`;

/** `second` leases its chunk, skips 3, and fails 5 temporarily and 6 permanently. */
const SECOND = `S b-forged 4 1 1 1 101.0
E b-forged 4 1 1 1 109.0 ok
S b-forged 5 1 1 1 109.5
E b-forged 5 1 1 1 112.0 fail
S b-forged 6 1 1 1 112.5
E b-forged 6 1 1 1 113.0 fail
S b-forged 7 1 1 1 113.5
E b-forged 7 1 1 1 114.0 ok
S b-forged 1 1 1 2 300.0
E b-forged 1 1 1 2 301.0 ok
S b-forged 2 1 1 2 302.0
E b-forged 2 1 1 2 303.0 ok
S b-forged 3 1 1 2 304.0
E b-forged 3 1 1 2 305.0 skip
S b-forged 5 2 1 2 400.0
E b-forged 5 2 1 2 401.0 ok
`;

const RESULTS = `{"item":0,"key":"i0","value":{"by":"first","fence":1,"attempt":1}}
{"item":1,"key":"i1","value":{"by":"second","fence":2,"attempt":1}}
{"item":2,"key":"i2","value":{"by":"second","fence":2,"attempt":1}}
{"item":4,"key":"i4","value":{"by":"second","fence":1,"attempt":1}}
{"item":5,"key":"i5","value":{"by":"second","fence":2,"attempt":2}}
{"item":7,"key":"i7","value":{"by":"second","fence":1,"attempt":1}}
`;

const LETTERS = `{"item":6,"key":"i6","code":"FOR_GOOD","attempts":1,"deaths":0}
`;

/** The parts that a test changes to forge a fault. */
export interface Parts {
  runs: Run[];
  results: ResultLine[];
  letters: LetterLine[];
  events: RecordedEvent[];
  delivered: DeliveredEvent[];
  looks: Look[];
  status: StatusLine;
  items: number;
  attemptsMax: number;
  disturbed: Set<string>;
}

export function forgeEvidence(change: (parts: Parts) => unknown = () => undefined): Evidence {
  const parts = forgeParts();
  change(parts);
  const { events, ...rest } = parts;
  return {
    ...rest,
    status: { ...parts.status, events },
    runs: parts.runs.toSorted((a, b) => a.startAt - b.startAt),
    chunkSize: 4,
    leasesAreLong: true,
  };
}

function forgeParts(): Parts {
  const counts = { planned: 8, succeeded: 6, skipped: 1, failed: 1, cancelled: 0, pending: 0 };
  const events = forgeEvents(counts);
  const results = readLines<ResultLine>(RESULTS);
  const status = forgeStatus(counts, "completed_with_errors", events);
  const early = { planned: 8, succeeded: 2, skipped: 0, failed: 0, cancelled: 0, pending: 6 };
  const known = results.filter(({ item }) => item === 0 || item === 4);
  return {
    runs: [...parseRuns("first", FIRST, BATCH), ...parseRuns("second", SECOND, BATCH)],
    results,
    letters: readLines<LetterLine>(LETTERS),
    events,
    // The second event comes twice: its sink died before the delivery was recorded.
    delivered: [...events.slice(0, 2), ...events.slice(1)].map((event) => ({
      ...event,
      id: `${BATCH}/${event.seq}`,
      batch: BATCH,
    })),
    looks: [{ at: 200, status: forgeStatus(early, "running", []), results: known }],
    status,
    items: 8,
    attemptsMax: 4,
    disturbed: new Set(["first"]),
  };
}

function forgeStatus(
  counts: ItemCounts,
  state: string,
  events: readonly RecordedEvent[],
): StatusLine {
  return {
    batch: BATCH,
    pipeline: "forged",
    lane: "forged",
    state,
    ...counts,
    chunks: 2,
    elapsedMs: 1,
    drive: 1,
    steps: [{ name: "forged", passes: 0, ...counts }],
    events,
  };
}

function forgeEvents(counts: ItemCounts): RecordedEvent[] {
  const ending = { state: "completed_with_errors", drive: 1, counts };
  const types: readonly (readonly [string, RecordedEvent["data"]])[] = [
    ["batch.submitted", {}],
    ["batch.started", { drive: 1 }],
    ["slicing.started", {}],
    ["slicing.finished", {}],
    ["step.ended", {}],
    ["batch.drained", {}],
    ["batch.ended", ending],
    ["batch.released", {}],
  ];
  return types.map(([type, data], at) => ({
    seq: at + 1,
    type,
    at: "2026-01-01T00:00:00.000Z",
    data,
  }));
}
