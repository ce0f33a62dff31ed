/**
 * Whose turn it is in a lane: one batch at a time, in the order of submission. A head that cannot
 * go on may block the lane, be skipped until it can, or be parked until somebody resumes it.
 */

export const LANE_POLICIES = ["block", "skip", "park"] as const;
export type LanePolicy = (typeof LANE_POLICIES)[number];
export const DEFAULT_LANE_POLICY: LanePolicy = "block";

export interface LaneCandidate {
  /** Why it could not go on if it had its turn; null when it could. */
  readonly stuck: string | null;
}

export interface LaneTurn<Candidate extends LaneCandidate> {
  readonly start: Candidate | null;
  /** Those that leave the queue, with their reasons. */
  readonly park: readonly Candidate[];
}

/** Candidates come in their order; as many are looked at as it takes. */
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

/** What becomes of a batch that holds its lane and cannot go on, while others wait behind it. */
export function decideStuckHolder(policy: LanePolicy): "stay" | "step_aside" | "park" {
  return policy === "block" ? "stay" : policy === "skip" ? "step_aside" : "park";
}
