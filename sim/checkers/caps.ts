/**
 * Promise 7, caps: at no instant do more handlers run in a capped batch, lane or pipeline than its
 * cap says, over all nodes. A handler whose lease has run out, or that got its stop signal, no
 * longer counts. After an operator lowers a cap, the old cap stays allowed for the time of a lease,
 * and handlers that started by then may finish.
 */
import type { Caps } from "../../src/core/limits/caps.ts";
import type { LimitRequest } from "../../src/ports/store/operator-store.ts";
import type { ErrandRun } from "../traffic/errand.ts";
import { listScopes, type ScopeName } from "../traffic/sharing.ts";
import { type Checker, describeRun, findPlace, type Place, type Scene } from "./checker.ts";

interface Running {
  readonly run: ErrandRun;
  readonly place: Place;
  readonly scopes: readonly ScopeName[];
  /** Caps that its batch declares. */
  readonly caps: Caps;
  /** When its lease runs out, as far as the checker knows. */
  liveUntil: number;
}

/** Operators' caps of a scope, in order of time; null where one was removed. */
type Changes = { readonly at: number; readonly value: number | null }[];

export function checkCaps(scene: Scene): Checker {
  const { time } = scene.world;
  const leaseMs = scene.plot.settings?.leaseMs ?? 2_000;
  const running = new Map<ErrandRun, Running>();
  const changes = new Map<string, Changes>();
  /** A lease that has run out once does not become valid again for what ran under it. */
  const forgetLapsed = (): void => {
    for (const [run, known] of running) {
      const { chunk } = known.place;
      const isHeld = chunk.state === "leased" && chunk.fence === run.fence;
      if (!run.node.alive || !isHeld || known.liveUntil <= time.nowMs) running.delete(run);
      else known.liveUntil = chunk.leaseUntil;
    }
  };
  const checkScope = (run: ErrandRun, { kind, name }: ScopeName, declared: number | null): void => {
    const cap = readCap(changes.get(name) ?? [], declared, time.nowMs, leaseMs);
    if (cap === null) return;
    const calls = new Set<number>();
    for (const other of running.values()) {
      if (other.run.startedAt < cap.since) continue;
      const counts = other.scopes.some((scope) => scope.name === name);
      const isCapped = (other.caps[kind] ?? null) !== null || declared === null;
      if (counts && isCapped) calls.add(other.run.call);
    }
    if (calls.size === cap.slots) scene.count("full caps");
    if (calls.size <= cap.slots) return;
    scene.fail(`${describeRun(run)} as the ${calls.size}th handler in ${name}, not ${cap.slots}`);
  };
  return {
    onCommit: (_node, verb, answer, args) => {
      if (verb === "setLimit" && answer === true) {
        const { kind, scope, name, value } = args[0] as LimitRequest;
        if (kind !== "cap" || (value !== null && typeof value !== "number")) return;
        const known = changes.get(`${scope}/${name}`) ?? [];
        changes.set(`${scope}/${name}`, known);
        known.push({ at: time.nowMs, value });
      }
      if (verb === "renew" || verb === "work" || verb === "sweep") forgetLapsed();
    },
    onStart: (run) => {
      const place = findPlace(scene, run);
      if (place === null) return;
      forgetLapsed();
      const { submission } = place.batch;
      const pipeline = scene.plot.pipelines.find(({ name }) => name === submission.pipeline);
      const caps = pipeline?.sharing?.caps ?? {};
      const scopes = listScopes(submission);
      running.set(run, { run, place, scopes, caps, liveUntil: place.chunk.leaseUntil });
      for (const scope of scopes) checkScope(run, scope, caps[scope.kind] ?? null);
    },
    onLeave: (run) => void running.delete(run),
  };
}

/**
 * The highest cap of the last `leaseMs`, and the time from which starts count against it: what
 * began while more was allowed does not count. Null if there was no cap at some time.
 */
function readCap(
  changes: Changes,
  declared: number | null,
  now: number,
  leaseMs: number,
): { readonly slots: number; readonly since: number } | null {
  let slots = declared ?? Number.POSITIVE_INFINITY;
  let highest = slots;
  let since = Number.NEGATIVE_INFINITY;
  for (const { at, value } of changes) {
    const next = value ?? declared ?? Number.POSITIVE_INFINITY;
    const isOver = at + leaseMs <= now;
    if (next < slots && isOver) since = at + leaseMs;
    highest = isOver ? next : Math.max(highest, next);
    slots = next;
  }
  return highest === Number.POSITIVE_INFINITY ? null : { slots: highest, since };
}
