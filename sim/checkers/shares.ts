/**
 * Promise 7, shares: two tenants of a pipeline that both have work to lease for a while get handler
 * time by their weights, to within a few leases of each node. A window is judged only if nothing
 * else delayed either of them, and if it was long enough: if one of them had got everything, that
 * would have been too much.
 */
import type { Step } from "../../src/adapters/memory/state.ts";
import type { LimitRequest } from "../../src/ports/store/operator-store.ts";
import type {
  ContentClaim,
  LeasedChunk,
  LeaseRef,
  Report,
  SweepResult,
} from "../../src/ports/store/worker-store.ts";
import type { ErrandRun, PipelinePlot, SharingPlot } from "../traffic/errand.ts";
import { readTenant } from "../traffic/sharing.ts";
import type { Node } from "../world.ts";
import { type Checker, findPlace, listBatches, type Scene } from "./checker.ts";
import { listLeased } from "./fencing.ts";
import { listPauses } from "./pauses.ts";

/** What each node may be ahead or behind, for each of the two. */
const LEASES = 1.5;

/** A time in which two tenants had work of the same step to lease. */
interface Stretch {
  readonly pipeline: string;
  readonly since: number;
  readonly services: readonly [Service, Service];
  /** Nodes that have leased anything. */
  readonly nodes: Set<string>;
  /** The most items that one lease had. */
  itemsMax: number;
}

interface Service {
  readonly tenant: string;
  readonly weight: number;
  /**
   * What its leases from before this window count in it: what was charged in advance, and the time
   * they really took, which is charged when it is reported, however long ago the lease was.
   */
  ahead: number;
  /** Handler time, and the calls in which it was used. */
  ms: number;
  calls: number;
  /** The longest handler. */
  longestMs: number;
}

interface Running {
  readonly pipeline: string;
  readonly tenant: string;
  /** When its chunk was leased. */
  readonly leasedAt: number;
}

export function checkShares(scene: Scene): Checker {
  const { world, plot } = scene;
  const { time } = world;
  const { state } = world.store;
  const fair = plot.pipelines.filter(isShared);
  if (fair.length === 0) return {};
  /** By pipeline, step, version and the two tenants. */
  const stretches = new Map<string, Stretch>();
  const running = new Map<ErrandRun, Running>();
  /** When each chunk was leased last. */
  const leasedAt = new Map<string, number>();

  /** The tenant of a batch, if its pipeline is judged. */
  const findOwner = (id: string): { pipeline: string; tenant: string } | null => {
    const { pipeline, lane } = state.batches.get(id)?.submission ?? {};
    const sharing = fair.find(({ name }) => name === pipeline)?.sharing;
    if (pipeline === undefined || lane === undefined || sharing === undefined) return null;
    return { pipeline, tenant: readTenant(sharing, lane) };
  };
  /** What running leases were charged, beyond what their handlers have used so far. */
  const computeOpen = (stretch: Stretch, { tenant, weight }: Service): number => {
    const isMeant = (owner: { pipeline: string; tenant: string } | null): boolean =>
      owner?.pipeline === stretch.pipeline && owner.tenant === tenant;
    let charged = 0;
    for (const { submission, step, steps } of listBatches(scene)) {
      if (!isMeant(findOwner(submission.id))) continue;
      for (const [at, chunk] of (steps[step]?.chunks ?? []).entries()) {
        const since = leasedAt.get(`${submission.id}/${step}/${at}`) ?? 0;
        if (chunk.state === "leased" && since >= stretch.since) charged += chunk.account.charge;
      }
    }
    for (const [run, where] of running) {
      if (!isMeant(where) || where.leasedAt < stretch.since || !run.node.alive) continue;
      charged -= (time.nowMs - run.startedAt) / weight;
    }
    return Math.max(0, charged);
  };

  const serve = (run: ErrandRun, where: Running, stretch: Stretch): void => {
    const service = stretch.services.find(({ tenant }) => tenant === where.tenant);
    if (service === undefined || stretch.pipeline !== where.pipeline) return;
    // A tenant that was alone before has leased without limit.
    if (where.leasedAt < stretch.since) return;
    const tookMs = time.nowMs - run.startedAt;
    service.ms += tookMs;
    service.calls++;
    service.longestMs = Math.max(service.longestMs, tookMs);
  };
  const close = (id: string, stretch: Stretch): void => {
    stretches.delete(id);
    for (const [run, where] of running) if (run.node.alive) serve(run, where, stretch);
    const facts = compare(
      stretch,
      stretch.services.map((service) => computeOpen(stretch, service)),
    );
    if (facts === null) return;
    scene.count("shares");
    if (facts.apart <= facts.allowed) return;
    const [one, other] = stretch.services;
    const lastedMs = time.nowMs - stretch.since;
    const what = `${one.tenant} and ${other.tenant} of ${stretch.pipeline}`;
    scene.fail(`${what} do not get their shares in ${lastedMs} ms`, { ...facts, one, other });
  };
  const closeAll = (): void => {
    for (const [id, stretch] of stretches) close(id, stretch);
    for (const run of running.keys()) if (!run.node.alive) running.delete(run);
  };
  const open = (pipeline: string, pair: readonly [string, string]): Stretch => {
    const [one, other] = pair.map((tenant): Service => {
      const weight = readWeight(scene, pipeline, tenant);
      const finish = state.shares.get(`${pipeline}/${tenant}`)?.finish ?? 0;
      const ahead = Math.max(0, finish - (state.shareClocks.get(pipeline)?.virtual ?? 0));
      return { tenant, weight, ahead, ms: 0, calls: 0, longestMs: 0 };
    }) as [Service, Service];
    return { pipeline, since: time.nowMs, services: [one, other], nodes: new Set(), itemsMax: 0 };
  };
  const look = (): void => {
    const found = new Map<string, { pipeline: string; pair: readonly [string, string] }>();
    for (const { name, sharing } of fair) {
      const backlog = findBacklog(scene, name, sharing);
      for (const pair of listPairs(backlog.tenants)) {
        found.set(`${name} ${backlog.id} ${pair.join(" ")}`, { pipeline: name, pair });
      }
    }
    for (const [id, stretch] of stretches) if (!found.has(id)) close(id, stretch);
    for (const [id, { pipeline, pair }] of found) {
      if (!stretches.has(id)) stretches.set(id, open(pipeline, pair));
    }
  };
  const noteReports = (reports: readonly Report[]): void => {
    for (const { batch, step, chunk, busyMs } of reports) {
      const owner = findOwner(batch);
      const at = leasedAt.get(`${batch}/${step}/${chunk}`) ?? 0;
      for (const { pipeline, since, services } of stretches.values()) {
        if (pipeline !== owner?.pipeline || at >= since) continue;
        const service = services.find((one) => one.tenant === owner.tenant);
        if (service !== undefined) service.ahead += busyMs / service.weight;
      }
    }
  };
  /** Work whose content is running or done costs nothing, however often it is leased. */
  const noteClaims = ({ batch }: LeaseRef, claims: readonly ContentClaim[] | null): void => {
    if (claims === null || claims.every((claim) => claim === "claimed")) return;
    const owner = findOwner(batch);
    for (const [id, stretch] of stretches) {
      if (stretch.pipeline !== owner?.pipeline) continue;
      if (stretch.services.some(({ tenant }) => tenant === owner.tenant)) close(id, stretch);
    }
  };
  const noteLease = (node: Node, leased: readonly LeasedChunk[]): void => {
    for (const { batch, step, chunk } of leased) {
      leasedAt.set(`${batch}/${step}/${chunk}`, time.nowMs);
    }
    for (const stretch of stretches.values()) {
      const ours = leased.filter(
        ({ batch }) => state.batches.get(batch)?.submission.pipeline === stretch.pipeline,
      );
      if (ours.length === 0) continue;
      stretch.nodes.add(node.name);
      const items = ours.reduce((sum, { start, end }) => sum + end - start, 0);
      stretch.itemsMax = Math.max(stretch.itemsMax, items);
    }
  };
  return {
    onCommit: (node, verb, answer, args) => {
      if (verb === "work") noteReports(args[0] as readonly Report[]);
      if (verb === "claimContents") {
        noteClaims(args[0] as LeaseRef, answer as readonly ContentClaim[] | null);
      }
      noteLease(node, listLeased(verb, answer));
      // A lost lease stays as it was charged, whatever it took.
      const isLoss = verb === "sweep" && (answer as SweepResult).lostLeases > 0;
      const isWeight = verb === "setLimit" && (args[0] as LimitRequest).kind === "weight";
      if (isLoss || isWeight) closeAll();
      look();
    },
    // A lease whose answer never arrived is charged all the same.
    onFault: (_kind, _node, verb) => {
      if (verb === "work" || verb === "planInline") closeAll();
    },
    onCrash: closeAll,
    onRetire: closeAll,
    onTrouble: closeAll,
    onStart: (run) => {
      const place = findPlace(scene, run);
      if (place === null) return;
      const owner = findOwner(run.batch);
      if (owner === null) return;
      const at = leasedAt.get(`${run.batch}/${run.step}/${place.at}`) ?? 0;
      running.set(run, { ...owner, leasedAt: at });
    },
    onLeave: (run) => {
      const where = running.get(run);
      running.delete(run);
      if (where === undefined) return;
      for (const stretch of stretches.values()) serve(run, where, stretch);
    },
    atEnd: closeAll,
  };
}

/** An operator's weight, or the pipeline's. */
function readWeight({ world, plot }: Scene, pipeline: string, tenant: string): number {
  const limits = [...world.store.state.limits.values()];
  const set = limits.find(
    ({ kind, name }) => kind === "weight" && name === `${pipeline}/${tenant}`,
  )?.value;
  const declared = plot.pipelines.find(({ name }) => name === pipeline)?.sharing?.weights[tenant];
  return typeof set === "number" ? set : (declared ?? 1);
}

function listPairs(tenants: readonly string[]): (readonly [string, string])[] {
  return tenants.flatMap((one, at) => tenants.slice(at + 1).map((other) => [one, other] as const));
}

type Shared = PipelinePlot & { readonly sharing: SharingPlot };

/** Only weights decide which tenant is next. */
function isShared(pipeline: PipelinePlot): pipeline is Shared {
  const { steps, sharing } = pipeline;
  if (sharing === undefined || Object.keys(sharing.caps).length > 0) return false;
  return steps.every(({ rate, pace, byChunk }) => rate === null && pace === null && !byChunk);
}

/** Tenants that all have work to lease, of one step and for the same nodes. */
function findBacklog(
  scene: Scene,
  pipeline: string,
  sharing: SharingPlot,
): { readonly id: string; readonly tenants: readonly string[] } {
  const { state } = scene.world.store;
  const batches = listBatches(scene).filter(
    ({ submission, state: now }) => submission.pipeline === pipeline && now === "running",
  );
  const [first] = batches;
  const isOdd = batches.some(
    (batch) =>
      batch.step !== first?.step ||
      batch.submission.version !== first.submission.version ||
      batch.cancel !== null ||
      listPauses(state, batch).length > 0 ||
      batch.steps[batch.step]?.canaryChunks !== null,
  );
  if (first === undefined || isOdd) return { id: "", tenants: [] };
  const busy = batches.filter((batch) => hasWork(scene, batch.steps[batch.step]));
  const tenants = new Set(busy.map(({ submission }) => readTenant(sharing, submission.lane)));
  return { id: `${first.step} ${first.submission.version}`, tenants: [...tenants].toSorted() };
}

function hasWork({ world }: Scene, step: Step | undefined): boolean {
  const now = world.time.nowMs;
  return (step?.chunks ?? []).some(
    ({ state, dueAt }) => state === "planned" || (state === "waiting" && dueAt <= now),
  );
}

/**
 * The distance between two tenants by weight, and the largest allowed; null if the window was too
 * short to tell. `open` is what each was charged in advance for running leases: a node that died,
 * or waits for an answer, has used none of it yet.
 */
function compare(
  { nodes, itemsMax, services: [one, other] }: Stretch,
  open: readonly number[],
): { readonly apart: number; readonly allowed: number } | null {
  const lease = ({ ms, calls, longestMs, weight }: Service): number =>
    ((itemsMax * ms) / Math.max(1, calls) + longestMs) / weight;
  const allowed =
    LEASES * nodes.size * (lease(one) + lease(other)) +
    Math.max(one.ahead, other.ahead) +
    Math.max(...open);
  const total = (one.ms + other.ms) / Math.max(one.weight, other.weight);
  if (nodes.size === 0 || total <= 2 * allowed) return null;
  return { apart: Math.abs(one.ms / one.weight - other.ms / other.weight), allowed };
}
