/** Which unfinished batches have no live worker for their pipeline. */
import { BATCH_STATES, isEnded } from "../../core/batch/batch.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Store } from "../../ports/store/store.ts";
import type { Config } from "../config/config.ts";
import { type Check, good, warn } from "./doctor-check.ts";
import { describeFailure } from "./doctor-store.ts";
import { countNoun } from "../output/format-number.ts";
import { openExistingStore } from "../config/open-configured-store.ts";

const NAME = "workers";
const UNFINISHED = BATCH_STATES.filter((state) => !isEnded(state));
const BATCHES_MAX = 10_000;

/** Opens the store like any command, so call it only if the schema and the lock are good. */
export async function checkWorkers(config: Config, clock: Clock): Promise<Check> {
  try {
    const store = await openExistingStore(config, clock);
    try {
      return await check(store);
    } finally {
      await store.close();
    }
  } catch (error) {
    return describeFailure(NAME, error, config.store);
  }
}

async function check(store: Store): Promise<Check> {
  const batches = await store.listBatches({ states: UNFINISHED, limit: BATCHES_MAX });
  if (batches.length === 0) return good(NAME, "no batch is unfinished");
  const groups = Map.groupBy(batches, ({ pipeline, version }) => `${pipeline} version ${version}`);
  const unserved: string[] = [];
  for (const [name, [first, ...rest]] of groups) {
    const facts = first === undefined ? null : await store.readWaiting(first.id, 0);
    if (facts === null || facts.batch.hasWorker) continue;
    unserved.push(
      `${name} (${countNoun(rest.length + 1, "unfinished batch", "unfinished batches")})`,
    );
  }
  if (unserved.length === 0) {
    return good(NAME, "every pipeline with an unfinished batch has a worker");
  }
  return warn(
    NAME,
    `no worker has ${unserved.join(", ")}`,
    "`sluice work <pipeline.ts>` starts one; `sluice list` shows the batches.",
  );
}
