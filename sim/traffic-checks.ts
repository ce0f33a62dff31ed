/** What must hold when many batches have come to rest. Each check answers what it found wrong. */
import { hash } from "node:crypto";
import { type Batch, countAll, type Step } from "../src/adapters/memory/state.ts";
import { isEnded } from "../src/core/batch.ts";
import { verifyChain } from "../src/core/chain.ts";
import { describeError } from "../src/core/errors.ts";
import { getOutcome, SKIPPED, SUCCEEDED } from "../src/core/outcome-map.ts";
import { readManifest } from "../src/runtime/manifest.ts";
import type { Errands, Parcel, PipelinePlot, StepPlot } from "./errands.ts";
import type { World } from "./world.ts";

export interface TrafficScene {
  readonly world: World;
  readonly errands: Errands;
  readonly pipelines: ReadonlyMap<string, PipelinePlot>;
}

interface Place {
  readonly batch: Batch;
  readonly step: Step;
  readonly number: number;
  readonly plot: StepPlot;
}

const EVERYTHING = { afterItem: -1, limit: 1_000_000, filter: {}, sinceDrive: 1 };

export async function checkTraffic(scene: TrafficScene): Promise<string[]> {
  const found: string[] = [...checkLogs(scene), ...checkContents(scene)];
  for (const batch of scene.world.store.state.batches.values()) {
    const of = batch.submission.key ?? batch.submission.id;
    const problems = [...checkEnding(batch), ...(await checkRecords(scene, batch))];
    for (const place of listPlaces(scene, batch)) {
      const inStep = [...(await checkLetters(scene, place)), ...checkItems(scene, place)];
      problems.push(...inStep.map((problem) => `step ${place.number}: ${problem}`));
    }
    problems.push(...checkPassage(scene, batch));
    found.push(...problems.map((problem) => `${of}: ${problem}`));
  }
  return found;
}

function listPlaces({ pipelines }: TrafficScene, batch: Batch): Place[] {
  const plots = pipelines.get(batch.submission.pipeline)?.steps ?? [];
  return batch.steps.map((step, number) => ({
    batch,
    step,
    number,
    plot: plots[number] as StepPlot,
  }));
}

/** Honest: each word for an ending has its conditions. */
function checkEnding(batch: Batch): string[] {
  const { state, reason, cancel } = batch;
  const { pending, failed, cancelled } = countAll(batch);
  const said = `is ${state} with ${failed} failed, ${cancelled} cancelled, ${pending} pending`;
  const found = isEnded(state) && pending === 0 ? [] : [said];
  if (batch.active || batch.parked !== null) found.push("holds its lane, or is parked");
  const stopped = state === "failed" || state === "cancelled" || state === "expired";
  if (!stopped && cancelled > 0) found.push(said);
  if (state === "succeeded" && failed > 0) found.push(said);
  if (state === "completed_with_errors" && failed === 0) found.push(said);
  if ((state === "cancelled") !== (cancel !== null && stopped)) {
    if (state === "cancelled") found.push("is cancelled by nobody");
  }
  const reasons = { failed: ["FAILURE_BUDGET", "CANARY_FAILED"], expired: ["DEADLINE"] };
  const allowed = state === "failed" || state === "expired" ? reasons[state] : null;
  if (allowed === null && reason !== null) found.push(`${state}, because ${reason.code}`);
  if (allowed !== null && !allowed.includes(reason?.code ?? "")) {
    found.push(`${state}, because ${reason?.code}: ${reason?.message}`);
  }
  return found;
}

/** The chain verifies, and the last ending says what the batch is. */
async function checkRecords({ world }: TrafficScene, batch: Batch): Promise<string[]> {
  const records = await world.store.readRecords(batch.submission.id, 0, 10_000);
  const verdict = verifyChain(records, (text) => hash("sha256", text));
  const found = verdict.kind === "intact" ? [] : [`the chain breaks: ${verdict.why}`];
  const ending = records.findLast(({ type }) => type === "batch.ended");
  const { data } = JSON.parse(ending?.body ?? '{"data":{}}') as {
    data: { state?: string; drive?: number; counts?: object };
  };
  if (data.state !== batch.state) found.push(`recorded as ${data.state}, is ${batch.state}`);
  if (data.drive !== batch.drive) found.push(`recorded in drive ${data.drive}, not ${batch.drive}`);
  const counts = countAll(batch);
  for (const [name, count] of Object.entries(data.counts ?? {})) {
    if (count !== counts[name as keyof typeof counts]) found.push(`recorded ${name} ${count}`);
  }
  return found;
}

/** No failure without its dead letter, and no letter of an item that succeeded. */
async function checkLetters({ world }: TrafficScene, place: Place): Promise<string[]> {
  const { batch, number, step } = place;
  const letters = await world.store.readDeadLetters(batch.submission.id, {
    ...EVERYTHING,
    step: number,
  });
  const { failed } = step.counts;
  return letters.length === failed ? [] : [`${failed} failed, ${letters.length} dead letters`];
}

/** Each item came to an end that what it does can lead to, and has its result if it succeeded. */
function checkItems({ errands }: TrafficScene, place: Place): string[] {
  const { step, number, plot } = place;
  if (plot.waits) return [];
  const found: string[] = [];
  for (const [item, parcel] of listParcels(errands, place).entries()) {
    const outcome = outcomeOf(step, item);
    const { does } = errands.getDoing(parcel, number);
    const what = `${parcel.key}/${parcel.n} (${does})`;
    const refused = does === "refuse" && parcel.mended !== true;
    if (outcome === SUCCEEDED && (refused || does === "skip" || does === "kill")) {
      found.push(`${what} succeeded`);
    }
    if (outcome === SKIPPED && does !== "skip" && !plot.dedupes) found.push(`${what} was skipped`);
    const result = step.results.get(item);
    if ((outcome === SUCCEEDED) !== (result !== undefined)) {
      found.push(`${what} has outcome ${outcome} and the result ${result?.value}`);
    }
    if (result !== undefined && result.value !== JSON.stringify(parcel)) {
      found.push(`${what} has the result ${result.value}`);
    }
  }
  return found;
}

/** What a step gave, the next one that works on results got: each once, and nothing else. */
function checkPassage(scene: TrafficScene, batch: Batch): string[] {
  if (batch.state !== "succeeded" && batch.state !== "completed_with_errors") return [];
  const places = listPlaces(scene, batch);
  const expected = scene.pipelines.get(batch.submission.pipeline)?.steps.length ?? 0;
  const found = places.length === expected ? [] : [`${places.length} steps of ${expected}`];
  let given: string[] | null = null;
  for (const place of places) {
    if (place.plot.waits) continue;
    const came = listParcels(scene.errands, place, true);
    const got = came.map((parcel) => JSON.stringify(parcel));
    if (given !== null && got.toSorted().join() !== given.toSorted().join()) {
      found.push(`step ${place.number} got ${got.join()} of ${given.join()}`);
    }
    given = [...place.step.results.values()].map(({ value }) => value);
  }
  return found;
}

/** No two items with the same content both succeeded, and none was skipped for nothing. */
function checkContents(scene: TrafficScene): string[] {
  const { world, errands } = scene;
  const successes = new Map<string, number>();
  const skips: { readonly content: string; readonly what: string }[] = [];
  for (const batch of world.store.state.batches.values()) {
    for (const place of listPlaces(scene, batch)) {
      if (!place.plot.dedupes) continue;
      for (const [item, parcel] of listParcels(errands, place).entries()) {
        const content = `${batch.submission.pipeline}/${errands.getContent(parcel)}`;
        const outcome = outcomeOf(place.step, item);
        if (outcome === SUCCEEDED) successes.set(content, (successes.get(content) ?? 0) + 1);
        const skipsItself = errands.getDoing(parcel, place.number).does === "skip";
        if (outcome === SKIPPED && !skipsItself) {
          skips.push({ content, what: `${parcel.key}/${parcel.n}` });
        }
      }
    }
  }
  return [
    ...[...successes]
      .filter(([, times]) => times > 1)
      .map(([content, times]) => `${times} items with the content ${content} succeeded`),
    ...skips
      .filter(({ content }) => !successes.has(content))
      .map(({ what, content }) => `${what} was skipped, but nothing with ${content} succeeded`),
  ];
}

function outcomeOf({ chunks }: Step, item: number): number {
  const chunk = chunks.find(({ start, end }) => start <= item && item < end);
  return chunk === undefined ? -1 : getOutcome(chunk.outcomes, item - chunk.start);
}

/** The items of a step, in order, as they were edited; or as they came. */
function listParcels(errands: Errands, { batch, step }: Place, asTheyCame = false): Parcel[] {
  const all = errands.listItems(batch.submission.key ?? "");
  return step.chunks.flatMap(({ start, end, locator, manifest }) =>
    Array.from({ length: end - start }, (_, at) => {
      const edited = asTheyCame ? undefined : step.overrides.get(start + at);
      if (edited !== undefined) return JSON.parse(edited) as Parcel;
      if (manifest !== null) return readManifest(manifest).at(at) as Parcel;
      return all[Number((locator ?? "").split("-")[0]) + at] as Parcel;
    }),
  );
}

/** The engine's own self-check said nothing, and nobody gave up. */
function checkLogs({ world }: TrafficScene): string[] {
  return world.nodes.flatMap(({ name, life, logs, failure }) => [
    ...logs
      .filter(({ level }) => level === "error")
      .map(({ event, message }) => `${name}.${life} says ${event}: ${message}`),
    ...(failure === null ? [] : [`${name}.${life} gave up: ${describeError(failure).message}`]),
  ]);
}
