/**
 * The store as the engine writes to it: texts that come from errors and people lose their secrets
 * on the way, so that no dead letter, record or reason contains one. Items, results, messages and
 * checkpoints are the user's own data and pass unchanged.
 */
import type { Act } from "../../core/batch/batch.ts";
import type { Redact } from "../../core/base/redact.ts";
import type { Store } from "../../ports/store/store.ts";
import type { Report } from "../../ports/store/worker-store.ts";

export function makeRedactingStore(store: Store, redact: Redact): Store {
  const clean = <Text extends { readonly code: string; readonly message: string }>(
    text: Text,
  ): Text => ({ ...text, code: redact(text.code), message: redact(text.message) });
  const cleanReport = (report: Report): Report =>
    // Most reports have no failure, and are passed on without a copy.
    report.failures.length === 0 ? report : { ...report, failures: report.failures.map(clean) };
  return {
    ...store,
    ...redactActs(store, redact),
    work: (reports, lease) => store.work(reports.map(cleanReport), lease),
    fail: (batch, reason) => store.fail(batch, clean(reason)),
    keepUndelivered: (undelivered, from) => store.keepUndelivered(clean(undelivered), from),
  };
}

type Acts = "cancel" | "pause" | "resume" | "moveInLane" | "redrive" | "editDeadLetter";
type FurtherActs = "discardDeadLetters" | "setLimit" | "eraseDetails";

/** Acts of people, with their reasons. */
function redactActs(store: Store, redact: Redact): Pick<Store, Acts | FurtherActs> {
  const clean = <Done extends Act>(act: Done): Done => ({
    ...act,
    by: redact(act.by),
    why: act.why === null ? null : redact(act.why),
  });
  return {
    cancel: (batch, request) => store.cancel(batch, clean(request)),
    pause: (request) => store.pause(clean(request)),
    resume: (scope, act) => store.resume(scope, clean(act)),
    moveInLane: (batch, move, act) => store.moveInLane(batch, move, clean(act)),
    redrive: (batch, request) => store.redrive(batch, clean(request)),
    editDeadLetter: (batch, request) => store.editDeadLetter(batch, clean(request)),
    discardDeadLetters: (batch, request) => store.discardDeadLetters(batch, clean(request)),
    setLimit: (request, act) => store.setLimit(request, clean(act)),
    eraseDetails: (batch, kept, act) => store.eraseDetails(batch, kept, clean(act)),
  };
}
