/** Colours are for terminals. */
import { expect, test } from "vitest";
import { pickColours } from "./colours.ts";

test.each([
  ["a terminal", { isTTY: true }, {}, true],
  ["a pipe", {}, {}, false],
  ["a pipe under CI", {}, { CI: "true" }, false],
  ["a terminal of who wants none", { isTTY: true }, { NO_COLOR: "1" }, false],
  ["a pipe of who wants them", {}, { FORCE_COLOR: "1" }, true],
  ["a pipe of who forces none", {}, { FORCE_COLOR: "0" }, false],
])("%s", (_where, stream, env, isColoured) => {
  expect(pickColours(stream, env).red("x") !== "x").toBe(isColoured);
});
