/** Reads the text format of Prometheus. */
export interface Sample {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

export function readSamples(text: string): Sample[] {
  return text
    .split("\n")
    .filter((line) => line !== "" && !line.startsWith("#"))
    .map((line) => {
      const [, name = "", inner = "", value = ""] = /^(\w+)(?:\{(.*)\})? (\S+)$/.exec(line) ?? [];
      const labels = [...inner.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)].map(
        ([, label = "", text = ""]) => [label, text] as const,
      );
      return { name, labels: Object.fromEntries(labels), value: Number(value) };
    });
}

/** The metrics that a page has, with their types. */
export function readTypes(text: string): Map<string, string> {
  const lines = text.matchAll(/^# TYPE (\w+) (\w+)$/gm);
  return new Map([...lines].map(([, name = "", type = ""]) => [name, type]));
}

/** The only value with these labels, whatever its other labels. */
export function findValue(
  text: string,
  name: string,
  labels: Readonly<Record<string, string>> = {},
): number | null {
  const found = readSamples(text).filter(
    (sample) =>
      sample.name === name &&
      Object.entries(labels).every(([label, value]) => sample.labels[label] === value),
  );
  return found.length === 1 ? (found[0]?.value ?? null) : null;
}
