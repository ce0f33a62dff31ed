import { describe, expect, test } from "vitest";
import { decideAfterReport, REPORT_INTENTS } from "./chunk.ts";

describe("what a report does to its chunk", () => {
  test("without a pending item it is settled, whatever the intent", () => {
    for (const intent of REPORT_INTENTS) expect(decideAfterReport(0, intent)).toBe("settle");
  });

  test("with a pending item the intent decides", () => {
    for (const intent of REPORT_INTENTS) {
      expect(decideAfterReport(1, intent)).toBe(intent);
      expect(decideAfterReport(1_000, intent)).toBe(intent);
    }
  });
});
