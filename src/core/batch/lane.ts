/**
 * Which batch of a lane runs next: one at a time, in the order of submission. When the first batch
 * cannot run, it may block the lane, be skipped until it can run, or be parked until an operator
 * resumes it.
 */

export const LANE_POLICIES = ["block", "skip", "park"] as const;
export type LanePolicy = (typeof LANE_POLICIES)[number];
export const DEFAULT_LANE_POLICY: LanePolicy = "block";

export interface LaneCandidate {
  /** Why it could not run if it had the lane; null when it could. */
  readonly stuck: string | null;
}

export interface LaneTurn<Candidate extends LaneCandidate> {
  readonly start: Candidate | null;
  /** The batches that leave the queue, with their reasons. */
  readonly park: readonly Candidate[];
}

/** Candidates come in lane order; only as many are read as needed. */
export function decideTurn<Candidate extends LaneCandidate>(
  policy: LanePolicy,
  candidates: Iterable<Candidate>,
): LaneTurn<Candidate> {
  const park: Candidate[] = [];
  for (const candidate of candidates) {
    if (candidate.stuck === null || policy === "block") return { start: candidate, park };
    if (policy === "park") park.push(candidate);
  }
  return { start: null, park };
}

/** What happens to a batch that holds its lane and cannot run, while others wait behind it. */
export function decideStuckHolder(policy: LanePolicy): "stay" | "step_aside" | "park" {
  return policy === "block" ? "stay" : policy === "skip" ? "step_aside" : "park";
}
