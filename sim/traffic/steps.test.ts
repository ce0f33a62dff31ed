/**
 * Batches of several steps, passes over dead letters and lanes, while one call after the other
 * fails.
 */
import { describe, expect, test } from "vitest";
import { type Batch, countAll } from "../../src/adapters/memory/state.ts";
import { type Fault, faultAtCall, type FaultPlan } from "../faults.ts";
import type { Doing, Errand, StepPlot } from "./errand.ts";
import type { TrafficPlot } from "./plot.ts";
import { makeErrand, makeStepPlot, makeTraffic } from "./plots.ts";
import { playTrafficRight, type Traffic } from "./traffic.ts";

const CALLS_MAX = 600;
/** The distance between the calls that fail: 1 tries them all. */
const STRIDE = Number(process.env["SLUICE_STRIDE"] ?? 4);
const SUBMITTER = "n1";

const faults: readonly Fault[] = [
  { kind: "crash_before" },
  { kind: "crash_after" },
  { kind: "lost_reply" },
  { kind: "refused" },
  { kind: "late", byMs: 3_000 },
];

const succeed: Doing = { does: "succeed" };

const batchesOf = ({ world }: Traffic): Batch[] => [...world.store.state.batches.values()];

const batchOf = (traffic: Traffic): Batch => batchesOf(traffic)[0] as Batch;

const countOf = (batch: Batch, ...steps: readonly number[]): number[] =>
  steps.map((step) => batch.steps[step]?.counts.succeeded ?? -1);

/** So that the kinds of faults meet different calls when only some are tried. */
const firstCall = (fault: Fault): number => 1 + (faults.indexOf(fault) % STRIDE);

/** The whole play with one fault, at one call after the other of the submitter's first life. */
async function faultEveryCall(
  fault: Fault,
  plotWith: (faults: FaultPlan) => TrafficPlot,
  check: (traffic: Traffic, what: string) => void,
): Promise<void> {
  for (let number = firstCall(fault); number <= CALLS_MAX; number += STRIDE) {
    const traffic = await playTrafficRight(plotWith(faultAtCall(SUBMITTER, number, fault)));
    check(traffic, `${fault.kind} at call ${number}`);
    const first = traffic.world.nodes.find(({ name }) => name === SUBMITTER);
    if ((first?.calls ?? 0) < number) return;
  }
  throw new Error(`a play has more than ${CALLS_MAX} calls`);
}

describe("passes over dead letters", () => {
  const play = (doings: readonly Doing[], maxRedrives: number): Promise<Traffic> =>
    playTrafficRight(makeTraffic([makeStepPlot({ maxRedrives })], [makeErrand([doings])]));

  test.each([0, 1, 3])(
    "an item that always fails has all its tries in exactly %i more drives",
    async (maxRedrives) => {
      const traffic = await play([succeed, { does: "stumble", times: 99 }], maxRedrives);
      const tries = traffic.errands.runs.filter(({ index }) => index === 1);
      expect(tries.map(({ drive, attempt }) => `${drive}.${attempt}`)).toEqual(
        Array.from({ length: maxRedrives + 1 }, (_, n) =>
          [1, 2, 3].map((a) => `${n + 1}.${a}`),
        ).flat(),
      );
      expect(tries.filter(({ final }) => final).map(({ drive }) => drive)).toEqual(
        Array.from({ length: 3 }, () => maxRedrives + 1),
      );
      expect(traffic.errands.runs.filter(({ index }) => index === 0)).toHaveLength(1);
      expect(batchOf(traffic).state).toBe("completed_with_errors");
    },
  );

  test("an item that succeeds in a later drive is rescued, and no more passes follow", async () => {
    const traffic = await play([{ does: "recover", drive: 2 }], 3);
    expect(batchOf(traffic)).toMatchObject({ state: "succeeded", drive: 2 });
    expect(countAll(batchOf(traffic))).toMatchObject({ succeeded: 1, failed: 0 });
  });

  test("an item that failed for good has no second chance", async () => {
    const traffic = await play([{ does: "refuse" }], 3);
    expect(traffic.errands.runs).toHaveLength(1);
    expect(batchOf(traffic).drive).toBe(1);
  });
});

describe("three steps, the middle one a wait", () => {
  const steps: StepPlot[] = [
    makeStepPlot({ name: "fetch", maxRedrives: 1 }),
    makeStepPlot({ name: "settle", waits: true }),
    makeStepPlot({ name: "index" }),
  ];
  const doings: Doing[] = [
    succeed,
    { does: "recover", drive: 2 },
    { does: "refuse" },
    { does: "stages", stages: 2, failsAfter: 1 },
    { does: "later", times: 1 },
  ];
  const plan = [doings, [], doings.map(() => succeed)];

  // A submitter that comes back with items must not give them to a later step.
  const kinds = { ranged: ["crash_before", "lost_reply"], handed_over: ["crash_after", "late"] };
  for (const supply of ["ranged", "handed_over"] as const) {
    for (const fault of faults.filter(({ kind }) => kinds[supply].includes(kind))) {
      test(`${fault.kind} at every call, items ${supply}: each item that succeeds goes on, once`, async () => {
        await faultEveryCall(
          fault,
          (faulty) =>
            makeTraffic(steps, [makeErrand(plan)], {
              faults: faulty,
              pipelines: [
                { name: "alpha", supply, steps, releases: [{ version: "1", accepts: [] }] },
              ],
            }),
          (traffic, what) => {
            const batch = batchOf(traffic);
            expect(batch.state, what).toBe("completed_with_errors");
            expect(countOf(batch, 0, 1, 2), what).toEqual([4, 1, 4]);
          },
        );
      });
    }
  }
});

describe("a step without items between two others", () => {
  const steps = [
    makeStepPlot({ name: "fetch" }),
    makeStepPlot({ name: "index" }),
    makeStepPlot({ name: "settle", waits: true }),
  ];

  for (const fault of faults) {
    test(`${fault.kind} at every call: the call that ends it does not end the next step`, async () => {
      await faultEveryCall(
        fault,
        (faulty) =>
          makeTraffic(steps, [makeErrand([[{ does: "skip" }], [], []])], { faults: faulty }),
        (traffic, what) => {
          const batch = batchOf(traffic);
          expect(batch.state, what).toBe("succeeded");
          expect(countOf(batch, 0, 1, 2), what).toEqual([0, 0, 1]);
        },
      );
    });
  }
});

test("a checkpoint does not wait for the next flush", async () => {
  const doings: Doing[] = [{ does: "stages", stages: 3, failsAfter: 0 }];
  const settings = { flushMs: 20_000, tuning: { flushItems: 1_000 } };
  const plot = makeTraffic([makeStepPlot()], [makeErrand([doings])], { settings });
  const traffic = await playTrafficRight(plot);
  // A handler that waited would reach its time limit.
  expect(traffic.errands.runs).toHaveLength(1);
});

test("a guarded run keeps outcomes while a report is late, and reports none twice", async () => {
  const stages: Doing = { does: "stages", stages: 3, failsAfter: 2 };
  const doings: Doing[] = [stages, { does: "stumble", times: 1 }, stages, { does: "refuse" }];
  for (let number = 1; number <= CALLS_MAX; number++) {
    let reports = 0;
    const faulty: FaultPlan = ({ life, number: call, verb }) => {
      if (life === 1) return call === 22 ? { kind: "crash_before" } : null;
      if (verb === "work") reports++;
      // Longer than a handler may take: a report outlives its wave.
      const late = verb === "work" && reports >= number && reports < number + 3;
      return late ? { kind: "late", byMs: 900 } : null;
    };
    const plot = makeTraffic([makeStepPlot({ chunkSize: 4 })], [makeErrand([doings])], {
      seed: number,
      faults: faulty,
      helpers: 0,
    });
    const traffic = await playTrafficRight(plot);
    const chunks = batchOf(traffic).steps[0]?.chunks ?? [];
    expect(chunks.some(({ guarded }) => guarded)).toBe(true);
    if (reports < number) return;
  }
  throw new Error(`a play has more than ${CALLS_MAX} calls`);
});

describe("three batches in one lane, and one in another", () => {
  const errands: Errand[] = ["a", "b", "c", "d"].map((key) =>
    makeErrand([[succeed, succeed, { does: "stumble", times: 1 }]], {
      key,
      lane: key === "d" ? "south" : "north",
    }),
  );

  for (const fault of faults) {
    test(`${fault.kind} at every call: they run one after the other, in the order of submission`, async () => {
      await faultEveryCall(
        fault,
        (plan) => makeTraffic([makeStepPlot({ chunkSize: 1 })], errands, { faults: plan }),
        (traffic, what) => {
          const north = batchesOf(traffic).filter(({ submission }) => submission.lane === "north");
          // It starts at once when the one before it ends, if it existed by then.
          const turns = north.map(({ submittedAt }, n) =>
            Math.max(submittedAt, north[n - 1]?.endedAt ?? 0),
          );
          expect(
            north.map(({ startedAt }) => startedAt),
            what,
          ).toEqual(turns);
          for (const batch of batchesOf(traffic)) expect(batch.state, what).toBe("succeeded");
        },
      );
    });
  }

  test("a batch in another lane does not wait for them", async () => {
    const traffic = await playTrafficRight(makeTraffic([makeStepPlot({ chunkSize: 1 })], errands));
    const [, , last, other] = batchesOf(traffic);
    expect(other?.endedAt).toBeLessThan(last?.endedAt ?? 0);
  });
});

describe("two batches with the same contents in two lanes", () => {
  const errands = ["a", "b"].map((key) =>
    makeErrand(
      [Array.from({ length: 5 }, (_, n) => (n === 3 ? { does: "stumble", times: 1 } : succeed))],
      {
        key,
        lane: key,
        contents: ["v", "w", "x", "y", "z"],
      },
    ),
  );

  for (const fault of faults) {
    test(`${fault.kind} at every call: each content succeeds once`, async () => {
      await faultEveryCall(
        fault,
        (plan) => makeTraffic([makeStepPlot({ dedupes: true })], errands, { faults: plan }),
        (traffic, what) => {
          const [one, two] = batchesOf(traffic).map(countAll);
          expect((one?.succeeded ?? 0) + (two?.succeeded ?? 0), what).toBe(5);
          expect((one?.skipped ?? 0) + (two?.skipped ?? 0), what).toBe(5);
        },
      );
    });
  }
});
