/**
 * The types of the test kit: its values match the pipeline, and a misspelled word does not compile.
 */
import { assertType, expectTypeOf, test } from "vitest";
import type { ItemResult } from "../../src/runtime/engine/batch-handle.ts";
import { definePipeline, type Engine } from "../../src/index.ts";
import {
  crash,
  type Fault,
  inVirtualTime,
  killAtEveryCommit,
  type KillReport,
  late,
  loseAnswer,
  refuse,
} from "../../src/testing.ts";

const double = definePipeline({ name: "double", process: (n: number) => ({ twice: n * 2 }) });

test("a fault needs a point and a number", () => {
  expectTypeOf(crash.after("settle", 3)).toEqualTypeOf<Fault>();
  expectTypeOf(crash.before("store.work", 1, { process: "main" })).toEqualTypeOf<Fault>();
  expectTypeOf(loseAnswer("lease", 1)).toEqualTypeOf<Fault>();
  expectTypeOf(late("renew", 1, 60_000)).toEqualTypeOf<Fault>();
  // @ts-expect-error -- there is no such point
  crash.after("setle", 3);
  // @ts-expect-error -- there is no such verb
  refuse("store.wrok", 3);
  // @ts-expect-error -- the number is missing
  crash.before("settle");
  // @ts-expect-error -- late needs to know by how much
  late("settle", 1);
});

test("inVirtualTime returns what its test returns", async () => {
  const answer = await inVirtualTime({ seed: 1 }, async (world) => {
    const main = world.start("main", async (engine, life) => {
      expectTypeOf(engine).toEqualTypeOf<Engine>();
      expectTypeOf(life).toEqualTypeOf<number>();
      const batch = await engine.submit(double, [1, 2]);
      return (await batch.wait()).counts.succeeded;
    });
    expectTypeOf(main.done).toEqualTypeOf<Promise<number>>();
    return main.done;
  });
  expectTypeOf(answer).toEqualTypeOf<number>();
  // @ts-expect-error -- there is no such option
  await inVirtualTime({ sead: 1 }, () => undefined);
  // @ts-expect-error -- the clock is the world's
  await inVirtualTime({ engine: { clock: null } }, () => undefined);
});

test("the functions of a kill test must match each other and the pipeline", async () => {
  const report = await killAtEveryCommit({
    setUp: async () => ({ charges: new Map<string, number>() }),
    batch: ({ charges }) => {
      expectTypeOf(charges).toEqualTypeOf<Map<string, number>>();
      return { pipeline: double, input: [1, 2, 3] };
    },
    check: ({ charges }, { results, fault }) => {
      expectTypeOf(charges).toEqualTypeOf<Map<string, number>>();
      expectTypeOf(results).toEqualTypeOf<readonly ItemResult<{ twice: number }>[]>();
      expectTypeOf(fault).toEqualTypeOf<string | null>();
    },
    only: crash.after("commit", 7),
  });
  assertType<KillReport>(report);
  await killAtEveryCommit({
    setUp: () => null,
    // @ts-expect-error -- the pipeline takes numbers
    batch: () => ({ pipeline: double, input: ["one"] }),
  });
  await killAtEveryCommit({
    setUp: () => null,
    batch: () => ({ pipeline: double, input: [1] }),
    // @ts-expect-error -- the faults of such a test are its own
    faults: [],
  });
});
