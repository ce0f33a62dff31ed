/** Finds the batch that a user means by an id or the beginning of one. */
import { SluiceError } from "../../core/base/errors.ts";
import { formatDidYouMean, findSimilar } from "../../core/base/similar-words.ts";
import type { BatchSnapshot } from "../../ports/store/conductor-store.ts";
import type { Store } from "../../ports/store/store.ts";
import { showStore } from "../output/show-path.ts";

/** The argument's description in help texts. */
export const ABOUT_BATCH = "batch id or its first characters";

const PREFIX_CHARS_MIN = "b-".length + 3;
/** A prefix is searched for in this many of the newest batches. */
const BATCHES_MAX = 100_000;
const MATCHES_SHOWN_MAX = 5;

export async function findBatch(store: Store, given: string): Promise<BatchSnapshot> {
  const exact = await store.getBatch(given);
  if (exact !== null) return exact;
  const batches = await store.listBatches({ limit: BATCHES_MAX });
  const matches = batches.filter(({ id }) => id.startsWith(given));
  const [only] = matches;
  const isPrefix = given.startsWith("b-") && given.length >= PREFIX_CHARS_MIN;
  if (only !== undefined && isPrefix && matches.length === 1) return only;
  if (only !== undefined && isPrefix) {
    const shown = matches.slice(0, MATCHES_SHOWN_MAX).map(({ id }) => id);
    throw new SluiceError("AMBIGUOUS", `${matches.length} batches begin with ${given}`, {
      kind: "batch",
      hint: `Give more of the id: ${shown.join(", ")}${matches.length > shown.length ? ", ..." : ""}`,
    });
  }
  const meant = findSimilar(given, [
    ...matches.map(({ id }) => id),
    ...batches.map(({ id }) => id),
  ]);
  const close = matches.length > 0 ? matches.slice(0, 3).map(({ id }) => id) : meant;
  throw new SluiceError("NOT_FOUND", `there is no batch ${given} in ${showStore(store.name)}`, {
    kind: "batch",
    hint: `${formatDidYouMean(close)} \`sluice list\` shows all batches; the first 5 characters of an id are enough.`.trim(),
  });
}
