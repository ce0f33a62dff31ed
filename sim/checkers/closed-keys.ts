/**
 * A key that is closed is left alone: once the closing is committed, nothing of the key starts on any
 * node until it opens again, but for what had the right to before; and whoever was told so by a server
 * starts nothing with what it held. So is a paced batch whose items found nobody at the other end.
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

/** What is granted may begin so much later, and is good for so long. */
const AHEAD_MS = 200;
const USABLE_MS = 1_000;
/** Who has waited long for answers gets what lasts longer, but no longer than this. */
const SLACK_MS_MAX = 10_000;
/** No answer is later than this. */
const LATE_MS = 65_000;
/** By then a closing has reached a store that nothing is wrong with. */
const STORED_WITHIN_MS = 1_000;
/** Answers of a store that nothing is wrong with are back within this time. */
const ANSWER_MS = 10;

interface Closing {
  /** What was granted before has run out by then. */
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
  /** Those who find out while it is closed do not make it longer. */
  const noteOutage = (ref: BucketRef, forMs: number): void => {
    if ((closings.get(nameKey(ref))?.until ?? 0) <= time.nowMs) noteClosing(ref, forMs);
  };
  const checkOpen = (run: ErrandRun, name: string): void => {
    const closing = closings.get(name);
    const now = time.nowMs;
    if (closing === undefined || now < closing.from || now >= closing.until) return;
    scene.say(`${describeRun(run)}, whose key ${name} is closed for ${closing.until - now} ms`);
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

/** What a node was told itself it need not ask for; unless an answer to what it asked before is late. */
function checkOwn(scene: Scene) {
  const { time } = scene.world;
  const told = new Map<string, { readonly at: number; readonly until: number }>();
  /** Closings that the store was not told of so far. */
  const untold = new Map<string, { readonly run: ErrandRun; readonly at: number }>();
  const grantedAt = new Map<string, number>();
  /** When each node last met something that holds up answers. */
  const troubledAt = new Map<Node, number>();
  const nameCode = ({ node, release, plot }: ErrandRun): string =>
    `${node.name}.${node.life}/${release.version}/${plot.name}`;
  return {
    close: (run: ErrandRun, forMs: number): void => {
      const { rate, byChunk } = run.plot;
      // Of a whole chunk the engine hears when all of it is done.
      if (rate === null || byChunk) return;
      const now = time.nowMs;
      told.set(`${nameCode(run)} ${nameKeyOf(rate, run)}`, { at: now, until: now + forMs });
      // Elsewhere the call itself may be late, or be lost with its node.
      if (scene.plot.calm) untold.set(`${run.node.name} ${nameKeyOf(rate, run)}`, { run, at: now });
    },
    noteStored: ({ name }: Node, key: string): void => void untold.delete(`${name} ${key}`),
    /** Others must know it soon. */
    checkStored: (): void => {
      for (const [name, { run, at }] of untold) {
        if (time.nowMs - at <= STORED_WITHIN_MS) continue;
        untold.delete(name);
        if (run.node.alive) scene.say(`the store is not told that ${name} is to be left alone`);
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
      // Those that are looked at or announced first were on their way when it was told.
      if (run.plot.checkMaxMs !== null || findPlace(scene, run)?.chunk.guarded !== false) return;
      if (newest > closing.at - ANSWER_MS || time.nowMs - troubled < LATE_MS) return;
      scene.say(`${describeRun(run)} with what it held of ${name} when told to leave it alone`);
    },
  };
}

function nameKeyOf(rate: RatePlot, { parcel }: ErrandRun): string {
  return nameKey({ bucket: nameRateBucket(rate.name), key: readRateKey(rate, parcel) });
}

function nameKey({ bucket, key }: BucketRef): string {
  return `${bucket}#${key}`;
}
