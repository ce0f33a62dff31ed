/** The engines' self-checks reported nothing, and no engine gave up unless it was told to. */
import { describeError, SluiceError } from "../../src/core/base/errors.ts";
import type { Checker, Scene } from "./checker.ts";

export function checkSoundNodes(scene: Scene): Checker {
  const mayStop = scene.plot.errands.some(({ doings }) =>
    doings.some((step) => step.some(({ does }) => does === "stop_worker")),
  );
  return {
    atEnd: () => {
      for (const { name, life, logs, failure } of scene.world.nodes) {
        for (const { level, event, message, error } of logs) {
          if (level !== "error" || event === "delivery.given_up") continue;
          if (event === "engine.failed" && (mayStop || wasToldToStop(error))) continue;
          scene.fail(`${name}.${life} says ${event}: ${message}`);
        }
        if (failure !== null) {
          scene.fail(`${name}.${life} gave up: ${describeError(failure).message}`);
        }
      }
    },
  };
}

/**
 * An engine that closes while the store is away cannot report what it has done; its leases run out.
 */
function wasToldToStop(error: unknown): boolean {
  return error instanceof SluiceError && error.retryable;
}
