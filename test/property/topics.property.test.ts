/**
 * Whatever happens to an item's attempts, and whenever its process dies: a topic holds exactly the
 * messages of attempts that made an outcome, and an errors topic those of the drives in which an item
 * gave up. A consumer gets each of them at least once.
 *
 * The seed is fixed, so that a changed result comes from a changed line. SLUICE_PROPERTY_RUNS sets
 * the number of runs, with a new seed each time.
 */
import fc from "fast-check";
import { expect, test } from "vitest";
import {
  definePipeline,
  later,
  PermanentError,
  skipped,
  type TopicMessage,
  TransientError,
} from "../../src/index.ts";
import { inVirtualTime } from "../../src/testing.ts";

const RUNS = 60;
const SEED = 20_270_311;
const ATTEMPTS = 3;
const REDRIVES = 1;

const wanted = process.env["SLUICE_PROPERTY_RUNS"];

const attempt = fc.record({
  emits: fc.nat(3),
  end: fc.constantFrom("succeed", "skip", "route", "retry", "retry", "give up", "later"),
});
type Attempt = typeof attempt extends fc.Arbitrary<infer T> ? T : never;

/** What an item's attempts do, by drive and attempt, modulo their number. */
const history = fc.array(attempt, { minLength: 1, maxLength: 4 });

const script = fc.record({
  seed: fc.nat(10_000),
  items: fc.array(history, { minLength: 1, maxLength: 6 }),
  chunkSize: fc.integer({ min: 1, max: 4 }),
  /** The process is killed this long after its start; two kills convict no item. */
  kills: fc.array(fc.integer({ min: 1, max: 3_000 }), { maxLength: 2 }),
});

function findAttempt(attempts: readonly Attempt[], drive: number, nth: number): Attempt {
  return attempts[((drive - 1) * ATTEMPTS + nth - 1) % attempts.length] as Attempt;
}

/** The ids of an item's messages, without its batch. */
function predict(item: number, attempts: readonly Attempt[]): string[] {
  const ids: string[] = [];
  for (let drive = 1; drive <= REDRIVES + 1; drive++) {
    for (let nth = 1; nth <= ATTEMPTS; nth++) {
      const { emits, end } = findAttempt(attempts, drive, nth);
      const place = `0/${item}/${drive}`;
      if (end === "retry" && nth < ATTEMPTS) continue;
      if (end === "retry" || end === "give up") {
        ids.push(`${place}/error`);
        if (end === "give up") return ids;
        continue;
      }
      for (let n = 0; n < emits; n++) ids.push(`${place}/${n}`);
      if (end === "route") ids.push(`${place}/route`);
      return ids;
    }
  }
  return ids;
}

const strip = ({ id }: TopicMessage): string => id.slice(id.indexOf("/") + 1);

async function play({
  seed,
  items,
  chunkSize,
  kills,
}: typeof script extends fc.Arbitrary<infer T> ? T : never): Promise<void> {
  const expected = items.flatMap((attempts, item) => predict(item, attempts)).toSorted();
  await inVirtualTime({ seed }, async (world) => {
    const heard = new Set<string>();
    const putOff = new Set<string>();
    const pipeline = definePipeline({
      name: "random",
      topics: {
        emit: ["t1", "t2"],
        errors: "t2",
        route: (item: number, result) => (result === "route" ? (item % 2 ? "t1" : "t2") : null),
      },
      chunkSize,
      retry: { attempts: ATTEMPTS, baseMs: 100, capMs: 400 },
      maxRedrives: REDRIVES,
      process: async (item: number, { emit, attempt: nth, drive }) => {
        const { emits, end } = findAttempt(items[item] ?? [], drive, nth);
        for (let n = 0; n < emits; n++) {
          emit(n % 2 ? "t1" : "t2", { item, n });
          await world.sleep(50);
        }
        if (end === "skip") return skipped();
        if (end === "retry") throw new TransientError("again");
        if (end === "give up") throw new PermanentError("never");
        const place = `${item}/${drive}/${nth}`;
        if (end === "later" && !putOff.has(place)) {
          putOff.add(place);
          return later(100);
        }
        return end === "route" ? end : undefined;
      },
    });
    const main = world.start("main", async (engine) => {
      for (const topic of ["t1", "t2"]) {
        engine.consume(topic, "all", (message) => void heard.add(strip(message)));
      }
      const handle = await engine.submit(pipeline, items.keys(), { key: "once" });
      await handle.wait();
      await engine.waitForSubscribers({ withinMs: 600_000 });
      const left = [];
      for (const topic of ["t1", "t2"]) left.push(...(await engine.topic(topic).read()));
      return left.map(strip).toSorted();
    });
    for (const delayMs of kills) {
      await world.sleep(delayMs);
      try {
        main.kill();
      } catch {
        // It is down or has already ended.
      }
    }
    expect(await main.done).toEqual(expected);
    expect([...heard].toSorted()).toEqual(expected);
  });
}

test("a topic holds exactly the messages of attempts that made an outcome", async () => {
  await fc.assert(fc.asyncProperty(script, play), {
    numRuns: Number(wanted ?? RUNS),
    ...(wanted === undefined ? { seed: SEED } : {}),
  });
});
