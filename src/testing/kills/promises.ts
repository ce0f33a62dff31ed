/**
 * Checks Sluice's own promises about an ended batch in the store: nothing pending, counters that a
 * recount confirms, one ending in each drive, and an honest ending state.
 */
import { hash } from "node:crypto";
import { isEnded } from "../../core/batch/batch.ts";
import { verifyChain } from "../../core/ledger/chain.ts";
import { canonicalize } from "../../core/base/canonical-json.ts";
import { type Counts, isConserved } from "../../core/batch/counts.ts";
import type { BatchSnapshot } from "../../ports/store/conductor-store.ts";
import type { LedgerLink } from "../../ports/store/ledger-store.ts";
import type { Store } from "../../ports/store/store.ts";

const PAGE = 1_000;

/** The broken promises, as text; none in the normal case. */
export async function findBrokenPromises(store: Store, id: string): Promise<string[]> {
  const batch = await store.getBatch(id);
  if (batch === null) return [`batch ${id} no longer exists`];
  const chain = await readChain(store, id);
  return [
    ...checkCounts(batch),
    ...(await checkRecount(store, id)),
    ...checkWord(batch),
    ...checkEndings(batch, chain),
    ...(await checkLetters(store, batch)),
  ];
}

function checkCounts({ state, steps }: BatchSnapshot): string[] {
  return [
    ...(isEnded(state) ? [] : [`the batch is ${state} and has not ended`]),
    ...steps.flatMap(({ name, counts }) => [
      ...(isConserved(counts) ? [] : [`step ${name} does not add up: ${show(counts)}`]),
      ...(counts.pending === 0 ? [] : [`${counts.pending} items of step ${name} are pending`]),
    ]),
  ];
}

async function checkRecount(store: Store, id: string): Promise<string[]> {
  const recount = await store.recount(id);
  if (recount === null) return [];
  const [said, found] = [show(recount.counters), show(recount.recounted)];
  return said === found ? [] : [`the counters say ${said}, a recount says ${found}`];
}

/** Never `succeeded` with a failure or with items that did not run. */
function checkWord({ state, counts, reason, cancel }: BatchSnapshot): string[] {
  const { failed, cancelled } = counts;
  const isWrongState =
    (state === "succeeded" && failed + cancelled > 0) ||
    (state === "completed_with_errors" && failed === 0) ||
    ((state === "failed" || state === "expired") && reason === null) ||
    (state === "cancelled" && cancel === null);
  return isWrongState ? [`the batch calls itself ${state} with ${show(counts)}`] : [];
}

/** One ending in each drive, with true content. */
function checkEndings(batch: BatchSnapshot, records: readonly Link[]): string[] {
  const verdict = verifyChain(records, (text) => hash("sha256", text));
  const endings = records.filter(({ type }) => type === "batch.ended");
  const drives = 1 + records.filter(({ type }) => type === "batch.reopened").length;
  const found = verdict.kind === "intact" ? [] : [`its chain of records breaks: ${verdict.why}`];
  if (endings.length !== drives) {
    found.push(`${endings.length} endings are recorded for ${drives} drives`);
  }
  const last = endings.at(-1);
  if (last === undefined) return found;
  const { data } = JSON.parse(last.body) as { data: { state: string; counts: Counts } };
  if (data.state !== batch.state || show(data.counts) !== show(batch.counts)) {
    found.push(
      `its ending is recorded as ${data.state} with ${show(data.counts)}, and it is ${batch.state} with ${show(batch.counts)}`,
    );
  }
  return found;
}

/** Every failure has its dead letter. */
async function checkLetters(store: Store, { id, steps }: BatchSnapshot): Promise<string[]> {
  const found: string[] = [];
  for (const [step, { name, counts }] of steps.entries()) {
    let letters = 0;
    for (let afterItem = -1; ; ) {
      const page = await store.readDeadLetters(id, { step, afterItem, limit: PAGE, filter: {} });
      letters += page.length;
      const last = page.at(-1);
      if (last === undefined || page.length < PAGE) break;
      afterItem = last.item;
    }
    if (letters !== counts.failed) {
      found.push(`step ${name}: ${counts.failed} items failed, and it has ${letters} dead letters`);
    }
  }
  return found;
}

/** Blocks are large, and not needed here. */
type Link = Omit<LedgerLink, "block">;

async function readChain(store: Store, id: string): Promise<Link[]> {
  const links: Link[] = [];
  for (;;) {
    const page = await store.readLedger(id, links.at(-1)?.seq ?? 0, PAGE);
    if (page.length === 0) return links;
    for (const { seq, type, body, hash: sum } of page) links.push({ seq, type, body, hash: sum });
  }
}

function show(counts: Counts): string {
  return canonicalize({ ...counts });
}
