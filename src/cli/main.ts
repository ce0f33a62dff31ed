#!/usr/bin/env node
/**
 * The command's entry. It looks at Node's version before anything else is loaded, so that an old
 * Node gets a sentence and not a syntax error: hence no imports and no new syntax here. It alone
 * ends the process and sets its exit code.
 */
const NODE_NEEDED_MAJOR = 22;
const NODE_NEEDED_MINOR = 18;
const EXIT_FAILED = 1;
const EXIT_USAGE = 2;

const version = process.versions.node.split(".").map(Number);
const major = version[0] || 0;
const minor = version[1] || 0;

if (major < NODE_NEEDED_MAJOR || (major === NODE_NEEDED_MAJOR && minor < NODE_NEEDED_MINOR)) {
  process.stderr.write(
    `error OLD_NODE: Sluice needs Node ${NODE_NEEDED_MAJOR}.${NODE_NEEDED_MINOR} or newer, this is ${process.versions.node}\n` +
      "hint: Get a newer one from nodejs.org or your package manager; with nvm: nvm install 24\n",
  );
  process.exitCode = EXIT_USAGE;
} else {
  start();
}

function start(): void {
  let finished = false;
  // A promise that never settles empties the event loop, and Node would call that a success.
  process.exitCode = EXIT_FAILED;
  process.on("exit", () => {
    if (finished) return;
    process.stderr.write(
      "error UNFINISHED: the command exited early: a promise never settled\n" +
        "hint: Look for a promise in the pipeline that never settles. To resume the batch, run the same command.\n",
    );
  });
  const exitNow = (code: number): never => {
    finished = true;
    process.exit(code);
  };
  import("./process/node-warnings.ts")
    .then(({ hideExperimentalWarnings }) => {
      // Before anything loads SQLite, which is when Node warns of it.
      hideExperimentalWarnings();
      return import("./process/early-signals.ts");
    })
    .then(({ exitOnSignals }) => {
      exitOnSignals(exitNow);
      return import("./program.ts");
    })
    .then(({ runProgram, reportCrash }) => {
      process.on("uncaughtException", (error) => {
        reportCrash(error);
        exitNow(EXIT_FAILED);
      });
      return runProgram(process.argv.slice(2), exitNow);
    })
    .then(exitNow)
    .catch((error: unknown) => {
      process.stderr.write(`${String(error instanceof Error ? error.stack : error)}\n`);
      exitNow(EXIT_FAILED);
    });
}
