import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";
import { LongestFirst } from "./test/support/longest-first.ts";

/** Tests that compute: as many files at once as the smallest machine has cores. */
const COMPUTING = { maxWorkers: 2, sequence: { groupOrder: 0 } };
/** Tests that mostly wait for processes, leases and timers of their own. */
const WAITING = { maxWorkers: 5, sequence: { groupOrder: 1 } };
/** One file at a time: the processes of one storm alone keep two cores busy. */
const STORMING = { maxWorkers: 1, sequence: { groupOrder: 2 } };

const ENGINE = "test/integration/engine/**/*.test.ts";
const STORMS = "test/chaos/*storm.test.ts";
/** They limit the time of downloads: beside five other files, a slow one is taken for a hanging one. */
const DRILLS = "systems/**/drills.test.ts";

interface Kind {
  readonly name: string;
  readonly include: readonly string[];
  readonly exclude?: readonly string[];
  readonly timeoutMs: number;
  readonly load: typeof COMPUTING;
  /** Each file has a process of its own: its tests count connections, timers, memory or children. */
  readonly isolated?: boolean;
}

/** One project for each kind of test, so that each can be run alone: `vitest run --project property`. */
const project = ({ name, include, exclude = [], timeoutMs, load, isolated = false }: Kind) => ({
  extends: true as const,
  test: {
    name,
    include: [...include],
    exclude: [...exclude],
    testTimeout: timeoutMs,
    hookTimeout: timeoutMs,
    // Otherwise files run one after the other in a process and leave nothing behind. A process for
    // each cost half a second of CPU: it loads the engine again and creates schemas again.
    isolate: isolated,
    ...load,
  },
});

export default defineConfig({
  test: {
    environment: "node",
    maxWorkers: 2,
    sequence: { sequencer: LongestFirst },
    restoreMocks: true,
    unstubEnvs: true,
    // Most tests start processes of the same modules: compiled once, a command takes a quarter less.
    env: {
      NODE_COMPILE_CACHE: fileURLToPath(new URL("node_modules/.cache/node", import.meta.url)),
    },
    globalSetup: ["test/support/postgres-setup.ts"],
    // CI counts passed and failed tests from the JSON report.
    reporters: process.env["CI"] ? ["default", "json"] : ["default"],
    outputFile: { json: "test-results/vitest.json" },
    coverage: {
      provider: "v8",
      include: ["src/**/*.ts"],
      exclude: ["src/**/*.test.ts", "src/**/*.d.ts"],
      reportsDirectory: "coverage",
    },
    projects: [
      {
        name: "unit",
        include: ["src/**/*.test.ts", "bench/*.test.ts"],
        timeoutMs: 10_000,
        load: COMPUTING,
      },
      { name: "tidy", include: ["test/tidy/**/*.test.ts"], timeoutMs: 20_000, load: COMPUTING },
      {
        name: "conformance",
        include: ["test/conformance/**/*.test.ts"],
        timeoutMs: 60_000,
        load: COMPUTING,
      },
      {
        name: "property",
        include: ["test/property/**/*.test.ts"],
        timeoutMs: 60_000,
        load: COMPUTING,
      },
      { name: "world", include: ["sim/**/*.test.ts"], timeoutMs: 120_000, load: COMPUTING },
      {
        name: "integration",
        include: ["test/integration/**/*.test.ts", "test/chaos/**/*.test.ts"],
        exclude: [STORMS, ENGINE],
        timeoutMs: 120_000,
        load: WAITING,
        isolated: true,
      },
      { name: "engine", include: [ENGINE], timeoutMs: 120_000, load: WAITING },
      {
        name: "systems",
        include: ["systems/**/*.test.ts"],
        exclude: [DRILLS],
        timeoutMs: 120_000,
        load: WAITING,
        isolated: true,
      },
      {
        name: "docs",
        include: ["test/docs/**/*.test.ts"],
        timeoutMs: 300_000,
        load: WAITING,
        isolated: true,
      },
      { name: "drill", include: [DRILLS], timeoutMs: 300_000, load: STORMING, isolated: true },
      { name: "storm", include: [STORMS], timeoutMs: 300_000, load: STORMING, isolated: true },
    ].map(project),
  },
});
