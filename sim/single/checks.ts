/** What must hold when a world has come to rest. Each check returns the problems that it found. */
import { hash } from "node:crypto";
import { type Batch, countAll, currentStep } from "../../src/adapters/memory/state.ts";
import { isEnded } from "../../src/core/batch/batch.ts";
import { verifyChain } from "../../src/core/ledger/chain.ts";
import { describeError } from "../../src/core/base/errors.ts";
import { getOutcome, SUCCEEDED } from "../../src/core/items/outcome-map.ts";
import { DEATHS_MAX } from "../../src/core/items/poison.ts";
import type { DeadLetter } from "../../src/ports/store/query-store.ts";
import type { Behaviour, Workload } from "./workload.ts";
import { ATTEMPTS } from "./workload.ts";
import type { World } from "../world.ts";

export interface Scene {
  readonly world: World;
  readonly workload: Workload;
  readonly batch: Batch;
}

type Check = (scene: Scene) => Promise<string[]> | string[];

const EVERYTHING = { step: 0, afterItem: -1, limit: 1_000_000, filter: {}, sinceDrive: 1 };

/** Everything that must hold for a batch that ended because its items did. */
export async function checkEnding(scene: Scene): Promise<string[]> {
  const checks: Check[] = [
    checkEnded,
    checkHonesty,
    checkRecords,
    checkRanges,
    checkOutcomes,
    checkResults,
    checkLogs,
  ];
  const found: string[] = [];
  for (const check of checks) found.push(...(await check(scene)));
  return found;
}

function checkEnded({ batch }: Scene): string[] {
  const { state, reason } = batch;
  const counts = countAll(batch);
  return [
    ...(reason === null ? [] : [`the batch ended early: ${reason.code}: ${reason.message}`]),
    ...(isEnded(state) ? [] : [`the batch never ends; it is ${state}: ${JSON.stringify(counts)}`]),
    ...(counts.pending === 0 ? [] : [`${counts.pending} items are pending at the end`]),
  ];
}

/** A batch with a failure never ends as succeeded, and every failure has its dead letter. */
async function checkHonesty({ world, batch }: Scene): Promise<string[]> {
  const { state, submission } = batch;
  const counts = countAll(batch);
  const letters = await world.store.readDeadLetters(submission.id, EVERYTHING);
  const found: string[] = [];
  const honest = counts.failed > 0 ? "completed_with_errors" : "succeeded";
  if (isEnded(state) && state !== honest) {
    found.push(`${counts.failed} items failed and the batch is ${state}`);
  }
  if (letters.length !== counts.failed) {
    found.push(`${counts.failed} items failed and there are ${letters.length} dead letters`);
  }
  return found;
}

/** The chain verifies; it has one ending, with the batch's counts. */
export async function checkRecords({ world, batch }: Scene): Promise<string[]> {
  const records = await world.store.readRecords(batch.submission.id, 0, 1_000);
  const verdict = verifyChain(records, (text) => hash("sha256", text));
  const found = verdict.kind === "intact" ? [] : [`the chain breaks: ${verdict.why}`];
  const endings = records.filter(({ type }) => type === "batch.ended");
  if (endings.length !== 1) found.push(`${endings.length} endings are recorded`);
  for (const { body } of endings) {
    const { data } = JSON.parse(body) as { data: { state: string; counts: unknown } };
    if (data.state !== batch.state) found.push(`recorded as ${data.state}, but is ${batch.state}`);
    if (JSON.stringify(sortKeys(data.counts)) !== JSON.stringify(sortKeys(countAll(batch)))) {
      found.push(`the recorded ending says ${JSON.stringify(data.counts)}`);
    }
  }
  return found;
}

function sortKeys(value: unknown): unknown {
  return Object.entries(value as object).toSorted(([a], [b]) => (a < b ? -1 : 1));
}

/** The plan has no gap and no repeat, and has every item. */
function checkRanges({ workload, batch }: Scene): string[] {
  const found: string[] = [];
  let expected = 0;
  for (const { start, end } of currentStep(batch).chunks) {
    if (start !== expected) found.push(`a chunk starts at ${start}, not ${expected}`);
    expected = end;
  }
  const planned = workload.items.length;
  if (expected !== planned) found.push(`${expected} items are planned, not ${planned}`);
  return found;
}

/** Each item has the outcome that follows from its behaviour and from the deaths of its runs. */
async function checkOutcomes({ world, workload, batch }: Scene): Promise<string[]> {
  const letters = await world.store.readDeadLetters(batch.submission.id, EVERYTHING);
  const byItem = new Map(letters.map((letter) => [letter.item, letter]));
  const killers = workload.options.behaviours.filter(({ does }) => does === "kill").length;
  return workload.options.behaviours.flatMap((behaviour, item) => {
    const letter = byItem.get(item);
    const runs = workload.runs.filter((run) => run.item === item);
    // A node that died for another reason may have died before it could report. Items that are
    // handled together start together, so one of them can kill others that never ran.
    const mayBeUnseen = world.leaseFaults > 0 || workload.options.byChunk === true;
    const seen = runs.filter(({ end }) => end === null).length;
    // Another killer of the same guarded wave may end the node after this item's start was written
    // and before its handler was called.
    const mayDieBefore = seen > 0 && behaviour.does === "kill" && killers > 1;
    const cutShort = mayBeUnseen ? DEATHS_MAX : seen + (mayDieBefore ? 1 : 0);
    const problem =
      letter === undefined
        ? findWrongSuccess(behaviour)
        : findWrongDeath(behaviour, letter, cutShort, workload.options.attempts ?? ATTEMPTS);
    if (problem !== null) return [`item ${item} (${behaviour.does}) ${problem}`];
    // Its node may have died three times between announcing the start and starting the item.
    const mayNotHaveRun = letter?.code === "POISON" && world.leaseFaults > 0;
    return runs.length === 0 && !mayNotHaveRun ? [`item ${item} never ran`] : [];
  });
}

function findWrongSuccess(behaviour: Behaviour): string | null {
  return behaviour.does === "refuse" || behaviour.does === "kill" ? "is not a dead letter" : null;
}

function findWrongDeath(
  behaviour: Behaviour,
  { code, attempts, deaths }: DeadLetter,
  cutShort: number,
  limit: number,
): string | null {
  const said = `is a dead letter: ${code}, ${attempts} attempts, ${deaths} deaths`;
  if (code === "POISON") {
    // The first death counts for a whole chunk; the others are the item's own.
    const deserved = deaths === DEATHS_MAX && cutShort >= DEATHS_MAX - 1;
    return deserved ? null : `${said}, but was interrupted ${cutShort} times`;
  }
  const gaveUp = attempts >= limit && attempts <= limit + deaths;
  if (behaviour.does === "refuse") return code === "REFUSED" ? null : said;
  if (behaviour.does === "stumble") return code === "STUMBLED" && gaveUp ? null : said;
  if (behaviour.does === "hang") return code === "TIME_LIMIT" && gaveUp ? null : said;
  return said;
}

/** An item that succeeded and returned a result has exactly that one result. */
async function checkResults({ world, workload, batch }: Scene): Promise<string[]> {
  const results = await world.store.readResults(batch.submission.id, EVERYTHING);
  const byItem = new Map(results.map((result) => [result.item, result]));
  return currentStep(batch).chunks.flatMap(({ start, end, outcomes }) =>
    Array.from({ length: end - start }, (_, position) => {
      const item = start + position;
      const returns = workload.options.behaviours[item]?.does === "return";
      const wanted = returns && getOutcome(outcomes, position) === SUCCEEDED;
      const stored = byItem.get(item);
      if (!wanted) return stored === undefined ? null : `item ${item} has a result`;
      const right = stored?.value === JSON.stringify({ n: item }) && stored.key === `key-${item}`;
      return right ? null : `item ${item} has the result ${JSON.stringify(stored)}`;
    }).filter((problem) => problem !== null),
  );
}

/** The engine's self-check reported nothing, and no engine gave up. */
function checkLogs({ world, workload }: Scene): string[] {
  const fatal = workload.options.behaviours.some(({ does }) => does === "stop_worker");
  return world.nodes.flatMap(({ name, life, logs, failure }) => [
    ...logs
      .filter(({ level, event }) => level === "error" && !(fatal && event === "engine.failed"))
      .map(({ event, message }) => `${name}.${life} says ${event}: ${message}`),
    ...(failure === null || fatal
      ? []
      : [`${name}.${life} gave up: ${describeError(failure).message}`]),
  ]);
}
