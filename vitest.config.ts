import { defineConfig } from "vitest/config";

/** One project per kind of test, so that each can be run alone: `vitest run --project property`. */
const project = (name: string, include: string[], timeoutMs: number) => ({
  extends: true as const,
  test: { name, include, testTimeout: timeoutMs, hookTimeout: timeoutMs },
});

/** One whose tests may ask for a PostgreSQL server: it starts when the first of them does. */
const withPostgres = (name: string, include: string[], timeoutMs: number) => {
  const { test, ...rest } = project(name, include, timeoutMs);
  return { ...rest, test: { ...test, globalSetup: ["test/support/postgres-setup.ts"] } };
};

type Project = ReturnType<typeof withPostgres>;

const without = ({ test, ...rest }: Project, exclude: string) => ({
  ...rest,
  test: { ...test, exclude: [exclude] },
});

/** After all others and one by one: their processes alone are more than two cores can bear. */
const alone = ({ test, ...rest }: Project) => ({
  ...rest,
  test: { ...test, maxWorkers: 1, sequence: { groupOrder: 1 } },
});

const STORMS = "test/chaos/*storm.test.ts";

export default defineConfig({
  test: {
    environment: "node",
    maxWorkers: 2,
    restoreMocks: true,
    unstubEnvs: true,
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
      project("unit", ["src/**/*.test.ts", "bench/*.test.ts"], 5_000),
      withPostgres("conformance", ["test/conformance/**/*.test.ts"], 60_000),
      withPostgres("property", ["test/property/**/*.test.ts"], 60_000),
      withPostgres("world", ["sim/**/*.test.ts"], 120_000),
      without(
        withPostgres(
          "integration",
          ["test/integration/**/*.test.ts", "test/chaos/**/*.test.ts"],
          120_000,
        ),
        STORMS,
      ),
      alone(withPostgres("storm", [STORMS], 300_000)),
      project("systems", ["systems/**/*.test.ts"], 120_000),
      project("tidy", ["test/tidy/**/*.test.ts"], 20_000),
      withPostgres("docs", ["test/docs/**/*.test.ts"], 120_000),
    ],
  },
});
