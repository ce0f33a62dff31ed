/** Says why a batch's dead letters cannot be redriven now, and what to do instead. */
import { SluiceError } from "../../core/base/errors.ts";
import type { RedriveRefusal } from "../../ports/store/operator-store.ts";

export function describeRefusal(batch: string, why: RedriveRefusal): SluiceError {
  return new SluiceError("CANNOT_REDRIVE", `batch ${batch}: ${REFUSALS[why]}`, {
    hint: REMEDIES[why],
  });
}

const REFUSALS: { readonly [Refusal in RedriveRefusal]: string } = {
  no_dead_letters: "no dead letter matches",
  cancelling: "it is being cancelled",
  stopped_early: "it was stopped early, and what had not run was cancelled",
  never_planned: "it was stopped before all of its items were planned",
  step_is_over: "the dead letters belong to a step that is over, and a later one runs",
  pruned: "retention has removed what a redrive needs",
  not_running: "it has not run yet",
};

const REMEDIES: { readonly [Refusal in RedriveRefusal]: string } = {
  no_dead_letters:
    "`sluice dead` lists the dead letters of a batch; discarded ones stay where they are.",
  cancelling: "Wait for its end; then it can be redriven with what was cancelled.",
  stopped_early: "Redrive it with what was cancelled: withCancelled, or --with-cancelled.",
  never_planned: "Submit it again.",
  step_is_over: "Wait for its end: then they can be redriven.",
  pruned: "Submit the items again.",
  not_running: "Wait until something of it has failed.",
};
