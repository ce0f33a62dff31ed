/** SIGINT and SIGTERM: the first asks to stop in order, the second ends the process at once. */
import { EXIT } from "./exit-codes.ts";

export interface StopSignals {
  readonly signal: AbortSignal;
  /** The exit code after one of these signals. */
  readonly exitCode: number;
  close(): void;
}

export function watchSignals(): StopSignals {
  const stopping = new AbortController();
  let exitCode: number = EXIT.interrupted;
  const hear = (signal: NodeJS.Signals): void => {
    exitCode = signal === "SIGTERM" ? EXIT.terminated : EXIT.interrupted;
    close();
    process.stderr.write("\nstopping: running documents are finished or given back\n");
    stopping.abort();
  };
  // No listener remains for the second signal, so it ends the process.
  const close = (): void => {
    process.off("SIGINT", hear);
    process.off("SIGTERM", hear);
  };
  process.on("SIGINT", hear);
  process.on("SIGTERM", hear);
  return {
    signal: stopping.signal,
    get exitCode() {
      return exitCode;
    },
    close,
  };
}
