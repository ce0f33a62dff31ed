/** The page about JSON output lists the fields that the commands print, with their types. */
import { readFileSync } from "node:fs";
import { afterAll, beforeAll, expect, test } from "vitest";
import { readLines, Workspace } from "../../support/command-line.ts";

type Fields = ReadonlyMap<string, string>;

const page = readFileSync(new URL("../../../docs/reference/json.md", import.meta.url), "utf8");

/** For each object of the page its fields, including those of an object that it extends. */
const objects = new Map<string, Fields>();
for (const part of page.split(/^## /m).slice(1)) {
  const [title = ""] = part.split("\n", 1);
  const [, base] = /All fields of \[([^\]]+)\]/.exec(part) ?? [];
  // A line may have several fields of one type.
  const lines = [...part.matchAll(/^- (`[^(]+`) \(([^)]+)\)/gm)].flatMap(
    ([, fields = "", type = ""]) =>
      fields.split(", ").map((field) => [field.replaceAll("`", ""), type.trim()] as const),
  );
  objects.set(title, new Map([...(base === undefined ? [] : (objects.get(base) ?? [])), ...lines]));
}

const nameType = (value: unknown): string =>
  value === null ? "null" : Array.isArray(value) ? "list" : typeof value;

/** The differences between a printed value and the page, and the fields that were not printed. */
function compare(fields: Fields, value: object, prefix = ""): string[] {
  const level = [...fields.keys()].filter(
    (field) => field.startsWith(prefix) && !/[.[]/.test(field.slice(prefix.length)),
  );
  const printed = Object.entries(value);
  const missing = level.filter((field) => !printed.some(([name]) => prefix + name === field));
  return [
    ...missing.map((field) => `${field} is not printed`),
    ...printed.flatMap(([name, inner]: [string, unknown]) => {
      const field = prefix + name;
      const type = fields.get(field);
      if (type === undefined) return [`${field} is not on the page`];
      const types = type.split(" or ");
      if (type !== "any" && !types.includes(nameType(inner))) {
        return [`${field} is ${nameType(inner)}, and on the page ${type}`];
      }
      const has = (start: string): boolean =>
        [...fields.keys()].some((one) => one.startsWith(start));
      if (Array.isArray(inner) && has(`${field}[].`)) {
        return inner.flatMap((one: object) => compare(fields, one, `${field}[].`));
      }
      return nameType(inner) === "object" && has(`${field}.`)
        ? compare(fields, inner as object, `${field}.`)
        : [];
    }),
  ];
}

let work: Workspace;
const seen = new Set<string>();

/** Runs a command with --json and compares each line with the objects of these titles. */
async function check(args: readonly string[], ...titles: readonly string[]): Promise<object[]> {
  const { stdout, stderr } = await work.run(...args, "--json");
  const lines = readLines<object>(stdout);
  expect(lines, `${args.join(" ")}: ${stderr}`).not.toEqual([]);
  for (const line of lines) {
    const title = titles.length === 1 ? titles[0] : titles.find((one) => isOfKind(one, line));
    const fields = objects.get(title ?? "");
    expect("error" in line && title !== "Error" ? line : null).toBe(null);
    expect(fields, `${args.join(" ")} is on the page: ${JSON.stringify(line)}`).toBeDefined();
    expect(compare(fields ?? new Map(), line), `${args.join(" ")} prints ${title}`).toEqual([]);
    seen.add(title ?? "");
  }
  return lines;
}

/** For objects that have a kind: the first line of the page names it. */
function isOfKind(title: string, line: object): boolean {
  const [, kind = ""] =
    new RegExp(`^## ${title}$[^#]*?- \`kind\` \\(string\\): \`(\\w+)\``, "m").exec(page) ?? [];
  return "kind" in line && line.kind === kind;
}

const RUN = ["run", "pipeline.ts", "--input", "items.jsonl"];
const SUBMIT = ["submit", "pipeline.ts", "--input", "items.jsonl"];
const idOf = ([line]: readonly object[]): string => (line as { batch: string }).batch;

beforeAll(() => {
  work = new Workspace();
  work.writeItems(6);
  work.writePipeline(`topics: ["email"], caps: { lane: 5 },
    ledger: { item: true, states: ["RECEIVED"] }, maxRedrives: 0,
    process: (item: any, ctx: any) => {
      ctx.record("RECEIVED", { of: item.id });
      ctx.emit("email", { to: item.id });
      if (item.n === 3) throw new PermanentError("no such place", { code: "NO_PLACE" });
      return { to: item.id };
    }`);
  work.write(
    "sluice.config.ts",
    `import { commandSink } from "sluice";
     export default { notify: { ops: commandSink({ run: ["false"], attempts: 1 }) } };`,
  );
});
afterAll(() => work.remove());

test("batches, items and dead letters", async () => {
  const batch = idOf(await check(RUN, "Batch"));
  await check(["list"], "Full batch");
  await check(["status", batch], "Status");
  await check(["why", batch], "Why");
  await check(["results", batch], "Result");
  await check(["results", batch, "--outcome", "failed"], "Item");
  await check(["dead", batch], "Dead letter");
  await check(["dead", "show", batch, "3"], "Full dead letter");
  await check(["dead", "edit", batch, "3", "--set", '{"id":"x","n":1}', "--yes"], "Edit");
  await check(["redrive", batch, "--dry-run"], "Redrive");
  await check(["dead", "discard", batch, "--yes"], "Discard");
  await check(["dead", batch], "Dead letter");
  await check(["status", "b-unknown"], "Error");
});

test("operators' acts", async () => {
  const first = idOf(await check([...SUBMIT, "--lane", "case-1", "--key", "a"], "Batch"));
  const second = idOf(await check([...SUBMIT, "--lane", "case-1", "--key", "b"], "Batch"));
  await check(["why", first], "Why");
  await check(["pause", second, "--why", "audit"], "Pause");
  await check(["pause", "--lane", "case-1"], "Pause");
  await check(["lanes"], "Lane");
  await check(["lanes", "show", "case-1"], "Queued batch");
  await check(["status", second], "Status");
  await check(["resume", second], "Resume");
  await check(["resume", "--lane", "case-1"], "Resume");
  await check(["lanes", "policy", "case-1", "skip"], "Lane policy");
  await check(["lanes", "move", second, "--front"], "Move");
  await check(["limits"], "Limit");
  await check(["limits", "set", "rate", "letters", "5/s"], "Limit setting");
  await check(["limits"], "Limit");
  await check(["limits", "clear", "rate", "letters"], "Limit setting");
  await check(["limits", "history"], "Limit change");
  await check(["limits", "close", "letters", "site", "--for", "1h"], "Close");
  await check(["limits", "closed"], "Closed key");
  await check(["limits", "open", "letters", "site"], "Open");
  await check(["cancel", "--lane", "case-1", "--yes"], "Cancel");
  await check(["status", first], "Status");
});

test("topics and deliveries", async () => {
  await check(["topics"], "Topic");
  await check(["topics", "read", "email"], "Message");
  const [delivery] = await check(["topics", "undelivered"], "Delivery");
  const { delivery: number } = delivery as { delivery: number };
  await check(["topics", "discard", String(number), "--yes"], "Delivery act");
  work.write(
    "sluice.config.ts",
    `import { fileSink, jsonlSink } from "sluice";

     export default { notify: { ops: fileSink({ path: "events.jsonl" }) },
       consume: { email: { mailer: jsonlSink({ folder: "sent" }) } } };`,
  );
  await check(["topics", "retry", String(number + 1)], "Delivery act");
  await work.run(...RUN, "--key", "c");
  await check(["topics", "rewind", "email", "mailer", "--from", "1", "--yes"], "Rewind");
  await check(["topics"], "Topic");
  await check(["topics", "forget", "email", "mailer", "--yes"], "Forget");
  await check(["topics", "forget", "ops", "--yes"], "Forget");
});

test("ledgers", async () => {
  const batch = idOf(await check(RUN, "Batch"));
  await check(["ledger", "export", batch, "-o", "ledger.jsonl"], "Ledger export");
  await check(["ledger", "verify", "ledger.jsonl"], "Verdict");
  const forged = work.read("ledger.jsonl").replace("NO_PLACE", "NO_PLICE");
  await check(["ledger", "verify", work.write("forged.jsonl", forged)], "Broken verdict");
  await check(["ledger", "pack", batch, "-o", "evidence.zip"], "Pack");
  await check(["ledger", "show", batch], "Record", "Item record", "Details");
  await check(["ledger", "show", batch, "--item", "3"], "Item history");
  const [key] = await check(["ledger", "key"], "Key");
  const { key: id } = key as { key: string };
  await work.run("ledger", "prove", batch, "1", "-o", "proof.json");
  await check(["ledger", "check-proof", "proof.json", "--trust", id], "Proven record");
  await check(["ledger", "erase", batch, "--all", "--yes"], "Erase");
});

test("the store", async () => {
  await check(["doctor"], "Check");
  await check(["migrate"], "Migrate");
  await check(["copy", "copy.db"], "Copy");
  await check(["prune", "--keep", "0s", "--yes"], "Prune");
  await check(["init", "starter"], "Starter");
});

test("the page describes no object that no command prints", () => {
  expect([...seen].toSorted()).toEqual([...objects.keys()].toSorted());
});
