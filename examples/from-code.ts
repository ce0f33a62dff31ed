/**
 * Runs a batch in your own program: submits it, prints its events, waits for it and reads its results.
 *
 *   node examples/from-code.ts
 */
import { createEngine, definePipeline, PermanentError } from "sluice";

const shout = definePipeline({
  name: "shout",
  key: (word: string) => word,
  async process(word) {
    if (word === "") throw new PermanentError("nothing to shout", { code: "EMPTY" });
    return word.toUpperCase();
  },
});

const engine = await createEngine({ store: ".sluice/from-code.db" });
try {
  const batch = await engine.submit(shout, ["lock", "gate", "", "basin"]);
  for await (const { type } of batch.events()) console.log(type);

  const { state, counts } = await batch.wait();
  console.log(`${state}: ${counts.succeeded} of ${counts.planned} succeeded`);

  for await (const { item, value } of batch.results()) console.log(item, value);
  for await (const { item, code, message } of batch.deadLetters()) {
    console.log(item, code, message);
  }
} finally {
  await engine.close();
}
