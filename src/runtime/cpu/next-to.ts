/** Programs of processes and threads of their own, which no import names. */

/** The file beside a module: TypeScript in the sources, JavaScript when it was built. */
export function nextTo(url: string, name: string): URL {
  return new URL(`./${name}${url.endsWith(".ts") ? ".ts" : ".js"}`, url);
}
