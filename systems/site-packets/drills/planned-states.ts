/** Compares the final states in the ledgers with those that a corpus plans for each document. */
import { createReadStream } from "node:fs";
import { readTimeline } from "sluice/ledger";
import type { PlannedDocument } from "../portals/corpus.ts";
import { decideExpected, type FaultProfile } from "../portals/faults.ts";
import { FINAL_STATES } from "../timeline.ts";
import { listSome } from "./drill.ts";

/** By site and document, the final states, with the codes of rejections. */
export async function compareWithPlan(
  plan: readonly PlannedDocument[],
  profile: FaultProfile,
  ledgers: ReadonlyMap<string, string>,
): Promise<string[]> {
  const told = new Map<string, string[]>();
  for (const [site, ledger] of ledgers) {
    for (const [document, states] of await readFinalStates(ledger)) {
      told.set(`${site} ${document}`, states);
    }
  }
  const planned = new Map<string, string[]>();
  for (const one of plan) {
    const { state, code } = decideExpected(one, profile);
    const name = `${one.site} ${one.document}`;
    planned.set(name, [...(planned.get(name) ?? []), describe(state, code)]);
  }
  const names = [...new Set([...told.keys(), ...planned.keys()])];
  const differing = names
    .map((name) => ({ name, is: list(told.get(name)), must: list(planned.get(name)) }))
    .filter(({ is, must }) => is !== must);
  return listSome(
    "not as planned",
    differing.map(({ name, is, must }) => `${name}: ${is}, not ${must}`),
  );
}

/** A document that came twice has two states, in any order: either may be the repeat. */
function list(states: readonly string[] = []): string {
  return states.length === 0 ? "nothing" : states.toSorted().join(" and ");
}

function describe(state: string, code: string | null): string {
  return code === null ? state : `${state} ${code}`;
}

async function readFinalStates(ledger: string): Promise<ReadonlyMap<string, string[]>> {
  const states = new Map<string, string[]>();
  const rejected = new Map<string, string[]>();
  await readTimeline(createReadStream(ledger), (entry) => {
    if (entry.kind === "details") {
      const { code } = entry.details as { readonly code?: string };
      if (code !== undefined) rejected.get(entry.record)?.push(describe("REJECTED", code));
      return;
    }
    if (entry.kind !== "item" || entry.key === null || !FINAL_STATES.includes(entry.state)) return;
    const known = states.get(entry.key) ?? [];
    states.set(entry.key, known);
    // With the reason of its rejection.
    if (entry.state === "REJECTED") rejected.set(entry.record, known);
    else known.push(entry.state);
  });
  return states;
}
