/**
 * Limits that operators set while batches run: caps, weights, rates. They replace what pipelines
 * declare.
 */
import type { Unnamed } from "../base/unnamed.ts";
import { CAP_MAX, CAP_SCOPES, type CapScope } from "./caps.ts";
import type { Rate } from "./token-bucket.ts";

export const LIMIT_KINDS = ["cap", "weight", "rate"] as const;
export type LimitKind = (typeof LIMIT_KINDS)[number];

/** What a limit applies to. */
export type LimitTarget =
  | { readonly kind: "cap"; readonly scope: CapScope; readonly name: string }
  /** `<pipeline>/<tenant>`. */
  | { readonly kind: "weight"; readonly scope: "tenant"; readonly name: string }
  /** `<bucket>`, or `<bucket>/<key>`. */
  | { readonly kind: "rate"; readonly scope: "rate"; readonly name: string };

export type LimitValue = Unnamed<number | Rate>;

export type LimitSetting = Unnamed<{
  readonly kind: LimitKind;
  readonly scope: LimitTarget["scope"];
  readonly name: string;
  readonly value: LimitValue;
}>;

/** A limit that an operator set or removed. */
export type LimitChange = Unnamed<{
  readonly seq: number;
  /** Wall-clock milliseconds. */
  readonly at: number;
  readonly by: string;
  readonly why: string | null;
  readonly kind: LimitKind;
  readonly scope: LimitTarget["scope"];
  readonly name: string;
  readonly before: LimitValue | null;
  readonly after: LimitValue | null;
}>;

const LIMIT_NAME_CHARS_MAX = 400;
export const WEIGHT_MAX = 1_000_000;

/** The name of a pipeline's tenant in limits. A pipeline's name has no slash. */
export function nameTenant(pipeline: string, tenant: string): string {
  return `${pipeline}/${tenant}`;
}

export function isCap(value: unknown): value is number {
  return Number.isInteger(value) && (value as number) > 0 && (value as number) <= CAP_MAX;
}

export function isWeight(value: unknown): value is number {
  return typeof value === "number" && value > 0 && value <= WEIGHT_MAX;
}

/** Why a limit is invalid, and how to fix it; null when it is valid. */
export function findLimitProblem(
  { kind, scope, name }: LimitTarget,
  value: LimitValue | null,
): string | null {
  const problem = findNameProblem(kind, scope, name);
  if (problem !== null || value === null) return problem;
  switch (kind) {
    case "cap":
      return isCap(value) ? null : `a cap is a whole number from 1 to ${CAP_MAX}`;
    case "weight":
      return isWeight(value) ? null : `a weight is a number above 0, at most ${WEIGHT_MAX}`;
    case "rate":
      return isRate(value) ? null : "a rate is above 0 a second, with a burst of at least 1";
    default:
      return `a limit is one of ${LIMIT_KINDS.join(", ")}`;
  }
}

function findNameProblem(kind: LimitKind, scope: string, name: unknown): string | null {
  if (!LIMIT_KINDS.includes(kind)) return `a limit is one of ${LIMIT_KINDS.join(", ")}`;
  const scopes: readonly string[] = { cap: CAP_SCOPES, weight: ["tenant"], rate: ["rate"] }[kind];
  if (!scopes.includes(scope)) return `the scope of a ${kind} is one of ${scopes.join(", ")}`;
  if (typeof name !== "string" || name === "" || name.length > LIMIT_NAME_CHARS_MAX) {
    return `the name of a limit has 1 to ${LIMIT_NAME_CHARS_MAX} characters`;
  }
  if (kind === "weight" && !/^[^/]+\/./su.test(name)) {
    return "the weight of a tenant is named <pipeline>/<tenant>";
  }
  return null;
}

function isRate(value: LimitValue): boolean {
  if (typeof value !== "object") return false;
  const { perSecond, burst } = value;
  return Number.isFinite(perSecond) && perSecond > 0 && Number.isFinite(burst) && burst >= 1;
}
