/** What a question of the benchmarks is made of: its subjects, what is shown, what is aimed at. */
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
  /** Null: a figure to know, with nothing promised. */
  readonly bound: { readonly kind: "at least" | "below"; readonly limit: number } | null;
  readonly unit: string;
}

export interface Question {
  readonly key: string;
  readonly title: string;
  readonly subjects: readonly Subject[];
  readonly shown: readonly FigureShown[];
  readonly targets: readonly Target[];
  /** How often each of the runs is repeated: more than once where it is short, and so noisy. */
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
