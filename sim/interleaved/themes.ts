/** The kinds of calls that a seed draws from: each theme makes other transactions meet. */

/** A kind of call. */
export type Maker =
  | "submit"
  | "slice"
  | "add"
  | "seal"
  | "fail"
  | "lease"
  | "report"
  | "finish"
  | "stumble"
  | "haunt"
  | "repeat"
  | "renew"
  | "claimContents"
  | "cancel"
  | "pause"
  | "resume"
  | "setPolicy"
  | "move"
  | "redrive"
  | "prune"
  | "sweep"
  | "draw"
  | "openBucket"
  | "closeBucket"
  | "setLimit"
  | "readStops";

/** What the calls of a seed are drawn from. */
export type Theme = readonly Maker[];

const times = (count: number, ...makers: Maker[]): Maker[] =>
  Array.from({ length: count }, () => makers).flat();

/** Submitters, movers and endings in the same lane. */
const lanes: Theme = [
  ...times(5, "submit", "finish"),
  ...times(3, "move", "cancel", "lease"),
  ...times(2, "resume", "slice", "fail", "stumble"),
  ...times(1, "pause", "setPolicy", "redrive", "readStops", "sweep"),
];

const leases: Theme = [
  ...times(8, "lease", "report"),
  ...times(2, "renew", "sweep", "finish", "haunt", "repeat"),
  ...times(1, "cancel", "pause", "resume", "add", "seal", "setLimit"),
];

const caps: Theme = [
  ...times(9, "lease"),
  ...times(4, "finish", "report"),
  ...times(2, "renew", "setLimit", "submit", "slice"),
  ...times(1, "sweep", "cancel"),
];

const endings: Theme = [
  ...times(5, "finish", "lease"),
  ...times(3, "cancel", "redrive", "stumble"),
  ...times(2, "seal", "add", "prune", "repeat"),
  ...times(1, "fail", "pause", "resume", "sweep", "haunt", "slice", "submit", "readStops"),
];

const contents: Theme = [
  ...times(8, "claimContents"),
  ...times(4, "lease", "report"),
  ...times(1, "finish", "sweep", "cancel", "prune", "redrive", "submit", "slice"),
];

const tokens: Theme = [
  ...times(8, "draw"),
  ...times(1, "openBucket", "closeBucket", "sweep", "lease"),
];

const pauses: Theme = [
  ...times(4, "pause", "resume", "finish"),
  ...times(2, "submit", "lease", "move", "cancel", "slice"),
  ...times(1, "setPolicy", "redrive", "report"),
];

/** In turn, by seed: the first few seeds play all of them. */
const THEMES: readonly Theme[] = [
  lanes,
  leases,
  caps,
  endings,
  contents,
  tokens,
  pauses,
  lanes,
  leases,
  caps,
  endings,
  contents,
];

export function chooseTheme(seed: number): Theme {
  return THEMES[(seed - 1) % THEMES.length] as Theme;
}
