/** A batch's whole chain for tests: read in pages, verified, with the records of each item. */
import { hash } from "node:crypto";
import { verifyChain } from "../../src/core/ledger/chain.ts";
import { readRanges } from "../../src/core/ledger/item-ledger.ts";
import type { LedgerLink } from "../../src/ports/store/ledger-store.ts";
import type { Store } from "../../src/ports/store/store.ts";

const PAGE = 1_000;

export async function readChain(store: Store, batch: string, page = PAGE): Promise<LedgerLink[]> {
  const links: LedgerLink[] = [];
  for (;;) {
    const more = await store.readLedger(batch, links.at(-1)?.seq ?? 0, page);
    if (more.length === 0) return links;
    links.push(...more);
  }
}

/** Null when it is intact and without gaps. */
export function findBreak(links: readonly LedgerLink[]): string | null {
  const verdict = verifyChain(links, (text) => hash("sha256", text));
  return verdict.kind === "intact" ? null : `${verdict.seq}: ${verdict.why}`;
}

/** One failed attempt in a link. */
export interface ToldTry {
  readonly item: number;
  readonly key: string | null;
  readonly attempts: number;
  readonly deaths?: number;
  readonly drive?: number;
  readonly code: string | null;
  readonly class: string | null;
}

/** What a link says about items. */
export interface ToldChange {
  readonly step: number;
  readonly chunk: number;
  readonly fence: number;
  readonly worker?: number;
  readonly succeeded?: string;
  readonly skipped?: string;
  readonly failed?: readonly ToldTry[];
  readonly retried?: readonly ToldTry[];
  readonly redriven?: string;
  readonly drive?: number;
  readonly cause?: "lost" | "stalled";
  readonly block?: { readonly number: number; readonly count: number; readonly root: string };
}

export function listChanges(links: readonly LedgerLink[]): ToldChange[] {
  return links
    .filter(({ type }) => type === "items.recorded")
    .map(({ body }) => (JSON.parse(body) as { data: ToldChange }).data);
}

function listItems(ranges: string | undefined): number[] {
  if (ranges === undefined) return [];
  return [...readRanges(ranges)].flatMap(([first, last]) =>
    Array.from({ length: last - first + 1 }, (_, nth) => first + nth),
  );
}

export type ToldOutcome = "succeeded" | "skipped" | "failed";

/**
 * The outcome of each item of a step from the chain alone. A second outcome without a redrive in
 * between is a fault, and so is a redrive of an item that has not failed.
 */
export function foldOutcomes(
  changes: readonly ToldChange[],
  step: number,
): { readonly outcomes: Map<number, ToldOutcome>; readonly faults: string[] } {
  const outcomes = new Map<number, ToldOutcome>();
  const faults: string[] = [];
  const give = (item: number, outcome: ToldOutcome): void => {
    const before = outcomes.get(item);
    if (before !== undefined) faults.push(`item ${item} was ${before} and is ${outcome}`);
    outcomes.set(item, outcome);
  };
  for (const change of changes.filter((one) => one.step === step)) {
    for (const item of listItems(change.succeeded)) give(item, "succeeded");
    for (const item of listItems(change.skipped)) give(item, "skipped");
    for (const { item } of change.failed ?? []) give(item, "failed");
    for (const item of listItems(change.redriven)) {
      if (outcomes.get(item) !== "failed")
        faults.push(`item ${item} is redriven but had not failed`);
      outcomes.delete(item);
    }
  }
  return { outcomes, faults };
}
