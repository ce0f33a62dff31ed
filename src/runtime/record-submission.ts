/** Records a batch, or finds the one that it means; refuses what cannot be gone on with. */
import { isEnded } from "../core/batch.ts";
import { SluiceError } from "../core/errors.ts";
import type { Submission } from "../ports/conducting.ts";
import type { Store } from "../ports/store.ts";
import { acceptsVersion, type Pipeline } from "./pipeline.ts";
import type { Recorded } from "./submit-within.ts";

export async function recordSubmission(
  submission: Submission,
  pipeline: Pipeline,
  store: Pick<Store, "submit">,
): Promise<Recorded> {
  const { kind, batch } = await store.submit(submission);
  if (kind === "key_taken") {
    throw new SluiceError(
      "KEY_TAKEN",
      `the key ${JSON.stringify(submission.key)} belongs to batch ${batch.id}, which has another input`,
      { hint: "Use another key, or the input of that batch." },
    );
  }
  if (!isEnded(batch.state) && !acceptsVersion(pipeline, batch.version)) {
    throw new SluiceError(
      "OTHER_VERSION",
      `batch ${batch.id} is unfinished and belongs to version ${batch.version} of ${pipeline.name}; this is version ${pipeline.version}`,
      {
        hint: `Finish it with the code of version ${batch.version}. If this code can do that too, add accepts: [${JSON.stringify(batch.version)}]. For a batch beside it, give another key.`,
      },
    );
  }
  return { batch, takenUp: kind === "existing" ? batch : null };
}
