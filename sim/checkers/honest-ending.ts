/** Promise 4: each ending state has its conditions, and the record of the ending says the same. */
import { type Batch, countAll } from "../../src/adapters/memory/state.ts";
import { isEnded } from "../../src/core/batch/batch.ts";
import { type Checker, listBatches, nameBatch, type Scene } from "./checker.ts";

const REASONS: Readonly<Record<string, readonly string[]>> = {
  failed: ["FAILURE_BUDGET", "CANARY_FAILED"],
  expired: ["DEADLINE", "SEAL_DEADLINE"],
};

export function checkHonestEnding(scene: Scene): Checker {
  return {
    atEnd: async () => {
      for (const batch of listBatches(scene)) {
        const fail = (problem: string): void => scene.fail(`${nameBatch(batch)} ${problem}`);
        checkWord(batch, fail);
        checkReason(scene, batch, fail);
        await checkRecord(scene, batch, fail);
      }
    },
  };
}

function checkWord(batch: Batch, fail: (problem: string) => void): void {
  const { state, cancel } = batch;
  const { pending, failed, cancelled } = countAll(batch);
  const said = `is ${state} with ${failed} failed, ${cancelled} cancelled, ${pending} pending`;
  if (!isEnded(state) || pending > 0) fail(said);
  if (batch.active || batch.parked !== null) fail("holds its lane, or is parked");
  const stopped = state === "failed" || state === "cancelled" || state === "expired";
  if (!stopped && cancelled > 0) fail(said);
  if (state === "succeeded" && failed > 0) fail(said);
  if (state === "completed_with_errors" && failed === 0) fail(said);
  if (state === "cancelled" && cancel === null) fail("is cancelled without a cancel");
}

function checkReason(scene: Scene, batch: Batch, fail: (problem: string) => void): void {
  const { state, reason, submission } = batch;
  const allowed = REASONS[state] ?? null;
  if (allowed === null && reason !== null) fail(`is ${state}, because ${reason.code}`);
  if (allowed !== null && !allowed.includes(reason?.code ?? "")) {
    fail(`is ${state}, because ${reason?.code}: ${reason?.message}`);
  }
  const { deadlineInMs = null } = scene.errands.errands.get(submission.key ?? "") ?? {};
  if (reason?.code === "DEADLINE" && deadlineInMs === null) fail("expired, and has no deadline");
  const plots = scene.plot.pipelines.find(({ name }) => name === submission.pipeline)?.steps;
  if (reason?.code === "FAILURE_BUDGET" && plots?.every((step) => step.failureBudget === null)) {
    fail("failed by a budget that it does not have");
  }
  if (reason?.code === "CANARY_FAILED" && plots?.every((step) => step.canary === null)) {
    fail("failed by a canary that it does not have");
  }
}

async function checkRecord(
  { world }: Scene,
  batch: Batch,
  fail: (problem: string) => void,
): Promise<void> {
  const records = await world.store.readRecords(batch.submission.id, 0, 10_000);
  const ending = records.findLast(({ type }) => type === "batch.ended");
  const { data } = JSON.parse(ending?.body ?? '{"data":{}}') as {
    data: { state?: string; drive?: number; counts?: object };
  };
  if (data.state !== batch.state) fail(`is recorded as ${data.state}, is ${batch.state}`);
  if (data.drive !== batch.drive) fail(`is recorded in drive ${data.drive}, not ${batch.drive}`);
  const counts = countAll(batch);
  for (const [name, count] of Object.entries(data.counts ?? {})) {
    if (count !== counts[name as keyof typeof counts]) fail(`is recorded with ${name} ${count}`);
  }
}
