/** Deadlines: a batch that has not ended by then expires in any state. */
import { expect } from "vitest";
import { type Rig, type Rule, SEAL_WITHIN_MS, steps } from "./rig.ts";

const IN_MS = 10_000;

const LIVES: readonly { readonly state: string; readonly live: (rig: Rig) => Promise<string> }[] = [
  { state: "submitted", live: async (rig) => (await rig.submit(due(rig))).id },
  { state: "slicing", live: (rig) => rig.slicing(due(rig)) },
  {
    state: "ready",
    live: async (rig) => {
      await rig.running([1], { lane: "main" });
      return rig.running([1], { ...due(rig), lane: "main" });
    },
  },
  { state: "running", live: (rig) => rig.running([1], due(rig)) },
];

const due = (rig: Rig): { deadlineAt: number } => ({ deadlineAt: rig.clock.wallMs() + IN_MS });

export function describeDeadlines(rule: Rule): void {
  rule("a maximum run time counts from the batch's first turn in its lane", async ({ rig }) => {
    const settings = { ...steps({}), maxRunMs: 1_000 };
    const first = await rig.running([1], { lane: "main" });
    const id = await rig.running([2], { lane: "main", settings });
    rig.clock.advance(5_000);
    await rig.sweep();
    expect((await rig.get(id)).deadlineAt).toBeNull();
    await rig.settle(await rig.leaseOne());
    expect(await rig.state(first)).toBe("succeeded");
    expect((await rig.get(id)).deadlineAt).toBe(rig.clock.wallMs() + 1_000);
    await rig.report(await rig.leaseOne(), { succeeded: [0] });
    rig.clock.advance(999);
    expect((await rig.sweep()).ended).toEqual([]);
    rig.clock.advance(1);
    expect((await rig.sweep()).ended).toEqual([id]);
    expect(await rig.get(id)).toMatchObject({
      state: "expired",
      counts: { succeeded: 1, cancelled: 1 },
    });
  });

  rule("the earlier of a maximum run time and a deadline counts", async ({ rig }) => {
    const settings = { ...steps({}), maxRunMs: 1_000 };
    const now = rig.clock.wallMs();
    const soon = await rig.running([1], { settings, deadlineAt: now + 500 });
    const late = await rig.running([1], { settings, deadlineAt: now + 5_000 });
    expect((await rig.get(soon)).deadlineAt).toBe(now + 500);
    expect((await rig.get(late)).deadlineAt).toBe(now + 1_000);
  });

  for (const { state, live } of LIVES) {
    rule(`a ${state} batch expires exactly at its deadline`, async ({ rig }) => {
      const id = await live(rig);
      expect(await rig.state(id)).toBe(state);
      rig.clock.advance(IN_MS - 1);
      expect((await rig.sweep()).ended).toEqual([]);
      rig.clock.advance(1);
      expect((await rig.sweep()).ended).toEqual([id]);
      expect(await rig.get(id)).toMatchObject({
        state: "expired",
        reason: { code: "DEADLINE" },
        counts: { pending: 0 },
        endedAt: rig.clock.wallMs(),
      });
      expect((await rig.sweep()).ended).toEqual([]);
    });
  }

  rule(
    "an expired batch counts what ran, cancels the rest and refuses late reports",
    async ({ rig }) => {
      const id = await rig.running([2, 2], due(rig));
      const [one, two] = await rig.lease({ chunksMax: 2, leaseMs: IN_MS * 2 });
      await rig.settle(one!);
      await rig.report(two!, { succeeded: [0], intent: "keep" });
      rig.clock.advance(IN_MS);
      await rig.sweep();
      expect((await rig.get(id)).counts).toMatchObject({ succeeded: 3, cancelled: 1 });
      expect(await rig.settle(two!)).toBe("lost");
      expect(await rig.recorded(id, "batch.ended")).toMatchObject([
        { state: "expired", code: "DEADLINE" },
      ]);
    },
  );

  rule("a jump of the wall clock past the deadline expires the batch", async ({ rig }) => {
    const id = await rig.running([1], due(rig));
    rig.clock.jumpWall(IN_MS);
    expect((await rig.sweep()).ended).toEqual([id]);
  });

  rule("a batch that ended in time does not expire later", async ({ rig }) => {
    const id = await rig.running([1], due(rig));
    await rig.settle(await rig.leaseOne());
    rig.clock.advance(IN_MS);
    expect((await rig.sweep()).ended).toEqual([]);
    expect(await rig.state(id)).toBe("succeeded");
  });

  rule(
    "the next sweep expires a batch whose deadline was over when it was submitted",
    async ({ rig }) => {
      const { id } = await rig.submit({ deadlineAt: rig.clock.wallMs() - 1 });
      expect((await rig.sweep()).ended).toEqual([id]);
    },
  );

  rule("one sweep passes a lane on through several expired holders", async ({ rig }) => {
    const lane = "main";
    const ids = [
      await rig.running([1], { ...due(rig), lane }),
      await rig.running([1], { ...due(rig), lane }),
    ];
    const last = await rig.running([1], { lane });
    rig.clock.advance(IN_MS);
    expect((await rig.sweep()).ended.toSorted()).toEqual(ids.toSorted());
    expect(await rig.get(last)).toMatchObject({ state: "running", active: true });
    // No batch was started only to expire.
    expect(await rig.recorded(ids[1]!, "batch.started")).toEqual([]);
  });

  rule("a deadline ends a batch that is being cancelled", async ({ rig }) => {
    const id = await rig.running([1], due(rig));
    await rig.leaseOne({ leaseMs: IN_MS * 9 });
    await rig.cancel(id, "drain");
    rig.clock.advance(IN_MS);
    expect((await rig.sweep()).ended).toEqual([id]);
    expect(await rig.state(id)).toBe("expired");
    expect(await rig.recorded(id, "batch.ended")).toHaveLength(1);
  });

  rule("a later step is under the same deadline", async ({ rig }) => {
    const id = await rig.running([1], { ...due(rig), settings: steps({}, { name: "two" }) });
    await rig.settle(await rig.leaseOne());
    rig.clock.advance(IN_MS);
    expect((await rig.sweep()).ended).toEqual([id]);
    expect((await rig.recordTypes(id)).slice(-3)).toEqual([
      "slicing.aborted",
      "batch.ended",
      "batch.released",
    ]);
  });

  rule(
    "a batch ends once when its deadline and its seal deadline are both over",
    async ({ rig }) => {
      const deadlineAt = rig.clock.wallMs() + SEAL_WITHIN_MS;
      const id = await rig.running([1], { deadlineAt, open: true });
      rig.clock.advance(SEAL_WITHIN_MS);
      expect((await rig.sweep()).ended).toEqual([id]);
      expect(await rig.get(id)).toMatchObject({ state: "expired", reason: { code: "DEADLINE" } });
    },
  );
}
