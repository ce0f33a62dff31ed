/**
 * The faults of the portals, as a pure function of the seed, the document and the number of the
 * attempt. So a run can be repeated, and the faults do not depend on when a client asks. From
 * attempt ATTEMPTS_NEEDED_MAX on there are no faults, except for documents that are never
 * delivered: so the plan of a corpus states the final state of each document.
 */
import { unreachable } from "./unreachable.ts";
import { EXPECTED, type Expected, type PlannedDocument } from "./planned-document.ts";
import { ChanceSequence } from "./seeded-chance.ts";

export const FAULT_PROFILES = ["calm", "demo", "hostile"] as const;
export type FaultProfile = (typeof FAULT_PROFILES)[number];

export type Fault =
  | { readonly kind: "none" }
  /** Answers correctly, but late. */
  | { readonly kind: "latency"; readonly latencyMs: number }
  | { readonly kind: "status"; readonly status: 404 | 500 | 503 }
  /** The connection is cut when this share of the body has been sent. */
  | { readonly kind: "reset"; readonly share: number }
  /** Accepts the request and never answers. */
  | { readonly kind: "hang" }
  /** Begins correctly, and then sends a few bytes a second. */
  | { readonly kind: "drip"; readonly bytesPerSecond: number };

/** The requested document. */
export type FaultPlace = Pick<PlannedDocument, "site" | "path" | "kind">;

/** One of the sites has a slow portal with many faults; a corpus of one site has none. */
export const BAD_SITE = "site-02";

/** A client with this many attempts gets every document that can be delivered. */
export const ATTEMPTS_NEEDED_MAX = 5;

const NONE: Fault = { kind: "none" };

interface Weather {
  /**
   * The share of attempts that fail: of first ones, of second ones and so on; later ones never
   * fail.
   */
  readonly failing: readonly number[];
  /** The share of slow attempts, and how slow they are. */
  readonly slow: number;
  readonly slowMs: readonly [least: number, most: number];
}

const WEATHER: Readonly<Record<FaultProfile, { readonly good: Weather; readonly bad: Weather }>> = {
  calm: {
    good: { failing: [], slow: 0, slowMs: [0, 0] },
    bad: { failing: [], slow: 0, slowMs: [0, 0] },
  },
  demo: {
    good: { failing: [0.045, 0.01], slow: 0.1, slowMs: [20, 200] },
    bad: { failing: [0.4, 0.2, 0.05], slow: 1, slowMs: [150, 800] },
  },
  hostile: {
    good: { failing: [0.35, 0.2, 0.1, 0.05], slow: 0.3, slowMs: [20, 500] },
    bad: { failing: [0.7, 0.5, 0.3, 0.15], slow: 1, slowMs: [300, 1_500] },
  },
};

const DRIP_BYTES_PER_SECOND = 8;
/** Errors are more frequent than silence, which costs time. */
const FAILING_STATUS_SHARE = 0.6;
const FAILING_RESET_SHARE = 0.85;
const FAILING_HANG_SHARE = 0.93;

/** `attempt` is 1 for the first. */
export function decideFault(
  seed: number,
  place: FaultPlace,
  attempt: number,
  profile: FaultProfile,
): Fault {
  const chance = new ChanceSequence(seed, "fault", profile, place.path, attempt);
  const always = decideUndelivered(place, profile);
  if (always !== null) return always;
  const weather = WEATHER[profile][place.site === BAD_SITE ? "bad" : "good"];
  if (chance.next() < (weather.failing[attempt - 1] ?? 0)) return pickFailure(chance);
  if (chance.next() < weather.slow) {
    return { kind: "latency", latencyMs: chance.pickNumber(...weather.slowMs) };
  }
  return NONE;
}

/** The final state of a document under any profile; `expected` of the plan is that of the demo. */
export function decideExpected(
  document: Pick<PlannedDocument, "kind" | "expected">,
  profile: FaultProfile,
): Expected {
  // Their files are good, and a calm portal delivers them.
  return profile === "calm" && isNeverDelivered(document) ? EXPECTED.text : document.expected;
}

function isNeverDelivered({ kind }: Pick<PlannedDocument, "kind">): boolean {
  return kind === "never-found" || kind === "never-answers" || kind === "never-whole";
}

function decideUndelivered({ kind }: FaultPlace, profile: FaultProfile): Fault | null {
  if (profile === "calm") return null;
  if (kind === "never-found") return { kind: "status", status: 404 };
  if (kind === "never-answers") return { kind: "hang" };
  if (kind === "never-whole") return { kind: "reset", share: 0.5 };
  return null;
}

function pickFailure(chance: ChanceSequence): Fault {
  const which = chance.next();
  if (which < FAILING_STATUS_SHARE) return { kind: "status", status: chance.pickOne([500, 503]) };
  if (which < FAILING_RESET_SHARE) return { kind: "reset", share: chance.next() };
  if (which < FAILING_HANG_SHARE) return { kind: "hang" };
  return { kind: "drip", bytesPerSecond: DRIP_BYTES_PER_SECOND };
}

/** Whether this attempt cannot get the document. */
export function isFailure(fault: Fault): boolean {
  switch (fault.kind) {
    case "none":
    case "latency":
      return false;
    case "status":
    case "reset":
    case "hang":
    case "drip":
      return true;
    default:
      return unreachable(fault);
  }
}
