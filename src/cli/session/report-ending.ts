/** Reports an ended batch, after a recount, and returns the exit code. */
import { isEnded } from "../../core/batch/batch.ts";
import { invariant } from "../../core/base/invariant.ts";
import type { BatchSnapshot } from "../../ports/store/conductor-store.ts";
import type { Store } from "../../ports/store/store.ts";
import { renderSummary } from "../render/batch-summary.ts";
import { formatJson } from "../output/inert-text.ts";
import { viewBatch } from "../../views/batch.ts";
import { type DeadLetterView, viewDeadLetter } from "../../views/dead-letter.ts";
import { getLastStep, viewSteps } from "../../views/step.ts";
import { readDeadLetters } from "./result-pages.ts";
import type { Cli } from "../output/cli.ts";
import { printErrorView } from "../output/error-report.ts";
import { decideExitCode, EXIT } from "../output/exit-codes.ts";

const LETTERS_SHOWN_MAX = 5;

export interface EndingParts {
  readonly store: Store;
  readonly json: boolean;
  readonly storeFlag: readonly string[];
  readonly itemsPerSecond?: number;
}

export async function reportEnding(
  cli: Cli,
  batch: BatchSnapshot,
  { store, json, storeFlag, itemsPerSecond }: EndingParts,
): Promise<number> {
  invariant(isEnded(batch.state), "only an ending is reported");
  const wallMs = cli.clock.wallMs();
  const isRight = await recount(cli, store, batch.id);
  if (json) {
    cli.out.line(formatJson(viewBatch(batch, wallMs)));
  } else {
    const summary = {
      view: viewBatch(batch, wallMs),
      steps: viewSteps(batch),
      letters: await readFirstLetters(store, batch),
      hasResults: await hasResults(store, batch),
      itemsPerSecond: itemsPerSecond ?? null,
      storeFlag,
    };
    for (const line of renderSummary(summary, cli.out)) cli.out.line(line);
  }
  return isRight ? decideExitCode(batch.state) : EXIT.failed;
}

async function readFirstLetters(store: Store, batch: BatchSnapshot): Promise<DeadLetterView[]> {
  const letters: DeadLetterView[] = [];
  for await (const letter of readDeadLetters(store, batch, {}, LETTERS_SHOWN_MAX)) {
    letters.push(viewDeadLetter(letter, batch));
  }
  return letters;
}

async function hasResults(store: Store, batch: BatchSnapshot): Promise<boolean> {
  const page = { step: getLastStep(batch), afterItem: -1, limit: 1, sinceDrive: 1 };
  return (await store.readResults(batch.id, page)).length > 0;
}

/** Counters that differ from the chunks' maps are a bug of ours, and are always reported. */
async function recount(cli: Cli, store: Store, id: string): Promise<boolean> {
  const counted = await store.recount(id);
  if (counted === null) return true;
  const counters = JSON.stringify(counted.counters);
  const recounted = JSON.stringify(counted.recounted);
  if (counters === recounted) return true;
  printErrorView(
    {
      code: "CONSERVATION_BROKEN",
      message: `the counters of batch ${id} are wrong.\n  they say       ${counters}\n  a recount says ${recounted}`,
      hint: "This is a bug in Sluice: please report it, with the store if you can. Trust the recount.",
    },
    cli.err,
  );
  return false;
}
