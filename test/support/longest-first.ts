/**
 * The order of test files: a long file that starts last runs alone, while the other cores wait. Vitest
 * orders files by their size, which says little here, and by their duration once it has seen them,
 * which a fresh clone has not.
 */
import { BaseSequencer, type TestSpecification } from "vitest/node";

/** Files that take long for their size, the longest first. A file that is not listed runs later. */
const LONG = [
  "sim/swarm/swarm.test.ts",
  "test/property/differential/differential.property.test.ts",
  "test/conformance/postgres.test.ts",
  "test/property/store.property.test.ts",
  "sim/shadow-store.test.ts",
  "test/docs/docs.test.ts",
  "test/chaos/postgres-partition.test.ts",
  "test/chaos/ledger-kills.test.ts",
  "test/integration/cli/supervising.test.ts",
];

export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    // Sorting keeps the order of what is equal.
    return sorted.toSorted((a, b) => readGroup(a) - readGroup(b) || findRank(a) - findRank(b));
  }
}

function readGroup({ project }: TestSpecification): number {
  return project.config.sequence.groupOrder;
}

function findRank({ moduleId }: TestSpecification): number {
  const rank = LONG.findIndex((path) => moduleId.endsWith(`/${path}`));
  return rank === -1 ? LONG.length : rank;
}
