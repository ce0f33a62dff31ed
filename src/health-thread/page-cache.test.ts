import { expect, test } from "vitest";
import { ManualClock } from "../../test/support/manual-clock.ts";
import { PageCache } from "./page-cache.ts";

class Rig {
  readonly clock = new ManualClock();
  readonly asked: string[] = [];
  isBusy = false;
  readonly shelf = new PageCache({
    clock: this.clock,
    paths: ["/metrics", "/scaling"],
    ask: (path) => void this.asked.push(path),
    isBusy: () => this.isBusy,
  });
}

test("makes each page once at the start, and then only on request", async () => {
  const { shelf, asked, clock } = new Rig();
  for (const path of asked) shelf.put(path, `${path} 1`);
  expect(asked).toEqual(["/metrics", "/scaling"]);
  clock.advance(86_400_000);
  expect(asked).toHaveLength(2);
  expect(clock.waiting).toBe(0);
  const reading = shelf.read("/metrics");
  expect(asked.slice(2)).toEqual(["/metrics"]);
  shelf.put("/metrics", "fresh");
  expect(await reading).toEqual({ text: "fresh", ageMs: 0 });
});

test("serves the last page at once while the main thread is busy, with its age, and asks for it once", async () => {
  const rig = new Rig();
  const { shelf, asked, clock } = rig;
  for (const path of asked) shelf.put(path, "first");
  rig.isBusy = true;
  clock.advance(90_000);
  for (let reader = 0; reader < 5; reader++) {
    expect(await shelf.read("/metrics")).toEqual({ text: "first", ageMs: 90_000 });
  }
  expect(asked.slice(2)).toEqual(["/metrics"]);
  shelf.put("/metrics", "second");
  rig.isBusy = false;
  const reading = shelf.read("/metrics");
  shelf.put("/metrics", "third");
  expect(await reading).toEqual({ text: "third", ageMs: 0 });
});

test("never waits long, neither for a page that was never made nor for a fresh one", async () => {
  const { shelf, clock } = new Rig();
  const first = shelf.read("/metrics");
  clock.advance(500);
  expect(await first).toBeNull();
  shelf.put("/metrics", "late");
  const second = shelf.read("/metrics");
  clock.advance(500);
  expect(await second).toEqual({ text: "late", ageMs: 500 });
});
