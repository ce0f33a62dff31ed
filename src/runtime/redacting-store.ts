/**
 * The store as the engine writes to it: texts that come from errors and people lose their secrets on
 * the way, so that no letter, record or reason can hold one. Items, results, messages and checkpoints
 * are the user's own data and pass as they are.
 */
import type { Redact } from "../core/redact.ts";
import type { Store } from "../ports/store.ts";
import type { Report } from "../ports/working.ts";

export function makeRedactingStore(store: Store, redact: Redact): Store {
  return {
    ...store,
    work: (reports, lease) =>
      store.work(
        reports.map((report) => cleanReport(report, redact)),
        lease,
      ),
    fail: (batch, { code, message }) => store.fail(batch, { code, message: redact(message) }),
    keepUndelivered: (letter, from) =>
      store.keepUndelivered({ ...letter, message: redact(letter.message) }, from),
  };
}

/** Most reports tell of no failure, and are passed on without a copy. */
function cleanReport(report: Report, redact: Redact): Report {
  if (report.failures.length === 0) return report;
  const failures = report.failures.map((failure) => ({
    ...failure,
    message: redact(failure.message),
  }));
  return { ...report, failures };
}
