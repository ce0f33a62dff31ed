/** A world whose store is in the process: calls take no time, and every commit is told at once. */
import { describe, expect, test } from "vitest";
import { type Node, World } from "../world.ts";
import { faultAtCall } from "../faults.ts";

const HOUR_MS = 3_600_000;

async function play(world: World, ...programs: readonly ((node: Node) => Promise<void>)[]) {
  const nodes = programs.map((program, at) => world.boot(`n${at + 1}`, program));
  const isOver = (): boolean => world.spins || nodes.every(({ done, failure }) => done || failure);
  return { nodes, ended: await world.run(isOver, HOUR_MS) };
}

describe("an embedded store", () => {
  test("answers a thousand calls without time passing", async () => {
    const world = new World({ seed: 1, embedded: true });
    await play(world, async ({ store }) => {
      for (let call = 0; call < 1_000; call++) await store.claim("task", call, 1);
    });
    expect(world.time.elapsedMs).toBe(0);
    expect(world.calls).toBe(1_000);
  });

  test("tells every commit to every node, before its caller has the answer", async () => {
    const world = new World({ seed: 1, embedded: true });
    const heard: string[] = [];
    await play(
      world,
      async ({ store }) => void store.watch(() => heard.push("other told")),
      async ({ store }) => {
        store.watch(() => heard.push("caller told"));
        await store.claim("task", 1, 1_000);
        heard.push("answered");
      },
    );
    expect(heard).toEqual(["other told", "caller told", "answered"]);
  });

  test("tells a frozen node after it has thawed, and a dead node never", async () => {
    const world = new World({ seed: 1, embedded: true });
    const heard: (string | number)[] = [];
    const { nodes } = await play(
      world,
      async ({ store }) => void store.watch(() => heard.push(world.time.elapsedMs)),
      async ({ store }) => void store.watch(() => heard.push("dead")),
      async ({ store, clock }) => {
        findNode(world, "n1").clock.freeze(70);
        world.crash(findNode(world, "n2"));
        await store.claim("task", 1, 1_000);
        await clock.dawdle(100);
      },
    );
    expect(nodes.map(({ alive }) => alive)).toEqual([true, false, true]);
    expect(heard).toEqual([70]);
  });

  test("commits the call of a node that dies after it, which gets no answer", async () => {
    const faults = faultAtCall("n1", 1, { kind: "crash_after" });
    const world = new World({ seed: 1, embedded: true, faults });
    let answer: unknown = "none";
    const { ended } = await play(world, async ({ store }) => {
      answer = await store.claim("task", 1, 1_000);
    });
    expect([answer, ended]).toEqual(["none", false]);
    expect(await world.store.claim("task", 2, 1_000)).toBe(false);
  });

  test("ends a play in which nodes call it without end at one instant", async () => {
    const world = new World({ seed: 1, embedded: true });
    const { ended } = await play(world, async ({ store }) => {
      for (;;) await store.claim("task", 1, 1_000);
    });
    expect([ended, world.spins]).toEqual([true, true]);
  });
});

function findNode(world: World, name: string): Node {
  return world.nodes.find((node) => node.name === name) as Node;
}
