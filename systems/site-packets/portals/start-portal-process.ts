/**
 * Starts the portals of a corpus in a child process, so that they do not slow the event loop of the
 * measured ingest. The child ends with this process, however it ends.
 */
import { fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import type { PortalOptions } from "./portal.ts";
import type { FromPortals, ToPortals } from "./portal-process.ts";
import type { PortalRequest } from "./request-log.ts";

export interface PortalProcess {
  readonly pid: number;
  /** `http://127.0.0.1:<port>` of each site. */
  readonly origins: ReadonlyMap<string, string>;
  /** As `requests()` of portals in this process; the times are of this process's clock as well. */
  readLog(): Promise<readonly PortalRequest[]>;
  /** Resolves when the process is gone. */
  close(): Promise<void>;
}

interface Question {
  readonly resolve: (requests: readonly PortalRequest[]) => void;
  readonly reject: (error: Error) => void;
}

const CHILD_FILE = fileURLToPath(new URL("./portal-process.ts", import.meta.url));

export async function startPortalProcess(options: PortalOptions): Promise<PortalProcess> {
  // Without the flags of this process: those of a test runner or a debugger are not meant for it.
  const child = fork(CHILD_FILE, [JSON.stringify(options)], { execArgv: [] });
  const gone = once(child, "exit");
  const started = Promise.withResolvers<ReadonlyMap<string, string>>();
  const questions = new Map<number, Question>();
  let asked = 0;

  child.on("message", (message: FromPortals) => {
    if (message.kind === "started") {
      started.resolve(new Map(message.origins));
    } else if (message.kind === "failed") {
      started.reject(new Error(`the portals did not start: ${message.message}`));
    } else {
      const laterMs = message.clockOriginMs - performance.timeOrigin;
      const requests = message.requests.map((request) => ({
        ...request,
        atMs: request.atMs + laterMs,
      }));
      questions.get(message.question)?.resolve(requests);
      questions.delete(message.question);
    }
  });
  child.once("exit", (code, signal) => {
    const error = new Error(`the portals' process has ended (${signal ?? code})`);
    started.reject(error);
    for (const { reject } of questions.values()) reject(error);
    questions.clear();
  });

  const origins = await started.promise;
  return {
    pid: child.pid ?? 0,
    origins,
    readLog: () => {
      const { promise, resolve, reject } = Promise.withResolvers<readonly PortalRequest[]>();
      const question = ++asked;
      questions.set(question, { resolve, reject });
      child.send({ kind: "read-log", question } satisfies ToPortals, (error) => {
        if (error === null) return;
        questions.delete(question);
        reject(error);
      });
      return promise;
    },
    close: async () => {
      if (child.connected) child.disconnect();
      await gone;
    },
  };
}
