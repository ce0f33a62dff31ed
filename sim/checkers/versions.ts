/** Old and new code side by side: a batch runs only on code that accepts its version. */
import { type Checker, describeRun, type Scene } from "./checker.ts";

export function checkVersions(scene: Scene): Checker {
  return {
    onStart: (run) => {
      const version = scene.world.store.state.batches.get(run.batch)?.submission.version;
      const { release } = run;
      if (version === undefined || version === release.version) return;
      if (!release.accepts.includes(version)) {
        scene.fail(`${describeRun(run)} of version ${version} with the code of ${release.version}`);
      }
    },
  };
}
