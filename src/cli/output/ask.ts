/** Asks questions on the terminal, if there is one. */
import { createInterface } from "node:readline";
import tty from "node:tty";

const STDIN = 0;
const STDERR = 2;

/** Resolves with the typed line, or with an empty text if the input ends first. */
export type Ask = (question: string) => Promise<string>;

/** Null without a terminal: in a pipe, in a script, in the background. */
export function makeAsk(getProcess: () => NodeJS.Process): Ask | null {
  if (!tty.isatty(STDIN) || !tty.isatty(STDERR)) return null;
  // Reading `stdin` opens it, so it is read only when a question is asked.
  return (question) => askOn(getProcess().stdin, getProcess().stderr, question);
}

export function askOn(
  input: NodeJS.ReadableStream,
  output: NodeJS.WritableStream,
  question: string,
): Promise<string> {
  const lines = createInterface({ input, output });
  return new Promise((resolve) => {
    lines.on("close", () => resolve(""));
    lines.question(question, (answer) => {
      resolve(answer);
      lines.close();
    });
  });
}

/** Only `y` and `yes` confirm. */
export function isYes(answer: string): boolean {
  return /^y(es)?$/i.test(answer.trim());
}
