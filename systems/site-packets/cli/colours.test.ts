/** Colours are for terminals. */
import { expect, test } from "vitest";
import { pickColours } from "./colours.ts";

test.each([
  ["a terminal gets colours", { isTTY: true }, {}, true],
  ["a pipe gets none", {}, {}, false],
  ["a pipe under CI gets none", {}, { CI: "true" }, false],
  ["a terminal with NO_COLOR gets none", { isTTY: true }, { NO_COLOR: "1" }, false],
  ["a pipe with FORCE_COLOR gets colours", {}, { FORCE_COLOR: "1" }, true],
  ["a pipe with FORCE_COLOR=0 gets none", {}, { FORCE_COLOR: "0" }, false],
])("%s", (_where, stream, env, isColoured) => {
  expect(pickColours(stream, env).red("x") !== "x").toBe(isColoured);
});
