/** Asks the person at the terminal, where there is one. */
import { createInterface } from "node:readline";
import tty from "node:tty";

const STDIN = 0;
const STDERR = 2;

/** Answers what was typed; an empty text when the input ends first. */
export type Ask = (question: string) => Promise<string>;

/** Null without a terminal: in a pipe, in a script, in the background. */
export function makeAsk(getProcess: () => NodeJS.Process): Ask | null {
  if (!tty.isatty(STDIN) || !tty.isatty(STDERR)) return null;
  // Standard input is opened by the first look at it, which is not wanted before.
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

/** Only a plain yes is one. */
export function isYes(answer: string): boolean {
  return /^y(es)?$/i.test(answer.trim());
}
