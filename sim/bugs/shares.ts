/** Bugs of shares: which tenant's work is leased next. */
import type { Bug } from "./bug.ts";

const SHARE = "src/core/limits/fair-share.ts";

export const shareBugs: readonly Bug[] = [
  {
    name: "leases-not-charged",
    what: "A lease costs its tenant nothing.",
    file: SHARE,
    before: "const finish = computeStart(share, virtual) + items * computeCost(share);",
    after: "const finish = computeStart(share, virtual) + 0 * items;",
    also: [
      {
        file: SHARE,
        before: "finish: Math.max(0, finish + use.moved),",
        after: "finish: Math.max(0, finish),",
      },
    ],
    rare: true,
  },
  {
    name: "weight-inverted",
    what: "A tenant with twice the weight gets half as much.",
    file: SHARE,
    before: "return itemMs / weight;",
    after: "return itemMs * weight;",
    also: [
      {
        file: SHARE,
        before: "const used = total / weight;",
        after: "const used = total * weight;",
      },
    ],
    rare: true,
  },
  {
    name: "weight-not-used-for-what-was-used",
    what: "The time that a lease really took is charged without its tenant's weight.",
    file: SHARE,
    before: "const used = total / weight;",
    after: "const used = total;",
    rare: true,
  },
  {
    name: "newcomer-with-credit",
    what: "A tenant that comes back has saved credit for the time in which it had no work.",
    file: SHARE,
    before: "return Math.max(virtual - owed, finish);",
    after: "return Math.max(0 * (virtual - owed), finish);",
    rare: true,
  },
  {
    name: "charges-not-corrected",
    what: "A lease stays charged as if all items took the same time.",
    file: "src/adapters/memory/settling.ts",
    before: "    leaseUsage.apply();\n",
    after: "",
    rare: true,
  },
  {
    name: "handler-time-not-measured",
    what: "Tenants share numbers of items, not handler time.",
    file: "src/runtime/running/item-loop.ts",
    before: "if (worked !== null) worked.addBusyTime(now - slot.startedAt);",
    after: "void worked;",
    rare: true,
  },
  {
    name: "more-lanes-get-more",
    what: "Each lane has its own share, whatever its tenant is.",
    file: "src/runtime/engine/submission-check.ts",
    before: "if (tenant === null) return lane;",
    after: 'if (lane !== "") return lane;',
    rare: true,
  },
  {
    name: "most-served-tenant-first",
    what: "The tenant that had most gets more.",
    file: SHARE,
    before: "const at = starts.indexOf(Math.min(...starts));",
    after: "const at = starts.indexOf(Math.max(...starts));",
    rare: true,
  },
  {
    name: "operators-weight-ignored",
    what: "A weight that an operator sets is stored and never used.",
    file: "src/adapters/memory/fair-shares.ts",
    before: 'if (typeof set?.value === "number") return set.value;',
    after: "void set;",
    rare: true,
  },
];
