/** What counts as an answer. */
import { PassThrough } from "node:stream";
import { expect, test } from "vitest";
import { askOn, isYes } from "./ask.ts";

test("a question is answered by a line", async () => {
  const [input, output] = [new PassThrough(), new PassThrough()];
  const answer = askOn(input, output, "Really? ");
  input.write("yes\nmore\n");
  expect(await answer).toBe("yes");
  expect(String(output.read())).toBe("Really? ");
});

test("an input that ends is no answer", async () => {
  const [input, output] = [new PassThrough(), new PassThrough()];
  const answer = askOn(input, output, "Really? ");
  input.end();
  expect(await answer).toBe("");
});

test("only a plain yes is a yes", () => {
  expect(["y", "Y", "yes", " YES "].map(isYes)).toEqual([true, true, true, true]);
  expect(["", "n", "no", "yesterday", "y e s"].map(isYes)).not.toContain(true);
});
