/**
 * A separate process on a SQLite store, for tests of several processes at once:
 *   node store-process.ts submit <path> <batch>    opens the store, submits the batch, ends
 *   node store-process.ts work <path>              settles item by item until it is killed
 * It prints `opened` when the store is open and `working` after a few commits.
 */
import { openSqliteStore } from "../../src/adapters/sqlite/store.ts";
import { systemClock } from "../../src/runtime/system/system-clock.ts";
import { systemRandom } from "../../src/runtime/system/system-random.ts";
import { toMap, type Word } from "./outcome-words.ts";

const [mode, path, batch] = process.argv.slice(2);
const store = await openSqliteStore(path ?? "", { clock: systemClock, random: systemRandom });
console.log("opened");

if (mode === "submit") {
  await store.submit({
    id: batch ?? "",
    pipeline: "import",
    version: "1",
    lane: batch ?? "",
    key: null,
    input: "{}",
    inputHash: batch ?? "",
    resume: false,
    open: false,
    sealWithinMs: 60_000,
    deadlineAt: null,
    settings: {
      strict: false,
      steps: [
        {
          name: "import",
          chunkSize: 100,
          maxRedrives: 0,
          carries: false,
          budget: null,
          canary: null,
        },
      ],
    },
  });
  await store.close();
} else {
  const worker = await store.registerWorker({ name: "doomed" });
  const request = {
    worker,
    pipeline: "import",
    versions: ["1"],
    step: 0,
    batch: null,
    itemsMax: 1,
    chunksMax: 1,
    leaseMs: 3_600_000,
    slots: 1,
    keeps: [],
  };
  let commits = 0;
  for (;;) {
    const [lease] = (await store.work([], request)).leased;
    if (lease === undefined) break;
    const words: Word[] = Array.from({ length: lease.end - lease.start }, () => "pending");
    for (const [index] of words.entries()) {
      words[index] = index % 5 === 4 ? "failed" : "succeeded";
      const failed = index % 5 === 4;
      const failure = {
        index,
        key: null,
        attempts: 1,
        errorClass: "permanent" as const,
        code: "FIFTH",
        message: "every fifth fails",
        retryInMs: null,
      };
      await store.work(
        [
          {
            batch: lease.batch,
            step: lease.step,
            chunk: lease.chunk,
            fence: lease.fence,
            outcomes: toMap(words),
            failures: failed ? [failure] : [],
            results: failed ? [] : [{ index, key: null, value: String(lease.start + index) }],
            deferrals: [],
            checkpoints: [],
            contents: [],
            messages: [],
            commits: [],
            abandoned: [],
            limitWait: null,
            starting: [],
            intent: "keep",
            busyMs: 0,
          },
        ],
        null,
      );
      commits++;
      if (commits === 20) console.log("working");
    }
  }
}
