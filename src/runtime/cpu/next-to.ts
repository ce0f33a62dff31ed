/** Finds the entry files of child processes and threads, which no import names. */

/** The file beside a module: TypeScript in the sources, JavaScript in the build. */
export function nextTo(url: string, name: string): URL {
  return new URL(`./${name}${url.endsWith(".ts") ? ".ts" : ".js"}`, url);
}
