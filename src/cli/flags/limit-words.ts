/** Reads the words after `sluice limits set` and `clear`: the target of a limit, and its value. */
import { CAP_SCOPES, type CapScope } from "../../core/limits/caps.ts";
import { SluiceError } from "../../core/base/errors.ts";
import {
  LIMIT_KINDS,
  type LimitKind,
  type LimitTarget,
  nameTenant,
} from "../../core/limits/limit.ts";
import type { Rate } from "../../core/limits/token-bucket.ts";
import { unreachable } from "../../core/base/invariant.ts";
import { formatDidYouMean, findSimilar } from "../../core/base/similar-words.ts";

const FORMS: { readonly [Kind in LimitKind]: string } = {
  cap: "cap batch|lane|pipeline <name>",
  weight: "weight <pipeline> <tenant>",
  rate: "rate <bucket> [key]",
};

const PERIODS_S: { readonly [unit: string]: number } = { s: 1, min: 60, h: 3_600 };

export interface LimitWords {
  readonly target: LimitTarget;
  /** The words after the name. */
  readonly rest: readonly string[];
}

/** `values`: how many words come after the name. */
export function readLimitWords(kind: string, words: readonly string[], values: 0 | 1): LimitWords {
  const known = readKind(kind);
  const count = words.length - values;
  const fits = known === "rate" ? count === 1 || count === 2 : count === 2;
  if (!fits) {
    const value = values === 0 ? "" : known === "rate" ? " <n>/s" : " <n>";
    const verb = values === 0 ? "clear" : "set";
    throw new SluiceError("USAGE", `the arguments do not fit a ${known}`, {
      hint: `sluice limits ${verb} ${FORMS[known]}${value}`,
    });
  }
  const [first = "", second = ""] = words;
  const rest = words.slice(count);
  switch (known) {
    case "cap":
      return { target: { kind: "cap", scope: readScope(first), name: second }, rest };
    case "weight":
      return {
        target: { kind: "weight", scope: "tenant", name: nameTenant(first, second) },
        rest,
      };
    case "rate":
      return {
        target: { kind: "rate", scope: "rate", name: words.slice(0, count).join("/") },
        rest,
      };
    default:
      return unreachable(known);
  }
}

function readKind(word: string): LimitKind {
  const kind = LIMIT_KINDS.find((one) => one === word);
  if (kind !== undefined) return kind;
  const question = formatDidYouMean(findSimilar(word, LIMIT_KINDS));
  throw new SluiceError("BAD_OPTION", `${JSON.stringify(word)} is not a kind of limit`, {
    field: "limit",
    hint: `${question} Use one of ${LIMIT_KINDS.join(", ")}.`.trim(),
  });
}

function readScope(word: string): CapScope {
  const scope = CAP_SCOPES.find((one) => one === word);
  if (scope !== undefined) return scope;
  const question = formatDidYouMean(findSimilar(word, CAP_SCOPES));
  throw new SluiceError("BAD_OPTION", `${JSON.stringify(word)} cannot have a cap`, {
    field: "limit",
    hint: `${question} A cap belongs to one of ${CAP_SCOPES.join(", ")}.`.trim(),
  });
}

/** A plain number; the operator checks its range. */
export function readLimitNumber(word: string): number {
  const number = /^\d+(\.\d+)?$/.test(word) ? Number(word) : Number.NaN;
  if (!Number.isNaN(number)) return number;
  throw new SluiceError("BAD_OPTION", `${JSON.stringify(word)} is not a number`, {
    field: "limit",
    hint: "Give a number above 0, such as 50.",
  });
}

/** `5/s`, `30/min`, `100/h`. The default burst is the calls of one second, at least 1. */
export function readRate(word: string, burst: string | undefined): Rate {
  const [, count, unit = ""] = /^(\d+(?:\.\d+)?)\/(s|min|h)$/.exec(word) ?? [];
  const period = PERIODS_S[unit];
  if (count === undefined || period === undefined) {
    throw new SluiceError("BAD_OPTION", `${JSON.stringify(word)} is not a rate`, {
      field: "limit",
      hint: "Write a rate as 5/s, 30/min or 100/h.",
    });
  }
  const perSecond = Number(count) / period;
  return {
    perSecond,
    burst: burst === undefined ? Math.max(1, Math.ceil(perSecond)) : readLimitNumber(burst),
  };
}
