/** Commands of limiters and of operators who close keys. */
import fc from "fast-check";
import type { BucketSpec } from "../../../src/core/limits/bucket.ts";
import type { BucketRef } from "../../../src/ports/store/token-store.ts";
import { command, onceIn } from "./stage.ts";

/** Half of each day, so that a jump of the wall clock may enter or leave it. */
const QUIET = [{ from: "06:00", to: "18:00", timeZone: "Europe/Berlin" }] as const;

/** A bucket and its limit, which is changed sometimes. */
const BUCKETS: readonly (BucketRef & { readonly specs: readonly BucketSpec[] })[] = [
  ...["x", "y", "", "Zoë 😀"].map((key) => ({
    bucket: "rate/a",
    key,
    specs: [
      { kind: "rate", perSecond: 7, burst: 3 },
      { kind: "rate", perSecond: 0.3, burst: 5 },
    ] as const,
  })),
  { bucket: "rate/b", key: "x", specs: [{ kind: "open" }] },
  {
    bucket: "pace/b1/0",
    key: "",
    specs: [
      { kind: "pace", items: 4, everyMs: 300, smooth: false, quiet: [] },
      { kind: "pace", items: 2, everyMs: 70, smooth: false, quiet: [] },
    ],
  },
  {
    bucket: "pace/b2/0",
    key: "",
    specs: [{ kind: "pace", items: 7, everyMs: 900, smooth: true, quiet: [] }],
  },
  {
    bucket: "pace/b2/1",
    key: "",
    specs: [{ kind: "pace", items: 2, everyMs: 50, smooth: false, quiet: QUIET }],
  },
];

const bucket = fc.constantFrom(...BUCKETS);
const refOf = ({ bucket: name, key }: BucketRef): BucketRef => ({ bucket: name, key });

const draw = command(
  "draw",
  fc.record({
    draws: fc.array(
      fc.record({
        bucket,
        changed: onceIn(6),
        cost: fc.constantFrom(1, 1, 2, 3),
        count: fc.constantFrom(1, 2, 9, 0),
      }),
      { minLength: 1, maxLength: 3 },
    ),
    slackMs: fc.constantFrom(2, 9, 40, 500, 20_000),
  }),
  (stage, { draws, slackMs }) =>
    stage.lineup.call(
      "draw",
      draws.map(({ bucket: one, changed, cost, count }) => {
        const spec = (changed ? one.specs.at(-1) : one.specs[0])!;
        return { ...refOf(one), spec, cost: spec.kind === "rate" ? cost : 1, count };
      }),
      slackMs,
    ),
  "nothing",
);

const closeBucket = command(
  "closeBucket",
  fc.record({ bucket, forMs: fc.constantFrom(10, 60, 400, 90_000) }),
  (stage, { bucket: one, forMs }) => stage.lineup.call("closeBucket", refOf(one), forMs),
  "nothing",
);

const openBucket = command(
  "openBucket",
  fc.record({ bucket }),
  (stage, { bucket: one }) => stage.lineup.call("openBucket", refOf(one)),
  "nothing",
);

const listClosed = command(
  "listClosed",
  fc.constant(null),
  (stage) => stage.lineup.call("listClosed"),
  "nothing",
);

export const limits = { draw, closeBucket, openBucket, listClosed };
