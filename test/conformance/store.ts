/**
 * The store contract as rules: every adapter passes the same ones, called from a test file of its
 * own. One topic a file; what only one adapter promises is tested beside it.
 */
import { describe } from "vitest";
import { makeRule, type OpenStore } from "./rig.ts";
import { describeCancelling } from "./cancelling.ts";
import { describeCaps } from "./caps.ts";
import { describeCarefulRuns } from "./careful-runs.ts";
import { describeCheckpoints } from "./checkpoints.ts";
import { describeClaiming } from "./claiming.ts";
import { describeContents } from "./contents.ts";
import { describeDeadLetters } from "./dead-letters.ts";
import { describeDeadlines } from "./deadlines.ts";
import { describeDeliveries } from "./deliveries.ts";
import { describeEnding } from "./ending.ts";
import { describeFailureBudget } from "./failure-budget.ts";
import { describeFairShares } from "./fair-shares.ts";
import { describeItemCommits } from "./item-commits.ts";
import { describeLaneMoves } from "./lane-moves.ts";
import { describeLanes } from "./lanes.ts";
import { describeLeaseRuns } from "./lease-runs.ts";
import { describeLeasing } from "./leasing.ts";
import { describeMoreRaces } from "./more-races.ts";
import { describePausing } from "./pausing.ts";
import { describePlanningInline } from "./planning-inline.ts";
import { describeRaces } from "./races.ts";
import { describeReading } from "./reading.ts";
import { describeRecords } from "./records.ts";
import { describeRedriving } from "./redriving.ts";
import { describeReopening } from "./reopening.ts";
import { describeReporting } from "./reporting.ts";
import { describeRetention } from "./retention.ts";
import { describeSlicing } from "./slicing.ts";
import { describeStepPasses } from "./step-passes.ts";
import { describeSteps } from "./steps.ts";
import { describeLimiting } from "./limiting.ts";
import { describeSubmitting } from "./submitting.ts";
import { describeSweeping } from "./sweeping.ts";
import { describeTopics } from "./topics.ts";
import { describeUnsent } from "./unsent.ts";
import { describeWithin } from "./within.ts";
import { describeWaiting } from "./waiting.ts";
import { describeWatching } from "./watching.ts";

export function describeStore(name: string, open: OpenStore): void {
  const rule = makeRule(open);
  describe(`the ${name} store`, () => {
    describe("submitting", () => describeSubmitting(rule));
    describe("slicing", () => describeSlicing(rule));
    describe("planning inline", () => describePlanningInline(rule));
    describe("leasing", () => describeLeasing(rule));
    describe("leases of several chunks", () => describeLeaseRuns(rule));
    describe("fair shares", () => describeFairShares(rule));
    describe("caps", () => describeCaps(rule));
    describe("reporting", () => describeReporting(rule));
    describe("careful runs", () => describeCarefulRuns(rule));
    describe("sweeping", () => describeSweeping(rule));
    describe("claiming", () => describeClaiming(rule));
    describe("ending", () => describeEnding(rule));
    describe("records", () => describeRecords(rule));
    describe("deliveries", () => describeDeliveries(rule));
    describe("topics", () => describeTopics(rule));
    describe("commits of items", () => describeItemCommits(rule));
    describe("within a transaction of the caller's", () => describeWithin(rule));
    describe("lanes", () => describeLanes(rule));
    describe("moves in a lane", () => describeLaneMoves(rule));
    describe("pausing", () => describePausing(rule));
    describe("cancelling", () => describeCancelling(rule));
    describe("steps", () => describeSteps(rule));
    describe("passes over dead letters", () => describeStepPasses(rule));
    describe("redriving", () => describeRedriving(rule));
    describe("reopening", () => describeReopening(rule));
    describe("dead letters", () => describeDeadLetters(rule));
    describe("failure budget", () => describeFailureBudget(rule));
    describe("checkpoints", () => describeCheckpoints(rule));
    describe("contents", () => describeContents(rule));
    describe("deadlines", () => describeDeadlines(rule));
    describe("watching", () => describeWatching(rule));
    describe("waiting", () => describeWaiting(rule));
    describe("limiting", () => describeLimiting(rule));
    describe("the unsent", () => describeUnsent(rule));
    describe("retention", () => describeRetention(rule));
    describe("races with the ending", () => describeRaces(rule));
    describe("races of conductors, lanes and sweeps", () => describeMoreRaces(rule));
    describe("reading", () => describeReading(rule));
  });
}
