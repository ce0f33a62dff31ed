/** What counts as an answer. */
import { PassThrough } from "node:stream";
import { expect, test } from "vitest";
import { askOn, isYes } from "./ask.ts";

test("a line answers a question", async () => {
  const [input, output] = [new PassThrough(), new PassThrough()];
  const answer = askOn(input, output, "Really? ");
  input.write("yes\nmore\n");
  expect(await answer).toBe("yes");
  expect(String(output.read())).toBe("Really? ");
});

test("the end of the input answers with an empty text", async () => {
  const [input, output] = [new PassThrough(), new PassThrough()];
  const answer = askOn(input, output, "Really? ");
  input.end();
  expect(await answer).toBe("");
});

test("confirms only with y or yes", () => {
  expect(["y", "Y", "yes", " YES "].map(isYes)).toEqual([true, true, true, true]);
  expect(["", "n", "no", "yesterday", "y e s"].map(isYes)).not.toContain(true);
});
