/** Loads a pipeline from the file that a user names. */
import { SluiceError } from "../../core/base/errors.ts";
import { isPipeline, type Pipeline } from "../../runtime/pipeline/pipeline.ts";
import { importDefault } from "./import-module.ts";
import { showPath } from "../output/show-path.ts";

export async function loadPipeline(file: string): Promise<Pipeline> {
  const exported = await importDefault(file, "pipeline");
  if (isPipeline(exported)) return exported;
  // How a compiler to CommonJS writes a default export.
  const inner = (exported as { readonly default?: unknown } | null | undefined)?.default;
  if (isPipeline(inner)) return inner;
  throw new SluiceError(
    "IMPORT_FAILED",
    `the default export of ${showPath(file)} is ${describeExport(exported)}, not a pipeline`,
    { hint: adviseExport(exported) },
  );
}

/** Several files for one worker; the same pipeline twice would be a mistake. */
export async function loadPipelines(files: readonly string[]): Promise<Pipeline[]> {
  const byName = new Map<string, { readonly file: string; readonly pipeline: Pipeline }>();
  for (const file of files) {
    const pipeline = await loadPipeline(file);
    const name = `${pipeline.name} version ${pipeline.version}`;
    const other = byName.get(name);
    if (other !== undefined) {
      throw new SluiceError(
        "IMPORT_FAILED",
        `${showPath(other.file)} and ${showPath(file)} both define the pipeline ${name}`,
        { hint: "Name only one of them, or give one another name or version." },
      );
    }
    byName.set(name, { file, pipeline });
  }
  return [...byName.values()].map(({ pipeline }) => pipeline);
}

function describeExport(exported: unknown): string {
  if (exported === null) return "null";
  if (Array.isArray(exported)) return "an array";
  if (typeof exported === "function") return "a function";
  return typeof exported === "object" ? "an object" : `a ${typeof exported}`;
}

function adviseExport(exported: unknown): string {
  if (exported instanceof Promise) return "Export the pipeline itself: export default await ...";
  return 'Wrap it: export default definePipeline({ name: "...", source, process }).';
}
