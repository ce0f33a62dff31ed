/** Topics with a kill at every commit: no message is lost, and a repeated one has the same id. */
import { expect, test } from "vitest";
import { definePipeline, PermanentError, TransientError } from "../../../src/index.ts";
import { killAtEveryCommit } from "../../../src/testing.ts";

interface Heard {
  readonly ids: string[];
}

/** The rest of ids `<batch>/<rest>`, each once, in order. */
const distinct = ({ ids }: Heard): string[] =>
  [...new Set(ids.map((id) => id.slice(id.indexOf("/") + 1)))].toSorted();

test("a consumer gets every message of an outcome, and no other, whenever it is killed", async () => {
  const report = await killAtEveryCommit({
    lostAnswers: true,
    setUp: (): Heard => ({ ids: [] }),
    onStart: (engine, heard) => {
      for (const topic of ["email", "errors"]) {
        engine.consume(topic, "mailer", ({ id }) => void heard.ids.push(id));
      }
    },
    batch: () => ({
      pipeline: definePipeline({
        name: "mails",
        chunkSize: 2,
        topics: { emit: ["email"], errors: "errors" },
        retry: { attempts: 2, baseMs: 1, capMs: 1 },
        maxRedrives: 0,
        process: (n: number, { emit, attempt }) => {
          emit("email", { n });
          emit("email", { n, again: true });
          if (n === 1 && attempt === 1) throw new TransientError("once more");
          if (n === 2) throw new PermanentError("never");
        },
      }),
      input: [0, 1, 2],
    }),
    check: (heard) => {
      expect(distinct(heard)).toEqual(["0/0/1/0", "0/0/1/1", "0/1/1/0", "0/1/1/1", "0/2/1/error"]);
    },
  });
  expect(report.kills).toBeGreaterThan(20);
  expect(report.lostAnswers).toBeGreaterThan(10);
});

test("several messages are acknowledged together and delivered again together", async () => {
  const report = await killAtEveryCommit({
    setUp: (): Heard => ({ ids: [] }),
    onStart: (engine, heard) =>
      engine.consume(
        "email",
        "mailer",
        (messages) => void heard.ids.push(...messages.map(({ id }) => id)),
        { batch: 3 },
      ),
    batch: () => ({
      pipeline: definePipeline({
        name: "mails",
        chunkSize: 10,
        topics: { emit: ["email"], route: () => "email" },
        process: (n: number) => n,
      }),
      input: Array.from({ length: 7 }, (_, n) => n),
    }),
    check: (heard) =>
      expect(distinct(heard)).toEqual(Array.from({ length: 7 }, (_, n) => `0/${n}/1/route`)),
  });
  expect(report.commits.filter((what) => what === "deliver").length).toBe(3);
});
