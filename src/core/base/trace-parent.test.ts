import { expect, it } from "vitest";
import { readTraceparent, writeTraceparent } from "./trace-parent.ts";

const TEXT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

it("a trace place is read as it was written", () => {
  const place = readTraceparent(TEXT);
  expect(place).toEqual({
    traceId: "4bf92f3577b34da6a3ce929d0e0e4736",
    spanId: "00f067aa0ba902b7",
    traceFlags: 1,
  });
  expect(place === null ? null : writeTraceparent(place)).toBe(TEXT);
});

it.each([
  "",
  "nonsense",
  TEXT.toUpperCase(),
  `${TEXT}-more`,
  TEXT.replace("4bf92f3577b34da6a3ce929d0e0e4736", "0".repeat(32)),
  TEXT.replace("00f067aa0ba902b7", "0".repeat(16)),
])("%j is not a trace place", (text) => {
  expect(readTraceparent(text)).toBeNull();
});

it("a span that never started has no trace place", () => {
  const none = { traceId: "0".repeat(32), spanId: "0".repeat(16), traceFlags: 0 };
  expect(writeTraceparent(none)).toBeNull();
});
