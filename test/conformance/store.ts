/**
 * The store contract as rules: every adapter passes the same ones, called from a test file of its
 * own. One topic a file; what only one adapter promises is tested beside it.
 */
import { describe } from "vitest";
import { makeRule, type OpenStore } from "./rig.ts";
import { describeCarefulRuns } from "./careful-runs.ts";
import { describeClaiming } from "./claiming.ts";
import { describeDeliveries } from "./deliveries.ts";
import { describeEnding } from "./ending.ts";
import { describeLeasing } from "./leasing.ts";
import { describePlanningInline } from "./planning-inline.ts";
import { describeReading } from "./reading.ts";
import { describeRecords } from "./records.ts";
import { describeReporting } from "./reporting.ts";
import { describeSlicing } from "./slicing.ts";
import { describeSubmitting } from "./submitting.ts";
import { describeSweeping } from "./sweeping.ts";

export function describeStore(name: string, open: OpenStore): void {
  const rule = makeRule(open);
  describe(`the ${name} store`, () => {
    describe("submitting", () => describeSubmitting(rule));
    describe("slicing", () => describeSlicing(rule));
    describe("planning inline", () => describePlanningInline(rule));
    describe("leasing", () => describeLeasing(rule));
    describe("reporting", () => describeReporting(rule));
    describe("careful runs", () => describeCarefulRuns(rule));
    describe("sweeping", () => describeSweeping(rule));
    describe("claiming", () => describeClaiming(rule));
    describe("ending", () => describeEnding(rule));
    describe("records", () => describeRecords(rule));
    describe("deliveries", () => describeDeliveries(rule));
    describe("reading", () => describeReading(rule));
  });
}
