/**
 * Makes the processes of the pool return freed memory. By default glibc keeps freed large buffers
 * for later use, separately for several threads: a process that reads large scans held 260 MB with
 * it, and 200 MB without. The setting is read when a process starts, so it must be set before the
 * pool starts. A user's own setting wins.
 */
const SETTINGS = { MALLOC_TRIM_THRESHOLD_: "131072", MALLOC_ARENA_MAX: "2" };

export function returnFreedMemory(env: NodeJS.ProcessEnv = process.env): void {
  for (const [name, value] of Object.entries(SETTINGS)) env[name] ??= value;
}
