/**
 * A closed key stays unused: once the closing is committed, nothing of the key starts on any node
 * until it opens again, except what had the right to start before. A worker whose server asked for
 * the closing starts nothing with tokens that it holds. The same holds for a paced batch whose
 * items meet an outage.
 */
import type { TokenGrant } from "../../src/core/limits/bucket.ts";
import {
  type BucketRef,
  namePaceBucket,
  type TokenDraw,
} from "../../src/ports/store/token-store.ts";
import { nameRateBucket } from "../../src/runtime/pipeline/step-rate.ts";
import { type RatePlot, readRateKey } from "../traffic/limits.ts";
import type { ErrandRun } from "../traffic/errand.ts";
import type { Node } from "../world.ts";
import { type Checker, describeRun, findPlace, type Scene } from "./checker.ts";

/** A grant may become valid this much later, and is valid for this long. */
const AHEAD_MS = 200;
const USABLE_MS = 1_000;
/**
 * A worker that waited long for answers gets grants that last longer, but never longer than this.
 */
const SLACK_MS_MAX = 10_000;
/** No answer is later than this. */
const LATE_MS = 65_000;
/** By this time a closing has reached a store that has no faults. */
const STORED_WITHIN_MS = 1_000;
/** A store that has no faults answers within this time. */
const ANSWER_MS = 10;

interface Closing {
  /** By this time everything that was granted before has run out. */
  readonly from: number;
  readonly until: number;
}

export function checkClosedKeys(scene: Scene): Checker {
  const { time } = scene.world;
  const closings = new Map<string, Closing>();
  const usableUntil = new Map<string, number>();
  const own = checkOwn(scene);
  const noteDraws = (draws: readonly TokenDraw[], slackMs: number): void => {
    const goodMs = AHEAD_MS + Math.max(USABLE_MS, Math.min(slackMs, SLACK_MS_MAX));
    for (const ref of draws) {
      const name = nameKey(ref);
      usableUntil.set(name, Math.max(usableUntil.get(name) ?? 0, time.nowMs + goodMs));
    }
  };
  const noteClosing = (ref: BucketRef, forMs: number): void => {
    const name = nameKey(ref);
    const now = time.nowMs;
    const before = closings.get(name);
    const isClosed = before !== undefined && before.until > now;
    const from = isClosed ? before.from : Math.max(now, usableUntil.get(name) ?? 0);
    closings.set(name, { from, until: Math.max(before?.until ?? 0, now + forMs) });
  };
  /** Items that find the key closed do not extend the closing. */
  const noteOutage = (ref: BucketRef, forMs: number): void => {
    if ((closings.get(nameKey(ref))?.until ?? 0) <= time.nowMs) noteClosing(ref, forMs);
  };
  const checkOpen = (run: ErrandRun, name: string): void => {
    const closing = closings.get(name);
    const now = time.nowMs;
    if (closing === undefined || now < closing.from || now >= closing.until) return;
    scene.fail(`${describeRun(run)}, whose key ${name} is closed for ${closing.until - now} ms`);
  };
  return {
    onCommit: (node, verb, answer, args) => {
      if (verb === "draw") {
        noteDraws(args[0] as readonly TokenDraw[], args[1] as number);
        own.noteDraws(node, args[0] as readonly TokenDraw[], answer as readonly TokenGrant[]);
      }
      if (verb === "closeBucket") {
        noteClosing(args[0] as BucketRef, args[1] as number);
        own.noteStored(node, nameKey(args[0] as BucketRef));
      }
      if (verb === "noteOutage") {
        const [batch, step, forMs] = args as [string, number, number];
        noteOutage(namePaceBucket(batch, step), forMs);
      }
      own.checkStored();
      if (verb === "openBucket") {
        closings.delete(nameKey(args[0] as BucketRef));
        own.open(nameKey(args[0] as BucketRef));
      }
    },
    onFault: (kind, node) => {
      if (kind === "late_reply") own.trouble(node);
    },
    onTrouble: (node) => {
      for (const one of node === null ? scene.world.living : [node]) own.trouble(one);
    },
    onThrottle: (run, forMs) => own.close(run, forMs),
    onStart: (run) => {
      const { rate, pace } = run.plot;
      if (pace !== null) checkOpen(run, nameKey(namePaceBucket(run.batch, run.step)));
      if (rate === null) return;
      checkOpen(run, nameKeyOf(rate, run));
      own.check(run, nameKeyOf(rate, run));
    },
  };
}

/**
 * A node knows of its own closing without asking, unless an answer to an earlier request is late.
 */
function checkOwn(scene: Scene) {
  const { time } = scene.world;
  const told = new Map<string, { readonly at: number; readonly until: number }>();
  /** Closings that the store does not know yet. */
  const untold = new Map<string, { readonly run: ErrandRun; readonly at: number }>();
  const grantedAt = new Map<string, number>();
  /** When each node last met something that delays answers. */
  const troubledAt = new Map<Node, number>();
  const nameCode = ({ node, release, plot }: ErrandRun): string =>
    `${node.name}.${node.life}/${release.version}/${plot.name}`;
  return {
    close: (run: ErrandRun, forMs: number): void => {
      const { rate, byChunk } = run.plot;
      // The engine learns of a whole chunk only when all of it has ended.
      if (rate === null || byChunk) return;
      const now = time.nowMs;
      told.set(`${nameCode(run)} ${nameKeyOf(rate, run)}`, { at: now, until: now + forMs });
      // Elsewhere the call itself may be late, or be lost with its node.
      if (scene.plot.calm) untold.set(`${run.node.name} ${nameKeyOf(rate, run)}`, { run, at: now });
    },
    noteStored: ({ name }: Node, key: string): void => void untold.delete(`${name} ${key}`),
    /** Other nodes must learn of it soon. */
    checkStored: (): void => {
      for (const [name, { run, at }] of untold) {
        if (time.nowMs - at <= STORED_WITHIN_MS) continue;
        untold.delete(name);
        if (run.node.alive) scene.fail(`the store does not learn that ${name} is closed`);
      }
    },
    trouble: (node: Node): void => void troubledAt.set(node, time.nowMs),
    open: (name: string): void => {
      for (const one of told.keys()) if (one.endsWith(` ${name}`)) told.delete(one);
    },
    noteDraws: (node: Node, draws: readonly TokenDraw[], grants: readonly TokenGrant[]): void => {
      for (const [at, ref] of draws.entries()) {
        const grant = grants[at];
        if (grant === undefined) continue;
        const isGranted = grant.open || grant.atOnce > 0 || grant.inMs.length > 0;
        if (isGranted) grantedAt.set(`${node.name}.${node.life} ${nameKey(ref)}`, time.nowMs);
      }
    },
    check: (run: ErrandRun, name: string): void => {
      const { node } = run;
      const closing = told.get(`${nameCode(run)} ${name}`);
      if (closing === undefined || time.nowMs <= closing.at || time.nowMs >= closing.until) return;
      const newest = grantedAt.get(`${node.name}.${node.life} ${name}`) ?? 0;
      const troubled = troubledAt.get(node) ?? Number.NEGATIVE_INFINITY;
      // Items that are checked or announced first were already on their way.
      if (run.plot.checkMaxMs !== null || findPlace(scene, run)?.chunk.guarded !== false) return;
      if (newest > closing.at - ANSWER_MS || time.nowMs - troubled < LATE_MS) return;
      scene.fail(`${describeRun(run)} with a token of ${name} that it held when told to close it`);
    },
  };
}

function nameKeyOf(rate: RatePlot, { parcel }: ErrandRun): string {
  return nameKey({ bucket: nameRateBucket(rate.name), key: readRateKey(rate, parcel) });
}

function nameKey({ bucket, key }: BucketRef): string {
  return `${bucket}#${key}`;
}
