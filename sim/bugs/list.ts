/** All deliberate bugs: failures that the simulator must find. */
import type { Bug } from "./bug.ts";
import { cancellingBugs } from "./cancelling.ts";
import { capBugs } from "./caps.ts";
import { checkpointBugs } from "./checkpoints.ts";
import { clockBugs } from "./clocks.ts";
import { dedupeBugs } from "./dedupe.ts";
import { endingBugs } from "./ending.ts";
import { eventBugs } from "./events.ts";
import { laneBugs } from "./lanes.ts";
import { leasingBugs } from "./leasing.ts";
import { ledgerBugs } from "./ledger.ts";
import { limitBugs } from "./limits.ts";
import { poisonBugs } from "./poison.ts";
import { rateBugs } from "./rates.ts";
import { postgresLockBugs } from "./postgres-locks.ts";
import { redrivingBugs } from "./redriving.ts";
import { retryingBugs } from "./retrying.ts";
import { settlingBugs } from "./settling.ts";
import { shareBugs } from "./shares.ts";
import { shutdownBugs } from "./shutdown.ts";
import { slicingBugs } from "./slicing.ts";
import { sqliteBatchBugs } from "./sqlite-batches.ts";
import { sqliteWorkBugs } from "./sqlite-work.ts";
import { topicBugs } from "./topics.ts";
import { watchingBugs } from "./watching.ts";

export const bugs: readonly Bug[] = [
  ...leasingBugs,
  ...settlingBugs,
  ...endingBugs,
  ...slicingBugs,
  ...laneBugs,
  ...cancellingBugs,
  ...redrivingBugs,
  ...retryingBugs,
  ...poisonBugs,
  ...checkpointBugs,
  ...dedupeBugs,
  ...limitBugs,
  ...rateBugs,
  ...capBugs,
  ...shareBugs,
  ...clockBugs,
  ...eventBugs,
  ...topicBugs,
  ...ledgerBugs,
  ...watchingBugs,
  ...shutdownBugs,
  ...sqliteWorkBugs,
  ...sqliteBatchBugs,
  ...postgresLockBugs,
];

export function findBug(name: string): Bug {
  const found = bugs.find((bug) => bug.name === name);
  if (found !== undefined) return found;
  throw new Error(
    `there is no bug ${name}; the bugs are ${bugs.map((bug) => bug.name).join(", ")}`,
  );
}
