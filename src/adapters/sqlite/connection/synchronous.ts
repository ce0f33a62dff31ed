/** How SQLite writes a commit. The package exports the type, and nothing else of this store. */

export const SYNCHRONOUS_MODES = ["full", "normal"] as const;
/** `full`: a commit survives a power cut. `normal`: it survives any crash of processes. */
export type SynchronousMode = (typeof SYNCHRONOUS_MODES)[number];
