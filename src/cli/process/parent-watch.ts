/**
 * Under npm there is a shell between npm and the command. When npm is stopped, it ends that shell,
 * which does not pass the signal on: the command would be left behind. So this watches whether its
 * parent still exists.
 */
import type { Clock } from "../../ports/clock.ts";

const LOOK_EVERY_MS = 500;

/** Calls back once its parent is gone; does nothing where npm has not started it. */
export function onParentGone(env: NodeJS.ProcessEnv, clock: Clock, callback: () => void): void {
  if (env["npm_lifecycle_event"] === undefined) return;
  const parent = process.ppid;
  const look = (): void => {
    if (process.ppid === parent) clock.after(LOOK_EVERY_MS, look);
    else callback();
  };
  look();
}
