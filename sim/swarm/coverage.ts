/**
 * Counts how often each fault met each state: a fault that never happens in some state proves
 * nothing about that state. It has four tables: faults of calls by verb, happenings by the phases
 * of the batches, acts by the phase of their batch, and how much the checkers judged.
 */
import { type Batch, currentStep, findPause, type State } from "../../src/adapters/memory/state.ts";
import { isEnded } from "../../src/core/batch/batch.ts";
import { STORE_VERBS } from "../../src/ports/store/store-verbs.ts";
import { JUDGED, type Judged } from "../checkers/checker.ts";
import { FAULT_KINDS } from "../faults.ts";
import { ACTS, HAPPENINGS } from "../traffic/plot.ts";
import type { Stage } from "../traffic/traffic.ts";

export const PHASES = [
  "submitted",
  "slicing",
  "ready",
  "running",
  "waiting for a count",
  "redriven",
  "paused",
  "parked",
  "cancelling",
  "ended",
] as const;
export type Phase = (typeof PHASES)[number];

/** Items that kill or freeze their node count as happenings, too. */
const DEEDS = ["kill", "murder", "stop_worker", "hang"] as const;

/** Verbs that these worlds do not call, with the reason. */
const UNCALLED: Readonly<Record<string, string>> = {
  fail: "no source of these worlds fails for good; test/integration has such sources",
  readLoad: "these worlds do not scale their workers; test/conformance covers it",
  forgetReader: "no subscriber of these worlds is removed",
};

/** Cells that cannot be filled, with the reason. */
const UNREACHABLE: Readonly<Record<string, string>> = {};

export class Coverage {
  readonly cells = new Map<string, number>();

  add(cell: string, times = 1): void {
    this.cells.set(cell, (this.cells.get(cell) ?? 0) + times);
  }

  merge(cells: Iterable<readonly [string, number]>): void {
    for (const [cell, times] of cells) this.add(cell, times);
  }

  /** Counts what happens in a play. */
  watch(stage: Stage): void {
    const { state } = stage.world.store;
    stage.world.listeners.push({
      onFault: (kind, _node, verb) => this.add(nameCell("call", kind, verb)),
    });
    stage.onHappening = (what) => this.#addAll(state, what);
    stage.errands.listeners.push({
      onStart: ({ doing: { does } }) => {
        if ((DEEDS as readonly string[]).includes(does)) this.#addAll(state, `item ${does}`);
      },
    });
    stage.operator.listeners.push({
      onAct: (act, batch) => this.add(nameCell("act", act, readPhase(state, batch))),
    });
  }

  #addAll(state: State, what: string): void {
    const phases = new Set([...state.batches.values()].map((batch) => readPhase(state, batch)));
    for (const phase of phases) this.add(nameCell("happening", what, phase));
  }

  /** Cells that should have been met and were not. */
  listEmpty(): string[] {
    return listCells().filter((cell) => !this.cells.has(cell));
  }
}

function nameCell(table: "call" | "happening" | "act", row: string, column: string): string {
  return `${table}: ${row} x ${column}`;
}

export function nameJudged(what: Judged): string {
  return `judged: ${what}`;
}

export function listCells(): string[] {
  const called = STORE_VERBS.filter((verb) => UNCALLED[verb] === undefined);
  const happenings = [...HAPPENINGS, ...DEEDS.map((deed) => `item ${deed}`)];
  return [
    ...FAULT_KINDS.flatMap((kind) => called.map((verb) => nameCell("call", kind, verb))),
    ...happenings.flatMap((what) => PHASES.map((phase) => nameCell("happening", what, phase))),
    ...JUDGED.map(nameJudged),
    ...ACTS.flatMap((act) => PHASES.map((phase) => nameCell("act", act, phase))),
  ].filter((cell) => UNREACHABLE[cell] === undefined);
}

function readPhase(state: State, batch: Batch): Phase {
  if (isEnded(batch.state)) return "ended";
  if (batch.cancel !== null) return "cancelling";
  if (batch.parked !== null) return "parked";
  if (findPause(state, batch) !== null) return "paused";
  if (batch.state !== "running") return batch.state;
  if (currentStep(batch).settings.name.endsWith("-settle")) return "waiting for a count";
  return batch.drive > 1 ? "redriven" : "running";
}
