/** The parts of a benchmark question: its subjects, the figures that are shown, and the targets. */
import type { Subject } from "./measure.ts";

export interface FigureShown {
  /** Its name in a subject's reply. */
  readonly name: string;
  readonly unit: string;
}

/** The median of a subject's figure; undefined when the subject could not be measured. */
export type MedianOf = (subject: string, figure: string) => number | undefined;

export interface Target {
  readonly what: string;
  readonly compute: (median: MedianOf) => number | undefined;
  /** Null: a figure for information, without a target. */
  readonly bound: { readonly kind: "at least" | "below"; readonly limit: number } | null;
  readonly unit: string;
}

export interface Question {
  readonly key: string;
  readonly title: string;
  readonly subjects: readonly Subject[];
  readonly shown: readonly FigureShown[];
  readonly targets: readonly Target[];
  /** How often each run is repeated: more than once if it is short, and therefore noisy. */
  readonly repeats?: number;
}

export function divide(above: number | undefined, below: number | undefined): number | undefined {
  return above === undefined || below === undefined ? undefined : above / below;
}

export function subtract(from: number | undefined, value: number | undefined): number | undefined {
  return from === undefined || value === undefined ? undefined : from - value;
}

export function count(value: number): string {
  return value.toLocaleString("en-US");
}
