/** Pipelines and situations that several tests about operators start from. */
import { appendFileSync } from "node:fs";
import { COMMAND, readLines, type Running, type Workspace } from "../../support/command-line.ts";

/** Every fifth item fails until the file `fixed` exists. */
const FAILS = `process: (item) => {
  if (item.n % 5 === 0 && !existsSync("fixed")) {
    throw new PermanentError("no address for " + item.id, { code: item.n % 2 === 0 ? "EVEN" : "ODD" });
  }
  return { to: item.id };
}`;

/** Items write their start, then wait for the file `go`, or for their signal. */
export const HELD = `chunkSize: 5, process: async (item, { signal }) => {
  appendFileSync("ran.txt", item.id + "\\n");
  writeSync(2, "STARTED\\n");
  while (!existsSync("go") && !signal.aborted) {
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  signal.throwIfAborted();
  return item.n;
}`;

/** The same, but they ignore their signal. */
export const DEAF = HELD.replace(" && !signal.aborted", "").replace("signal.throwIfAborted();", "");

/** Two steps. In the second one every third item fails until the file `fixed` exists. */
export const TWO_STEPS = `import { definePipeline, PermanentError } from "sluice";
import { existsSync, writeSync } from "node:fs";
export default definePipeline({
  name: "case",
  steps: [
    {
      name: "documents",
      source: () => Array.from({ length: 6 }, (_, n) => ({ n })),
      key: (item: { n: number }) => "doc" + item.n,
      process: (item: { n: number }) => {
        if (item.n === 5 && !existsSync("fixed")) throw new PermanentError("five", { code: "FIVE" });
        return { page: item.n };
      },
    },
    {
      name: "pages",
      key: (item: { page: number }) => "page" + item.page,
      process: async (item: { page: number }) => {
        writeSync(2, "PAGES\\n");
        while (existsSync("hold")) await new Promise((resolve) => setTimeout(resolve, 5));
        if (item.page === 2 && !existsSync("fixed")) throw new PermanentError("two", { code: "TWO" });
        return { indexed: item.page };
      },
    },
  ],
});
`;

const SUBMIT = ["submit", "pipeline.ts", "--input", "items.jsonl"];

export async function submit(work: Workspace, ...args: string[]): Promise<string> {
  const { stdout } = await work.run(...SUBMIT, ...args);
  return stdout.trim();
}

/** A batch of twenty items, four of which fail. */
export async function runFailing(work: Workspace, items = 20): Promise<string> {
  work.writePipeline(FAILS);
  const { view } = await work.runJson("run", "pipeline.ts", "--input", work.writeItems(items));
  return view.batch;
}

/** One JSON object a line. */
export async function runLines<Line>(work: Workspace, ...args: string[]): Promise<Line[]> {
  return readLines<Line>((await work.run(...args, "--json")).stdout);
}

/** A real worker with a running handler. */
export async function startHeldWorker(
  work: Workspace,
  env: Readonly<Record<string, string>> = {},
): Promise<Running> {
  const worker = work.start(["work", "pipeline.ts"], { env });
  await worker.waitFor(/STARTED/);
  return worker;
}

export async function stopWorker(worker: Running): Promise<void> {
  worker.signal("SIGTERM");
  await worker.ended;
}

/** A command on a terminal: keys are typed when the pattern is on the screen. */
export async function runOnTerminal(
  work: Workspace,
  args: readonly string[],
  waitFor: RegExp,
  keys: string,
  env: Readonly<Record<string, string>> = {},
): Promise<{ readonly code: number | null; readonly screen: string }> {
  const quoted = [process.execPath, COMMAND, ...args].map((word) => `'${word}'`).join(" ");
  // Opened for reading and writing, so that the terminal's input does not end during the test.
  const script = `[ -p keys ] || mkfifo keys; exec 3<>keys; script -qec "$COMMAND_LINE" /dev/null <&3`;
  const running = work.startProgram("bash", ["-c", script], {
    TERM: "xterm",
    COMMAND_LINE: quoted,
    ...env,
  });
  await running.waitFor(waitFor);
  appendFileSync(work.at("keys"), keys);
  const { code, stdout } = await running.ended;
  return { code, screen: stdout };
}

/** `script` makes a terminal; not every machine has it. */
export async function hasTerminals(work: Workspace): Promise<boolean> {
  const { code } = await work
    .startProgram("script", ["--version"])
    .ended.catch(() => ({ code: null }));
  return code === 0;
}
