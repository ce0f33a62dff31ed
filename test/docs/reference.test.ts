/** The tables of the reference pages list exactly what the code has. */
import { readdirSync, readFileSync } from "node:fs";
import { join, relative } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { BATCH_STATES, RECORD_TYPES } from "../../src/core/batch/batch.ts";
import { DEFAULT_LANE_POLICY, LANE_POLICIES } from "../../src/core/batch/lane.ts";
import { WHY_CODES } from "../../src/core/batch/why.ts";
import { LOOKS } from "../../src/adapters/postgres/store.ts";
import { loadConfig } from "../../src/cli/config/config.ts";
import { EXIT_CODES_HELP } from "../../src/cli/output/exit-codes.ts";
import {
  ENGINE_SETTINGS,
  HEALTH_SETTINGS,
  nameVariable,
  VARIABLES,
} from "../../src/cli/config/settings-layers.ts";
import { DEFAULT_TARGET, findTargetProblems } from "../../src/core/fleet/scaling.ts";
import { BatchHandle } from "../../src/runtime/engine/batch-handle.ts";
import { cpuOptions, type CpuSettings } from "../../src/runtime/cpu/cpu-settings.ts";
import { Engine } from "../../src/runtime/engine/engine.ts";
import { OpenBatch } from "../../src/runtime/engine/open-batch.ts";
import { Operator } from "../../src/runtime/engine/operator.ts";
import { definePipeline, type Pipeline } from "../../src/runtime/pipeline/pipeline.ts";
import {
  DEFAULT_SETTINGS,
  type EngineSettings,
  findSettingProblems,
  resolveSettings,
} from "../../src/runtime/system/settings.ts";
import { stepMembers, stepOptions } from "../../src/runtime/pipeline/step-check.ts";
import { Topic } from "../../src/runtime/delivering/topic.ts";
import { Workspace } from "../support/command-line.ts";
import { type Page, readPage, ROOT } from "./markdown.ts";

const plain = (cell: string): string => cell.replaceAll("`", "");
const toNumber = (cell: string): number => Number(plain(cell).replaceAll(",", ""));

/** The rows, without the header, of every table whose header begins with these words. */
function findRows(page: Page, ...titles: string[]): string[][] {
  const tables = page.tables.filter(([header]) =>
    titles.every((title, at) => header?.[at] === title),
  );
  expect(tables, `${page.path} has a table: ${titles.join(", ")}`).not.toEqual([]);
  return tables.flatMap((table) => table.slice(1).map((row) => [...row]));
}

describe("settings.md", () => {
  const page = readPage("docs/reference/settings.md");
  const rows = findRows(page, "setting", "default", "from", "to", "variable");
  const others = findRows(page, "variable", "in `sluice.config.ts`", "default");

  test("has every setting with its default and its variable", () => {
    const shown = rows.map(([name = "", value = "", , , variable = ""]) => [
      plain(name),
      toNumber(value),
      plain(variable),
    ]);
    const commands: readonly string[] = ENGINE_SETTINGS;
    const names = Object.keys(DEFAULT_SETTINGS) as (keyof EngineSettings)[];
    const real = names.map((name) => [
      name,
      DEFAULT_SETTINGS[name],
      commands.includes(name) ? nameVariable(name) : "",
    ]);
    expect(shown).toEqual(real);
  });

  test("has the limits that are enforced", () => {
    const isRefused = (name: string, value: number): boolean =>
      findSettingProblems({ [name]: value }).some(({ problem }) =>
        problem.includes("must be a whole number"),
      );
    for (const [name = "", , from = "", to = ""] of rows) {
      const setting = plain(name);
      const refused = [toNumber(from) - 1, toNumber(from), toNumber(to), toNumber(to) + 1].map(
        (value) => isRefused(setting, value),
      );
      expect(refused, setting).toEqual([true, false, false, true]);
    }
  });

  test("has every variable that belongs to no engine setting, with its name in the file", () => {
    const shown = others.map(([variable = "", name = ""]) => [plain(variable), plain(name)]);
    const own = ["store", "synchronous", "busyMs", "ledgerKey", ...HEALTH_SETTINGS];
    expect(shown).toEqual([
      ...own.map((name) => [nameVariable(name), name]),
      ["SLUICE_PROCESS", ""],
      ["SLUICE_LOG", ""],
      ["SLUICE_DEBUG", ""],
      ["NO_COLOR, FORCE_COLOR", ""],
    ]);
  });

  test("has the defaults of the command and its workers", async () => {
    const shown = new Map(
      others.map(([variable = "", , value = ""]) => [plain(variable), plain(value)]),
    );
    const { store, synchronous, busyMs, health } = await loadConfig({}, {});
    expect(shown.get("SLUICE_STORE")).toBe(relative(".", store));
    expect(shown.get("SLUICE_SYNCHRONOUS")).toBe(synchronous);
    expect(toNumber(shown.get("SLUICE_BUSY_MS") ?? "")).toBe(busyMs);
    expect(shown.get("SLUICE_HEALTH_PORT")).toBe(String(health.port));
    expect(shown.get("SLUICE_HEALTH_HOST")).toBe(health.host);
    expect(shown.get("SLUICE_HEARTBEAT_TIMEOUT")).toBe(`${health.limits.heartbeatMs / 1_000}s`);
    expect(shown.get("SLUICE_TASK_TIMEOUT_BUFFER")).toBe(String(health.limits.taskBuffer));
  });

  test("has every variable that the command reads", () => {
    const shown = [...rows.map((row) => row[4] ?? ""), ...others.map(([name = ""]) => name)].map(
      plain,
    );
    const own = shown.filter((name) => name.startsWith("SLUICE_"));
    expect(own.toSorted()).toEqual([...VARIABLES].toSorted());
  });

  test("has the values that are derived, with their rules and defaults", () => {
    const derived = findRows(page, "what happens", "how often, or after how long", "default");
    const given = { leaseMs: 9_999, stallMs: 30_000, orphanMs: 7_000 };
    const [usual, other] = [resolveSettings({}), resolveSettings(given)];
    const names = ["renewMs", "sweepMs", "watchMs", "staleMs"] as const;
    expect(derived.map(([, , value = ""]) => toNumber(value))).toEqual(
      names.map((name) => usual[name]),
    );
    const rules = derived.map(([, rule = ""]) => rule.split("; ").map(plain));
    const compute = (rule = ""): number => {
      const [, setting = "", sign, factor] = /(\w+Ms) ([/×]) (\d+)$/.exec(rule) ?? [];
      const value = given[setting as keyof typeof given];
      return Math.floor(sign === "/" ? value / Number(factor) : value * Number(factor));
    };
    for (const at of [0, 2, 3]) expect(compute(rules[at]?.[0])).toBe(other[names[at] ?? "renewMs"]);
    const [sweeps, most] = rules[1] ?? [];
    expect(sweeps?.match(/[\d,]+\d/g)?.map(toNumber)).toEqual([usual.sweepMs, LOOKS.sweepMs]);
    expect(compute(most)).toBe(resolveSettings(given, { ...LOOKS, sweepMs: 10_000 }).sweepMs);
  });

  test("has the constants and polling intervals", () => {
    const text = readFileSync(join(ROOT, page.path), "utf8");
    const { flushItems, leaseTargetMs, outageRetryMs } = resolveSettings({});
    expect(text).toContain(`flushes after ${flushItems.toLocaleString("en")} outcomes`);
    expect(text).toContain(`about ${leaseTargetMs} ms of work`);
    expect(text).toContain(`again after ${outageRetryMs / 1_000} seconds`);
    expect(text).toContain(`; ${LOOKS.pollMs.toLocaleString("en")} on a PostgreSQL server`);
    expect(text).toContain(`On a server the default is ${LOOKS.pollMs / 1_000} s`);
    expect(text).toContain(`On a file the default is ${DEFAULT_SETTINGS.pollMs / 1_000} s`);
  });
});

test("observing.md has every option of scaling, with its default and its limits", () => {
  const rows = findRows(readPage("docs/operating/observing.md"), "option", "default", "meaning");
  const shown = rows.flatMap(([names = "", defaults = "", meaning = ""]) => {
    const values = defaults.split(", ").map(toNumber);
    return plain(names)
      .split(", ")
      .map((name, at) => ({ name, value: values[at], meaning }));
  });
  expect(shown.map(({ name, value }) => [name, value])).toEqual(Object.entries(DEFAULT_TARGET));
  const isRefused = (given: object): boolean => findTargetProblems(given).length > 0;
  for (const { name, meaning } of shown.filter((one) => one.name !== "utilisation")) {
    const [, from = "", to = ""] = /([\d,]+) to ([\d,]+)$/.exec(meaning) ?? [];
    const refused = [toNumber(from) - 1, toNumber(from), toNumber(to), toNumber(to) + 1].map(
      (value) => isRefused({ max: 100_000, [name]: value }),
    );
    expect(refused, name).toEqual([true, false, false, true]);
  }
});

describe("engine-options.md", () => {
  const page = readPage("docs/reference/engine-options.md");

  test("has every method of an engine, a batch, an open batch and an operator", () => {
    const listMethods = (...classes: { prototype: object }[]): string[] =>
      classes
        .flatMap(({ prototype }) => Object.getOwnPropertyNames(prototype))
        .filter((name) => name !== "constructor");
    const shown = findRows(page, "method").map(([call = ""]) => plain(call).replace(/\(.*/, ""));
    const real = listMethods(Engine, BatchHandle, OpenBatch, Operator, Topic);
    expect(shown.toSorted()).toEqual(real.toSorted());
  });

  test("has every state of a batch", () => {
    const shown = findRows(page, "state").map(([state = ""]) => plain(state));
    expect(shown).toEqual([...BATCH_STATES]);
  });
});

describe("pipeline-options.md", () => {
  const page = readPage("docs/reference/pipeline-options.md");
  const rows = findRows(page, "option", "default", "limits").map((row) => row.map(plain));
  const define = (options: object): Pipeline =>
    definePipeline({
      name: "p",
      key: (item: unknown) => String(item),
      process: () => 1,
      ...options,
    });

  test("has exactly the options of a pipeline and of a step", () => {
    const shown = new Set(rows.map(([name = ""]) => name.split(".")[0] ?? ""));
    const real = [...Object.keys(define({})), ...Object.keys(stepOptions)];
    expect([...shown].toSorted()).toEqual(real.toSorted());
    const inner = rows.map(([name = ""]) => name).filter((name) => name.includes("."));
    const known = Object.entries({
      share: define({}).share,
      retry: stepMembers.retry,
      dedupe: stepMembers.dedupe,
      topics: stepMembers.topics,
    }).flatMap(([outer, shape]) => Object.keys(shape).map((name) => `${outer}.${name}`));
    expect(inner).toEqual(known);
    expect(() => define({ nothing: 1 })).toThrow("nothing is not an option");
  });

  test("has the defaults that definePipeline sets", () => {
    const { steps, share, ...pipeline } = define({});
    const { retry, topics, ...step } = steps[0];
    const within = Object.entries({ share, retry, topics }).flatMap(([outer, given]) =>
      Object.entries(given).map(([name, value]) => [`${outer}.${name}`, value as unknown]),
    );
    const flat: Record<string, unknown> = {
      ...step,
      ...pipeline,
      ...Object.fromEntries(within),
    };
    for (const [name = "", shown = ""] of rows) {
      if (["required", "one of the three"].includes(shown)) continue;
      // Without a default in the table, none is set.
      if (shown === "none") {
        expect({ [name]: flat[name] ?? null }).toEqual({ [name]: null });
        continue;
      }
      // A default may be the value of another option.
      const value = /^[\d,]+$/.test(shown)
        ? toNumber(shown)
        : (flat[shown] ?? (JSON.parse(shown) as unknown));
      expect({ [name]: value }).toEqual({ [name]: flat[name] });
    }
  });

  test("has the limits that are enforced", () => {
    const isRefused = (name: string, value: number): boolean => {
      const [outer = "", inner] = name.split(".");
      const given = inner === undefined ? value : { [inner]: value };
      try {
        define({ [outer]: given });
        return false;
      } catch (thrown) {
        return (thrown as Error).message.includes("must be a whole number");
      }
    };
    const limited = rows.flatMap(([name = "", , limits = ""]) => {
      const [, from, to] = /^([\d,]+) to ([\d,]+)$/.exec(limits) ?? [];
      return from === undefined || to === undefined ? [] : [{ name, from, to }];
    });
    expect(limited).toHaveLength(11);
    for (const { name, from, to } of limited) {
      const refused = [toNumber(from) - 1, toNumber(from), toNumber(to), toNumber(to) + 1].map(
        (value) => isRefused(name, value),
      );
      expect(refused, name).toEqual([true, false, false, true]);
    }
  });
});

describe("cpu-work.md", () => {
  const rows = findRows(readPage("docs/guide/cpu-work.md"), "cpu option").map((row) =>
    row.map(plain),
  );
  const define = (cpu: object): CpuSettings | null =>
    definePipeline({ name: "p", process: (n: number) => n, cpu }).steps[0].cpu;

  test("has every option of cpu with its default", () => {
    expect(rows.map(([name]) => name)).toEqual(Object.keys(cpuOptions));
    for (const [name = "", shown = ""] of rows) {
      // That of the machine.
      if (name === "size") continue;
      const value = /^[\d,]+$/.test(shown) ? toNumber(shown) : (JSON.parse(shown) as unknown);
      expect({ [name]: value }).toEqual({ [name]: define({})?.[name as keyof CpuSettings] });
    }
  });

  test("has the limits that are enforced", () => {
    for (const [name = "", , limits = ""] of rows) {
      const [, from, to] = /^([\d,]+) to ([\d,]+)$/.exec(limits) ?? [];
      if (from === undefined || to === undefined) continue;
      expect(() => define({ [name]: toNumber(from) - 1 }), name).toThrow("whole number");
      expect(() => define({ [name]: toNumber(to) + 1 }), name).toThrow("whole number");
      for (const value of [from, to]) define({ [name]: toNumber(value) });
    }
  });
});

test("events.md has every type of record, in order", () => {
  const page = readPage("docs/reference/events.md");
  const shown = findRows(page, "type", "when").map(([type = ""]) => plain(type));
  expect(shown).toEqual([...RECORD_TYPES]);
});

describe("lanes.md", () => {
  const page = readPage("docs/guide/lanes.md");

  test("has every policy of a lane, the default first", () => {
    const shown = findRows(page, "policy").map(([policy = ""]) => plain(policy));
    expect(shown).toEqual(
      LANE_POLICIES.map((policy) =>
        policy === DEFAULT_LANE_POLICY ? `${policy} (default)` : policy,
      ),
    );
  });

  test("has every answer to the question why a batch waits", () => {
    const shown = findRows(page, "code").flatMap(([codes = ""]) => plain(codes).split(", "));
    expect(shown.toSorted()).toEqual([...WHY_CODES].toSorted());
  });
});

test("running.md has every event that the engine logs", () => {
  const page = readPage("docs/operating/running.md");
  const shown = findRows(page, "level", "event").map(([, event = ""]) => plain(event));
  const real = ["src/runtime", "src/health-thread"]
    .flatMap(listSources)
    .flatMap(({ text }) =>
      [...text.matchAll(/\bevent: "([a-z_.]+)"/g)].map(([, event = ""]) => event),
    );
  expect(shown.toSorted()).toEqual([...new Set(real)].toSorted());
});

function listSources(folder: string): { path: string; text: string }[] {
  return readdirSync(join(ROOT, folder), { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".ts") && !/\.(test|d)\.ts$/.test(name))
    .map((name) => join(folder, name))
    .map((path) => ({ path, text: readFileSync(join(ROOT, path), "utf8") }));
}

describe("error-codes.md", () => {
  const shown = findRows(readPage("docs/reference/error-codes.md"), "code").map(([code = ""]) =>
    plain(code),
  );

  /** Where the code contains a code. */
  const CODE = "[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*";
  const PLACES = [
    `SluiceError\\(\\s*"(${CODE})"`,
    `SluiceError\\(\\s*[^"\\n]*"\\w+" \\? "(${CODE})" : "${CODE}"`,
    `SluiceError\\(\\s*[^"\\n]*"\\w+" \\? "${CODE}" : "(${CODE})"`,
    `\\bmakeError\\(\\s*"(${CODE})"`,
    `\\bcode: "(${CODE})"`,
    `\\bcode: [^\\n]*\\? "(${CODE})"`,
    `\\bcode: [^\\n]*: "(${CODE})"`,
    `super\\(message, "(${CODE})"`,
    `=== null \\? "(${CODE})" : \`HTTP_`,
    `["\`]error (${CODE}): `,
  ].map((place) => new RegExp(place, "g"));
  /** A code of the starter's own pipeline, and the word for one in a comment. */
  const NO_CODES = ["BAD_EMAIL", "CODE"];

  const found = new Set(
    listSources("src")
      .flatMap(({ text }) => PLACES.flatMap((place) => [...text.matchAll(place)]))
      .map(([, code = ""]) => code)
      .filter((code) => !NO_CODES.includes(code)),
  );

  test("has exactly the codes of the source", () => {
    expect(shown.toSorted()).toEqual([...found, "HTTP_…"].toSorted());
  });

  /** The words of a property in the calls that make an error with one of these codes. */
  const findWords = (folder: string, codes: string, property: string): string[] =>
    listSources(folder).flatMap(({ text }) =>
      [...text.matchAll(new RegExp(`SluiceError\\(\\s*"(?:${codes})"[^;]*`, "g"))]
        .flatMap(([call]) => [...call.matchAll(new RegExp(`\\b${property}: ([^\\n]*)`, "g"))])
        .map(([, value = ""]) => value.replace(/, (hint|cause).*/, ""))
        .flatMap((value) => [...value.matchAll(/"(\w+)"/g)].map(([, word = ""]) => word)),
    );
  const listWords = (title: string): string[] =>
    findRows(readPage("docs/reference/error-codes.md"), title)
      .flatMap(([cell = ""]) => plain(cell).split(":", 1)[0]?.split(", ") ?? [])
      .filter((word) => /^\w+$/.test(word));

  test("has every field, except settings and the options of sources", () => {
    const general = new Set([...findWords("src/sources", "BAD_OPTION", "field"), "synchronous"]);
    const own = findWords("src", "BAD_OPTION", "field").filter((word) => !general.has(word));
    // Checked by the engine under the names that its callers use.
    const passed = ["topic", "group", "limit", "after", "position"];
    const real = new Set([...own.filter((word) => word !== "busyMs"), ...passed]);
    expect(listWords("field").toSorted()).toEqual([...real].toSorted());
  });

  test("has every kind", () => {
    const found = findWords("src", CODE, "kind");
    // Passed on: what a name is of, and what a handler called.
    const passed = ["lane", "pipeline", "emit", "commitWith", "record"];
    const real = new Set([...found, ...passed]);
    expect(listWords("kind").toSorted()).toEqual([...real].toSorted());
  });

  test("has every code for which the command exits with 2", () => {
    const text = readFileSync(join(ROOT, "src/cli/output/exit-codes.ts"), "utf8");
    const usage = [...text.matchAll(new RegExp(`"(${CODE})"`, "g"))].map(([, code = ""]) => code);
    const codes = usage.filter((code) => !code.startsWith("SIG"));
    expect(codes.filter((code) => !shown.includes(code))).toEqual([]);
  });
});

describe("cli.md", async () => {
  const page = readPage("docs/reference/cli.md");
  const text = readFileSync(join(ROOT, page.path), "utf8");
  const printed = new Map<string, string>();
  const work = new Workspace();
  afterAll(() => work.remove());
  /** The output of --help of a command; requested once. */
  const help = async (command = ""): Promise<string> => {
    const known = printed.get(command);
    if (known !== undefined) return known;
    const words = command === "" ? [] : command.split(" ");
    const { code, stdout } = await work.run(...words, "--help");
    expect(code, `${command} --help`).toBe(0);
    printed.set(command, stdout);
    return stdout;
  };
  const program = await help();

  const sectionOf = (shown: string, title: string): string =>
    new RegExp(`^${title}:\\n((?:  .*\\n)+)`, "m").exec(shown)?.[1] ?? "";
  const readFlags = (section: string): string[] =>
    [...section.matchAll(/^ {2}(-\S.*?)(?: {2,}|$)/gm)].map(([, flags = ""]) => flags);
  const listCommands = (shown: string): string[] =>
    [...sectionOf(shown, "Commands").matchAll(/^ {2}([a-z]\S*)/gm)].map(([, name = ""]) => name);
  const commands = listCommands(program);
  /** With subcommands, such as `dead show`. */
  const all: string[] = [];
  for (const name of commands) {
    const own = name === "help" ? [] : listCommands(await help(name));
    all.push(name, ...own.map((sub) => `${name} ${sub}`));
  }

  /** The part of the page under a heading, up to the next one. */
  const partOf = (heading: string): string =>
    new RegExp(`^###? ${heading}\\n([\\s\\S]*?)(?=^###? |$(?![\\s\\S]))`, "m").exec(text)?.[1] ??
    "";
  /** A line may have several options. */
  const flagsIn = (part: string): string[] =>
    [...part.matchAll(/^- `(-[^:]*)`: /gm)].flatMap(([, flags = ""]) => flags.split("`, `"));

  test("the help lists commands", () => {
    expect(commands).toContain("run");
  });

  test.each(all)("has the options and arguments of %s as --help prints them", async (name) => {
    const part = partOf(name);
    expect(part, `a heading for ${name}`).not.toBe("");
    if (name === "help") return;
    const shown = await help(name);
    const own = readFlags(sectionOf(shown, "Options")).filter((flags) => !/--help/.test(flags));
    expect(flagsIn(part)).toEqual(own);
    const usage = /^Usage: (.*)$/m.exec(shown)?.[1]?.replace("[options] ", "") ?? "";
    expect(part).toContain(`\`${usage.replace(" [options]", "")}\``);
  });

  test("has the options of every command", () => {
    const shown = flagsIn(partOf("Options of every command")).toSorted();
    expect(shown).toEqual(readFlags(sectionOf(program, "Options")).toSorted());
  });

  test("has every command, in the words of the help", () => {
    const shown = findRows(page, "command", "what it does").map((row) => row.map(plain));
    const unwrapped = program.replaceAll(/\n {20,}/g, " ");
    for (const [command = "", what = ""] of shown) {
      expect(unwrapped).toMatch(
        new RegExp(`^ {2}${command.replace("sluice ", "")}\\b.* ${what}$`, "m"),
      );
    }
    expect(shown.map(([command = ""]) => command.replace("sluice ", ""))).toEqual(
      commands.filter((name) => name !== "help"),
    );
  });

  test("has the exit codes of the help", () => {
    const shown = findRows(page, "code", "meaning").map(([code, what]) => `${code} ${what}`);
    expect(shown).toEqual(EXIT_CODES_HELP.map((line) => line.replace(/\s+/, " ")));
  });
});
