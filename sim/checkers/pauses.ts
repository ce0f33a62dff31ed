/**
 * Whether an operator has paused a batch, computed here again, because the engine's own way may be
 * wrong.
 */
import type { Batch, State } from "../../src/adapters/memory/state.ts";
import type { PauseRequest } from "../../src/ports/store/operator-store.ts";

/** The narrowest one first. */
export function listPauses({ pauses }: State, { submission }: Batch): PauseRequest[] {
  const { id, lane, pipeline } = submission;
  const scopes = [`batch/${id}`, `lane/${lane}`, `pipeline/${pipeline}`];
  return scopes.flatMap((scope) => pauses.get(scope) ?? []);
}
