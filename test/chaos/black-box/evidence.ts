/**
 * What an outside observer sees of a batch without knowing how it is stored: the output of
 * commands, the events in a sink, and the lines that handlers wrote.
 */
import type { BatchLine } from "../../support/command-line.ts";
import type { Run } from "./run-log.ts";

/** A line of `sluice status --json`. */
export interface StatusLine extends BatchLine {
  readonly drive: number;
  readonly steps: readonly (ItemCounts & { readonly name: string; readonly passes: number })[];
  readonly events: readonly RecordedEvent[];
}

export interface ItemCounts {
  readonly planned: number;
  readonly succeeded: number;
  readonly skipped: number;
  readonly failed: number;
  readonly cancelled: number;
  readonly pending: number;
}

/** An event in the output of `status`. */
export interface RecordedEvent {
  readonly seq: number;
  readonly type: string;
  /** By the wall clock of the process that wrote it. */
  readonly at: string;
  readonly data: Readonly<Record<string, unknown>>;
}

/** An event in a sink. The same one may be delivered twice. */
export interface DeliveredEvent extends RecordedEvent {
  readonly id: string;
  readonly batch: string;
}

/** A line of `sluice results`; handlers return their process. */
export interface ResultLine {
  readonly item: number;
  readonly key: string;
  readonly value: { readonly by: string; readonly fence: number; readonly attempt: number };
}

/** A line of `sluice dead --json`. */
export interface LetterLine {
  readonly item: number;
  readonly code: string;
  readonly attempts: number;
  readonly deaths: number;
}

/** The output of commands while the batch ran; `at` is when the command had ended. */
export interface Look {
  readonly at: number;
  readonly status: StatusLine;
  /** Null if they were not requested. */
  readonly results: readonly ResultLine[] | null;
}

export interface Evidence {
  /** Items of the input: 0 up to this number, with the keys i0, i1, and so on. */
  readonly items: number;
  readonly chunkSize: number;
  /** How often an item may fail before it gives up. */
  readonly attemptsMax: number;
  /** In the order of their starts. */
  readonly runs: readonly Run[];
  readonly looks: readonly Look[];
  readonly status: StatusLine;
  readonly results: readonly ResultLine[];
  readonly letters: readonly LetterLine[];
  /** Null without a subscriber. */
  readonly delivered: readonly DeliveredEvent[] | null;
  /** Names of processes that were killed, stopped or kept from writing: their work may be lost. */
  readonly disturbed: ReadonlySet<string>;
  /** So long that a busy machine does not lose a lease. */
  readonly leasesAreLong: boolean;
}

const EXAMPLES_MAX = 5;

/** One sentence for one kind of fault, with a few of the cases. */
export function complain(what: string, cases: readonly unknown[]): string[] {
  if (cases.length === 0) return [];
  const shown = cases.slice(0, EXAMPLES_MAX).map((one) => JSON.stringify(one));
  const more = cases.length > EXAMPLES_MAX ? `, and ${cases.length - EXAMPLES_MAX} more` : "";
  return [`${what}: ${shown.join(", ")}${more}`];
}
