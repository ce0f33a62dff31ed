import { expect, test } from "vitest";
import { listFiles, renderReport, type ReportFacts } from "./evidence-report.ts";

const HOSTILE = "\u202egnp.exe\u001b[31m<b>&\u2028";
const SPELLED = "\\u{202e}gnp.exe\\x1b[31m&lt;b&gt;&amp;\\u{2028}";

const entry = (text: string) =>
  ({ kind: "batch", record: "1", at: text, type: text, data: { [text]: text } }) as const;

test("text from outside cannot change what a reader sees", () => {
  const letter = { step: HOSTILE, item: 1, key: HOSTILE, code: HOSTILE, message: HOSTILE };
  const facts = {
    view: { batch: "b-1", state: "failed", lane: HOSTILE, [HOSTILE]: HOSTILE, steps: [] },
    records: [entry(HOSTILE)],
    acts: [entry(HOSTILE)],
    letters: [{ ...letter, attempts: 1, discarded: { by: HOSTILE, why: null } }],
    verdict: { kind: "broken", line: 1, record: null, why: HOSTILE },
    takenAt: 0,
    files: listFiles(true),
  };
  const page = renderReport(facts as unknown as ReportFacts);
  // Line ends of the page itself are none of it.
  expect(page.replaceAll("\n", "")).not.toMatch(/[\p{C}\p{Zl}\p{Zp}]/u);
  expect(page.split(SPELLED).length - 1).toBeGreaterThan(10);
});
