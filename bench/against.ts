/**
 * Questions about two builds instead of peers: each subject that measures Sluice runs in this
 * checkout and in another one, in turns, so that a change is judged within one run on one machine.
 * The other checkout must be built and have the same subjects.
 */
import { existsSync } from "node:fs";
import { basename } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import type { Subject } from "./measure.ts";
import { divide, type Question, type Target } from "./question.ts";

const HERE = new URL("..", import.meta.url).href;

/** What is missing in the other checkout; empty when its build can be measured. */
export function findMissingBuild(folder: string): readonly string[] {
  return ["dist/index.js", "bench/subjects/sluice.ts", "node_modules"].filter(
    (path) => !existsSync(new URL(path, locate(folder))),
  );
}

/**
 * Without the subjects that are not Sluice, and with the other build's twin beside each Sluice
 * subject.
 */
export function compareBuilds(question: Question, folder: string): Question {
  const ours = question.subjects.filter(({ script }) =>
    basename(fileURLToPath(script)).startsWith("sluice"),
  );
  return {
    ...question,
    subjects: ours.flatMap((subject) => [subject, makeTwin(subject, folder)]),
    targets: ours.flatMap(({ name }) =>
      question.shown.map(
        ({ name: figure, unit }): Target => ({
          what: `${name}: ${unit}, here / there`,
          compute: (median) => divide(median(name, figure), median(nameTwin(name), figure)),
          bound: null,
          unit: "x",
        }),
      ),
    ),
  };
}

function makeTwin(subject: Subject, folder: string): Subject {
  const script = new URL(subject.script.href.slice(HERE.length), locate(folder));
  return { ...subject, name: nameTwin(subject.name), script };
}

function nameTwin(name: string): string {
  return `${name} (there)`;
}

function locate(folder: string): URL {
  return pathToFileURL(`${folder.replace(/\/$/, "")}/`);
}
