/**
 * Keeps three warnings of Node from people who cannot act on them: that SQLite and type stripping
 * are experimental, and that a folder without `"type": "module"` costs a second look at the file.
 * Every other warning is shown as usual.
 */
const HIDDEN_FEATURES = /^(SQLite|Type Stripping)\b/;
const HIDDEN_CODE = "MODULE_TYPELESS_PACKAGE_JSON";

type EmitWarning = (warning: string | Error, ...rest: unknown[]) => void;

export function hideExperimentalWarnings(): void {
  const emit = process.emitWarning.bind(process) as EmitWarning;
  const filtered: EmitWarning = (warning, ...rest) => {
    if (!isHidden(warning, rest)) emit(warning, ...rest);
  };
  process.emitWarning = filtered;
}

interface WarningOptions {
  readonly type?: string;
  readonly code?: string;
}

/** Called as (text, type, code) or as (text, { type, code }). */
function isHidden(warning: string | Error, [second, third]: readonly unknown[]): boolean {
  const options: WarningOptions =
    typeof second === "object" && second !== null
      ? second
      : { type: String(second), code: String(third) };
  const { name, message } =
    warning instanceof Error ? warning : { name: options.type, message: warning };
  const isExperimental = name === "ExperimentalWarning" && HIDDEN_FEATURES.test(message);
  return isExperimental || options.code === HIDDEN_CODE;
}
